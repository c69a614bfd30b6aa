"""How the benchmarks measure: CPU time of this thread or process, best of a few runs, in one table.

Wall time on a shared machine says more about its neighbours than about the program, so every figure here is
CPU time, and every claim a ratio of two figures taken in the same run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def one_thread() -> None:
    """Call before torch or Numba is imported."""
    for name in ONE_THREAD:
        os.environ[name] = "1"
    os.environ["OMP_WAIT_POLICY"] = "passive"


def best_thread_seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The least CPU time of this thread over some runs of `work`."""
    best = float("inf")
    for _ in range(repeats):
        began = time.thread_time()
        work()
        best = min(best, time.thread_time() - began)
    return best


def say(what: str, figure: str, budget: str = "", held: bool | None = None) -> None:
    """One line of a benchmark's table."""
    verdict = "" if held is None else ("  held" if held else "  MISSED")
    print(f"{what:<58} {figure:>16}  {budget}{verdict}", flush=True)
