"""What the dashboard costs the generator: the model inside, unbounded, with and without a screen over it.

Steps a second swing with every neighbour on the machine, so two things are measured that do not: how much of
the time the generator's thread is kept waiting (it shares Python's lock with the screen), and how much of its
own time goes into snapshots. Their sum is what it is slowed by. The budget holds for a machine on which an
empty Textual app with a label at 20 Hz takes 2.9 % of a core; a slower one's is larger in proportion.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bench_dashboard import EMPTY, PYTHON, REFERENCE_CPU
from measure import one_thread, say
from terminal import TICKS, Terminal, measure

from kvtop.assembly import assemble
from kvtop.options import RunOptions
from kvtop.session.run import source_of
from kvtop.timeline.observer import Observer
from kvtop.workload.scenario import load_scenario

WARM, SECONDS = 10.0, 12.0
BUDGET = 0.03
SIZES = ((80, 24), (200, 50))
SCRIPT = str(Path(__file__).with_name("generator.py"))


def threads(pid: int) -> dict[str, float]:
    """Processor seconds of every thread of a process."""
    found = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        found[thread] = (int(fields[11]) + int(fields[12])) / TICKS
    return found


def generator_share(kind: str, size: tuple[int, int]) -> tuple[float, float]:
    """The share of a core that the generator's thread gets, and the screen's own."""
    with tempfile.NamedTemporaryFile() as result:
        terminal = Terminal([PYTHON, SCRIPT, kind, str(10 * SECONDS), result.name], size)
        terminal.read_for(WARM)
        before = threads(terminal.pid)
        terminal.read_for(SECONDS)
        after = threads(terminal.pid)
        terminal.close()
    shares = {thread: (seconds - before.get(thread, 0.0)) / SECONDS for thread, seconds in after.items()}
    screen = shares.pop(str(terminal.pid), 0.0)
    return max(shares.values(), default=0.0), screen


def snapshot_share(frames: float) -> float:
    """Share of the generator's time that goes into so many snapshots a second."""
    run = assemble(RunOptions(model="none", seed=1), load_scenario("mixed"))
    observer = Observer(run.manager.pool.num_blocks, 16, run.manager.host_pool.num_blocks)
    run.bus.subscribe(observer.hear)
    source, spent, number = source_of(run), 0.0, 0
    for step in range(400):
        run.step()
        if step >= 200:
            began = time.thread_time()
            observer.snapshot(source, figures=observer.figures())
            spent, number = spent + time.thread_time() - began, number + 1
    return frames * spent / number


def main() -> None:
    one_thread()
    os.environ["KVTOP_STATE_DIR"] = tempfile.mkdtemp()
    empty = measure([PYTHON, "-c", EMPTY], (80, 24), until=b"first frame")
    scale = empty.cpu_share / REFERENCE_CPU
    bare, _ = generator_share("bare", (80, 24))
    snapshots = snapshot_share(10)
    say("generator's thread without a screen", f"{100 * bare:.1f} % of a core")
    say("snapshots, 10 a second", f"{100 * snapshots:.1f} %")
    for size in SIZES:
        share, screen = generator_share("screen", size)
        slower = 1 - share / bare + snapshots
        say(
            f"under the dashboard, {size[0]} x {size[1]} (screen {100 * screen:.1f} %): slowed by",
            f"{100 * slower:.1f} %",
            f"budget {100 * BUDGET:.0f} %, here {100 * BUDGET * scale:.1f} %",
            slower < BUDGET * scale,
        )


if __name__ == "__main__":
    main()
