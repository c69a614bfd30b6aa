"""`kvtop run --batch`: no screen, one line a step on standard output."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from kvtop import report as reports
from kvtop.memory.errors import InvariantError
from kvtop.memory.events import parse_sequence
from kvtop.options import UsageError
from kvtop.session.run import Run


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How batch mode writes. `steps` None runs until the workload is done."""

    steps: int | None = None
    format: str = "text"
    """`text`, `json` or `csv`."""
    tables: bool = False
    summary: bool = False
    outputs: Path | None = None

    def __post_init__(self) -> None:
        if self.tables and self.format != "json":
            raise UsageError("--tables writes nested objects: give --json with it")


def check_writable(path: Path) -> None:
    """Raise UsageError now if `--outputs` could not be written at the end of a long run."""
    if path.is_dir():
        raise UsageError(f"--outputs {path}: is a folder, a file is needed")
    if not path.parent.is_dir():
        raise UsageError(f"--outputs {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise UsageError(f"--outputs {path}: no permission to write")


def run_batch(run: Run, options: BatchOptions) -> int:
    """Step until the workload ends or the steps are used up. Returns the exit code: 0, or 1 when a checked
    invariant does not hold (said on standard error)."""
    began = perf_counter()
    first = True
    try:
        while not run.engine.done and (options.steps is None or run.engine.steps < options.steps):
            run.step()
            if not options.summary:
                line = reports.step_report(run, tables=options.tables)
                print(_line(line, options.format, header=first), flush=True)
                first = False
    except InvariantError as error:
        print(f"kvtop: step {run.engine.steps}: {error}", file=sys.stderr)
        return 1
    if options.summary:
        summary = reports.summary_report(run, perf_counter() - began, tables=options.tables)
        text = reports.summary_text(summary) if options.format == "text" else None
        print(text or _line(summary, options.format, header=True), flush=True)
    if options.outputs is not None:
        write_outputs(run, options.outputs)
    return 0


def _line(report: dict[str, Any], format_: str, *, header: bool) -> str:
    if format_ == "json":
        return reports.as_json(report)
    if format_ == "csv":
        return reports.as_csv(report, header=header)
    return reports.as_text(report)


def write_outputs(run: Run, path: Path) -> None:
    """Write the generated token ids of finished sequences, in order of request and branch; a file is written
    whole or not at all."""
    ordered = sorted(run.engine.outputs.items(), key=lambda item: parse_sequence(item[0]))
    content = json.dumps(dict(ordered))
    if path.exists() and not path.is_file():
        path.write_text(content + "\n", encoding="utf-8")  # a pipe or a terminal cannot be replaced
        return
    path = path.resolve()
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content + "\n")
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
