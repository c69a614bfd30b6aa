"""The whole dashboard in a real pseudo-terminal, beside htop, btop and an empty Textual app.

Every figure is of one run on one machine: read the ratios. A budget in percent of a core holds for the
machine that it was written on, where an empty Textual app with one label at 20 Hz takes 2.9 % and shows its
first frame after 152 ms; beside each figure stands the one that this machine's own empty app makes of it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from terminal import Measured, measure

PYTHON = sys.executable
CHURN = str(Path(__file__).with_name("churn.py"))
EMPTY = """
from textual.app import App
from textual.widgets import Label
class Empty(App):
    n = 0
    def compose(self):
        yield Label("first frame")
    def on_mount(self):
        self.set_interval(1 / 20, self.tick)
    def tick(self):
        self.n += 1
        self.query_one(Label).update(f"first frame {self.n}")
Empty().run()
"""
REFERENCE_CPU, REFERENCE_FIRST = 0.029, 0.152
"""The empty app where the budgets were written."""
SIZES = ((80, 24), (200, 50))
BUDGET = {("runs", (80, 24)): 0.025, ("runs", (200, 50)): 0.05, ("random", (200, 50)): 0.10}
FIRST_BUDGET = 0.3


def at_ten_hertz() -> dict[str, str]:
    """btop takes its rate from a file only."""
    folder = Path(tempfile.gettempdir()) / "kvtop-bench" / "btop"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "btop.conf").write_text("update_ms = 100\n")
    return {"XDG_CONFIG_HOME": str(folder.parent)}


def line(name: str, found: Measured, note: str = "") -> None:
    print(
        f"{name:<34} {100 * found.cpu_share:6.1f} % CPU {found.bytes_per_second / 1000:8.1f} kB/s "
        f"{found.memory / 2**20:6.0f} MiB   first frame {1000 * found.first_frame:5.0f} ms  {note}",
        flush=True,
    )


def first_frame(command: list[str], word: bytes) -> float:
    """The least CPU seconds until the first frame in a few starts; the first start compiles the modules."""
    runs = [measure(command, (200, 50), until=word, settle=0, seconds=0.05) for _ in range(5)]
    return min(run.first_frame_cpu for run in runs[1:])


def main() -> None:
    for size in SIZES:
        print(f"\n{size[0]} x {size[1]}, 20 frames a second (htop and btop: 10)")
        empty = measure([PYTHON, "-c", EMPTY], size, until=b"first frame")
        line("empty Textual app, one label", empty)
        for name, command, word in (
            ("htop, 0.1 s", ["htop", "-d", "1"], b"F1"),
            ("btop, 0.1 s", ["btop", "--utf-force"], b"cpu"),
        ):
            if shutil.which(command[0]):
                line(name, measure(command, size, until=word, environment=at_ten_hertz()))
            else:
                print(f"{name:<34} not installed (apt-get install {command[0]})")
        scale = empty.cpu_share / REFERENCE_CPU
        blocks = 1000 if size == (80, 24) else 4000
        for kind in ("runs", "random"):
            found = measure([PYTHON, CHURN, kind, str(blocks)], size, until=b"Blocks")
            budget = BUDGET.get((kind, size))
            frame = found.bytes_per_second / 20 / 1000
            note = f"{found.cpu_share / empty.cpu_share:.1f} x empty; {frame:.1f} kB a frame"
            if budget is not None:
                held = "held" if found.cpu_share <= budget * scale else "MISSED"
                note += f"; budget {100 * budget:.1f} %, here {100 * budget * scale:.1f} %: {held}"
            line(f"kvtop, {blocks:,} blocks, 1 % {kind}", found, note)
    print("\nFirst frame, before a model is loaded")
    ours = [PYTHON, "-m", "kvtop", "--model", "none"]
    empty, found = first_frame([PYTHON, "-c", EMPTY], b"first frame"), first_frame(ours, b"Blocks")
    limit = FIRST_BUDGET / REFERENCE_FIRST
    ratio = found / empty
    print(
        f"kvtop {1000 * found:.0f} ms of CPU, empty Textual app {1000 * empty:.0f} ms: "
        f"{ratio:.2f} x; budget {limit:.2f} x: {'held' if ratio <= limit else 'MISSED'}"
    )


if __name__ == "__main__":
    main()
