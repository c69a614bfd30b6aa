"""What the parts of the check share: the device, the clock, and what has been found so far."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
SCHEMA_VERSION = 1


class Clock:
    """A span of time that runs out."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds; 0 when it has run out."""
        return max(0.0, self._end - time.monotonic())


@dataclass
class Findings:
    """Figures, checks and what was left out; all of it goes into the JSON file. Absent figures are absent."""

    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By part: its figures, units in their names, and `seconds`."""
    checks: list[dict[str, Any]] = field(default_factory=list)
    """`kernel`, `dtype`, `cases`, `max_error`, `tolerance`, `held`."""
    budgets: list[dict[str, Any]] = field(default_factory=list)
    """`name`, `figure`, `bound`, `held`: a budget that is missed fails nothing."""
    left_out: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether nothing was checked or measured: all was left out."""
        return not self.checks and not any(set(figures) - {"seconds"} for figures in self.parts.values())

    @property
    def passed(self) -> bool:
        """Whether everything that was checked is right."""
        return not self.failures and all(check["held"] for check in self.checks)

    def check(
        self, kernel: str, dtype: str, error: float, tolerance: float, cases: int = 1, worst: str = ""
    ) -> None:
        """Note how far a result is from the right one; several checks of one kernel and type become one."""
        error = error if error == error else float("inf")
        same = (c for c in self.checks if (c["kernel"], c["dtype"]) == (kernel, dtype))
        found = next(same, None)
        if found is None:
            found = {"kernel": kernel, "dtype": dtype, "cases": 0, "max_error": 0.0, "tolerance": tolerance}
            found |= {"held": True, "worst": ""}
            self.checks.append(found)
        found["cases"] += cases
        if error >= found["max_error"]:
            found["max_error"], found["worst"] = error, worst
        found["held"] = found["held"] and error <= tolerance

    def merge(self, other: dict[str, Any]) -> None:
        """Add what another process found, as its JSON says."""
        for name, figures in other["parts"].items():
            mine = self.parts.setdefault(name, {})
            longest = max(mine.get("seconds", 0.0), figures.get("seconds", 0.0))
            mine |= figures | {"seconds": longest}
        for check in other["checks"]:
            error = float("inf") if check["max_error"] is None else check["max_error"]
            self.check(
                check["kernel"], check["dtype"], error, check["tolerance"], check["cases"], check["worst"]
            )
        self.budgets += other["budgets"]
        self.left_out += other["left_out"]
        self.failures += other["failures"]


@dataclass
class Session:
    """One run of the check."""

    device: torch.device
    quick: bool
    clock: Clock
    """Of the part under way."""
    findings: Findings
    temporary: Path
    """A folder for files that are not kept."""
    share: tuple[int, int] = (0, 1)
    """Of the checks, which part is this process's: (i, n) takes every n-th from the i-th on."""
    figures: dict[str, Any] = field(default_factory=dict)
    """Of the part under way."""
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    """That were started: none may outlive the check."""

    @property
    def cuda(self) -> bool:
        """Whether there is a GPU: else kernels are interpreted, sizes tiny, and nothing is timed."""
        return self.device.type == "cuda"

    def leave_out(self, what: str) -> None:
        """Say and note that something was not done."""
        self.findings.left_out.append(what)
        print(f"left out: {what}", flush=True)

    def fail(self, what: str) -> None:
        """Say and note that something is wrong: exit code 1."""
        self.findings.failures.append(what)
        print(f"FAILED: {what}", flush=True)

    def budget(self, name: str, figure: float, bound: float, held: bool) -> None:
        """Note a budget."""
        self.findings.budgets.append({"name": name, "figure": figure, "bound": bound, "held": held})


def say(what: str, figure: str = "", verdict: str = "") -> None:
    """One line."""
    print(f"{what:<62} {figure:>24}  {verdict}".rstrip(), flush=True)


def write_json(path: Path, report: dict[str, Any]) -> None:
    """Whole or not at all; what is not a finite number is null, as JSON has it."""
    beside = path.resolve().with_name(f".{path.name}.{os.getpid()}")
    with beside.open("w", encoding="utf-8") as file:
        json.dump(_finite(report), file, indent=1, allow_nan=False)
        file.write("\n")
    beside.replace(path)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value
