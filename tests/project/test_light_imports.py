"""What must not be loaded: torch where only memory is looked at, and nothing heavy for `--help`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

FRAMEWORKS = {"torch", "transformers", "numba", "triton"}
SCREEN = {"textual", "rich"}

_REPORT = "import json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"


def _loaded(code: str, root: Path, run: Callable[..., str]) -> set[str]:
    loaded = set(json.loads(run([sys.executable, "-c", f"{code}\n{_REPORT}"], cwd=root).splitlines()[-1]))
    print(f"loaded: {sorted(loaded & (FRAMEWORKS | SCREEN | {'numpy', 'msgspec', 'click'}))}")
    return loaded


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("kvtop.memory", FRAMEWORKS | SCREEN),
        ("kvtop.memory.cache_manager", FRAMEWORKS | SCREEN),
        ("kvtop.memory.invariants", FRAMEWORKS | SCREEN),
        ("kvtop.scheduling", FRAMEWORKS | SCREEN),
        ("kvtop.scheduling.scheduler", FRAMEWORKS | SCREEN),
        ("kvtop.workload", FRAMEWORKS | SCREEN),
        ("kvtop.engine.engine", FRAMEWORKS | SCREEN),
        ("kvtop.engine.null_runner", FRAMEWORKS | SCREEN),
        ("kvtop.timeline", FRAMEWORKS | SCREEN),
        ("kvtop.timeline.state", FRAMEWORKS | SCREEN),
        ("kvtop.timeline.snapshot", FRAMEWORKS | SCREEN),
        ("kvtop.analysis.reservations", FRAMEWORKS | SCREEN),
        ("kvtop.session.session", FRAMEWORKS | SCREEN),
        ("kvtop.session.live", FRAMEWORKS | SCREEN),
        ("kvtop.assembly", FRAMEWORKS | SCREEN),
        ("kvtop.batch", FRAMEWORKS | SCREEN),
        ("kvtop.ui", FRAMEWORKS),
        ("kvtop.ui.app.app", FRAMEWORKS),
    ],
)
def test_importing_a_package_loads_no_framework(
    root: Path, run: Callable[..., str], module: str, forbidden: set[str]
) -> None:
    assert not _loaded(f"import {module}", root, run) & forbidden


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"]])
def test_help_loads_nothing_heavy(root: Path, run: Callable[..., str], arguments: list[str]) -> None:
    code = f"""
import sys
from kvtop.cli import main
sys.argv = ["kvtop", *{arguments!r}]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
"""
    assert not _loaded(code, root, run) & (FRAMEWORKS | SCREEN | {"numpy"})
