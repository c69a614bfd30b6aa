"""What batch mode writes: one object a step, the state after the step's finishes were freed."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from kvtop.engine.runner import CacheReads
from kvtop.memory.events import Tier
from kvtop.session.run import Run


def step_report(run: Run, *, tables: bool = False) -> dict[str, Any]:
    """The counters after the newest step. Everything but `timing` depends on seed and options alone.

    Blocks: `used` (reference count above 0) + `cached` (0 and a hash) + `free` = `total`. `tokens.stored`
    counts filled slots of used blocks, each once, of `tokens.slots` = used x block size. `sequences.running`,
    `waiting` and `swapped` count sequences, the others requests. `prefix` is in tokens, of first admissions.
    With a model, `kv_bytes_read`, `kv_blocks_read` and `kv_runs_read` say what this step's attention read of
    the cache (see `kvtop.engine.runner.CacheReads`); without one nothing is read, and they are absent.
    """
    manager, scheduler = run.manager, run.scheduler
    pool, counts = manager.pool, scheduler.counts
    running, waiting, swapped = scheduler.sequence_counts()
    report: dict[str, Any] = {
        "step": run.engine.steps,
        "blocks": {
            "total": pool.num_blocks,
            "used": pool.used_blocks,
            "cached": pool.cached_blocks,
            "free": pool.available_blocks - pool.cached_blocks,
        },
        "tokens": {"stored": manager.stored_tokens(), "slots": pool.used_blocks * pool.block_size},
        "host_blocks": {"total": manager.host_pool.num_blocks, "used": manager.host_pool.used_blocks},
        "sequences": {
            "running": running,
            "waiting": waiting,
            "swapped": swapped,
            "finished": counts["finished"],
            "aborted": counts["aborted"],
            "rejected": counts["rejected"],
        },
        "preemptions": {"swap": counts["swap"], "recompute": counts["recompute"]},
        "cow_copies": manager.cow_copies,
        "evictions": pool.evictions,
        "prefix": {"queries": manager.prefix_queries, "hits": manager.prefix_hits},
        "generated_tokens": counts["generated"],
    }
    if run.runner.info.attention is not None:
        reads = run.engine.reads or CacheReads(0, 0, 0)
        report["kv_bytes_read"] = reads.kv_bytes
        report["kv_blocks_read"] = reads.blocks
        report["kv_runs_read"] = reads.runs
    if tables:
        device = [table for table in manager.tables.values() if table.tier is Tier.DEVICE]
        report["tables"] = {
            table.name: list(table.blocks) for table in sorted(device, key=lambda table: table.sequence)
        }
        report["ref_counts"] = {str(block): count for block, count in enumerate(pool.ref_counts) if count}
    schedule, compute, update = run.engine.timings
    report["timing"] = {"schedule_s": schedule, "run_s": compute, "update_s": update}
    return report


def summary_report(run: Run, seconds: float, *, tables: bool = False) -> dict[str, Any]:
    """The last counters, the peak, and the speed over `seconds` of stepping."""
    report = step_report(run, tables=tables)
    del report["timing"]
    report["peak_blocks_used"] = run.engine.peak_blocks_used
    report["steps"] = run.engine.steps
    report["requests"] = run.engine.requests
    rate = report["generated_tokens"] / seconds if seconds > 0 else None
    report["timing"] = {"elapsed_s": seconds, "tokens_per_s": rate}
    return report


def as_json(report: dict[str, Any]) -> str:
    """One line of JSON."""
    return json.dumps(report, separators=(",", ":"))


def flatten(report: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values: `blocks.used`, 12."""
    for key, value in report.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def as_csv(report: dict[str, Any], *, header: bool) -> str:
    """One CSV row with dotted column names, after the header if asked; an absent value is empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names, values = zip(*flatten(report), strict=True)
    if header:
        writer.writerow(names)
    writer.writerow(values)
    return buffer.getvalue().rstrip("\n")


def as_text(report: dict[str, Any]) -> str:
    """One line for people."""
    blocks, tokens, sequences = report["blocks"], report["tokens"], report["sequences"]
    preemptions = report["preemptions"]
    return (
        f"step {report['step']:>6}  "
        f"blocks {blocks['used']:>5} used {blocks['cached']:>5} cached {blocks['free']:>5} free  "
        f"tokens {tokens['stored']:>7} / {tokens['slots']:<7}  "
        f"running {sequences['running']:>3} waiting {sequences['waiting']:>3} "
        f"swapped {sequences['swapped']:>3}  "
        f"done {sequences['finished']:>4}  preempted {preemptions['recompute']}r {preemptions['swap']}s  "
        f"copies {report['cow_copies']}  evictions {report['evictions']}  "
        f"generated {report['generated_tokens']}"
    )


def summary_text(report: dict[str, Any]) -> str:
    """The summary for people: a name and a value a line, units in the names."""
    return "\n".join(f"{name:<24} {value}" for name, value in flatten(report))
