"""The table at the end, and the JSON file."""

from __future__ import annotations

from typing import Any

from gpu.session import SCHEMA_VERSION, Findings, say

_DETAILS = ("cases", "longest_kernels_us")


def report(
    findings: Findings, machine: dict[str, Any], options: dict[str, Any], elapsed: float
) -> dict[str, Any]:
    """What the JSON file holds. Changes nothing."""
    return {
        "schema_version": SCHEMA_VERSION,
        **machine,
        "options": options,
        "passed": findings.passed,
        "elapsed_s": elapsed,
        "parts": findings.parts,
        "checks": findings.checks,
        "budgets": findings.budgets,
        "left_out": findings.left_out,
        "failures": findings.failures,
    }


def print_machine(machine: dict[str, Any]) -> None:
    """One line for the device, one for the versions."""
    device = machine["device"]
    if "name" in device:
        memory = device["memory_bytes"] / 2**30
        print(
            f"{device['name']}, {device['processors']} processors, {memory:.0f} GiB, {machine['cpus']} CPUs"
        )
    print(", ".join(f"{name} {version}" for name, version in machine["versions"].items()), flush=True)


def print_report(findings: Findings, elapsed: float) -> None:
    """The table."""
    print("\n== results")
    for check in findings.checks:
        error = f"{check['max_error']:.2e} of {check['tolerance']:.1e}"
        verdict = "right" if check["held"] else f"WRONG: {check['worst']}"
        say(f"{check['kernel']}, {check['dtype']}, {check['cases']} cases: largest error", error, verdict)
    for part, figures in findings.parts.items():
        for name, value in figures.items():
            if name not in _DETAILS and isinstance(value, (int, float)):
                say(f"{part}: {name}", f"{value:,.3f}" if isinstance(value, float) else f"{value:,}")
        _print_cases(part, figures.get("cases", []))
    for budget in findings.budgets:
        held = "held" if budget["held"] else "MISSED"
        say(f"budget: {budget['name']}", f"{budget['figure']:.3g}", f"{budget['bound']:g}  {held}")
    for what in findings.left_out:
        print(f"left out: {what}")
    for what in findings.failures:
        print(f"FAILED: {what}")
    verdict = "everything that was checked is right" if findings.passed else "something is WRONG"
    print(f"{verdict}; {elapsed:.0f} s", flush=True)


def _print_cases(part: str, cases: list[dict[str, Any]]) -> None:
    """One line a shape, under the names of its figures; what a shape has not is blank."""
    names = list(dict.fromkeys(name for case in cases for name in case if name not in _DETAILS))
    if not names:
        return
    rows = [names, *([_text(case.get(name)) for name in names] for case in cases)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print(f"{part}: " + "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)))


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,.3f}" if isinstance(value, float) else str(value)
