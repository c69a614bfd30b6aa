"""Runs the generator unbounded for some seconds, with the dashboard over it or without, and counts its steps.

usage: generator.py bare|screen SECONDS RESULT
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from kvtop.assembly import assemble
from kvtop.options import RunOptions
from kvtop.session.live import LiveSession
from kvtop.session.session import Phase
from kvtop.ui.app.app import KvtopApp
from kvtop.workload.scenario import load_scenario

WARM_STEPS = 60


def count(session: LiveSession, seconds: float, result: Path) -> None:
    """Wait until the pool is warm, count steps for a time, and write steps a second."""
    while session.status.phase is Phase.LOADING or steps(session) < WARM_STEPS:
        time.sleep(0.05)
    began, first = time.perf_counter(), steps(session)
    time.sleep(seconds)
    done, passed = steps(session) - first, time.perf_counter() - began
    result.write_text(f"{done / passed}\n")


def steps(session: LiveSession) -> int:
    """The generator's own counter: asking for a snapshot would be what is measured."""
    run = session._run
    return run.engine.steps if run is not None else 0


def main() -> None:
    kind, seconds, result = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
    options, scenario = RunOptions(seed=1), load_scenario("mixed")
    session = LiveSession(lambda progress: assemble(options, scenario, progress), speed=0)
    if kind == "bare":
        session.start()
        count(session, seconds, result)
        session.close()
        return
    app = KvtopApp(session)

    def then_leave() -> None:
        count(session, seconds, result)
        app.call_from_thread(app.exit)

    threading.Thread(target=then_leave, daemon=True).start()
    app.run()
    session.close()


if __name__ == "__main__":
    main()
