"""Draws the pictures of the dashboard from seeded runs with a frozen clock, without a terminal or a model.

    python screenshots/make.py                draw all: PNG to look at, cells to compare
    python screenshots/make.py --only NAME    draw one
    python screenshots/make.py --record       run the model inside once and keep its tokens on the tape

`cells/NAME.json` has what stands in each line and in which style; tests compare these with what the code
draws now. `--record` is needed when the workload or the scheduler asks for tokens that the tape lacks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.segment import Segment

from kvtop.assembly import assemble
from kvtop.options import RunOptions
from kvtop.session.run import Run
from kvtop.ui.app.app import KvtopApp
from kvtop.ui.draw.palette import load_palette
from kvtop.ui.draw.png import Picture, PictureError
from kvtop.workload.prompts import sentences
from kvtop.workload.scenario import load_scenario

HERE = Path(__file__).parent
TAPE = HERE / "tape.json"
CELLS = HERE / "cells"
SEED = 7
STEPS_PER_FRAME = 10
FRAMES = 44
"""So that the sparklines are full: half a second a frame, at 20 steps a second."""
LAST_STEPS = 26
"""Steps at the end that are seen one by one, so that flashes are as old as they look."""
TAPE_STEPS = STEPS_PER_FRAME * FRAMES + 40


@dataclass(frozen=True)
class Shot:
    """One picture: a name, a size in cells, a theme, and the keys that lead to it."""

    name: str
    width: int = 120
    height: int = 36
    keys: tuple[str, ...] = ()
    theme: str = "dark"


SHOTS = (
    Shot("overview"),
    Shot("map", keys=("2",)),
    Shot("tables", keys=("3", "down", "down", "right", "right")),
    Shot("prefixes", keys=("4",)),
    Shot("compare", keys=("5",)),
    Shot("timeline", keys=("6",)),
    Shot("kernel", keys=("7",)),
    Shot("selected", keys=("down", "down", "down", "enter")),
    Shot("overview-80x24", 80, 24),
    Shot("overview-200x50", 200, 50),
    Shot("presenter-80x24", 80, 24, theme="high-contrast"),
    *(
        Shot(f"theme-{theme}", theme=theme)
        for theme in ("light", "high-contrast", "colour-blind", "16-colour", "mono")
    ),
)


class StillApp(KvtopApp):
    """Draws a frame when told, and at no other time."""

    def _start(self) -> None:
        self.session.start()


async def draw(shot: Shot, tape: Path = TAPE) -> Picture:
    """The picture of a shot, from a run of its own."""
    from still import StillSession
    from tape import StepClock, TapeRunner

    runner = TapeRunner(tape)
    run = assemble(RunOptions(seed=SEED), load_scenario("mixed"), runner=runner)
    run.engine.clock = StepClock(runner.step_seconds)
    session = StillSession(run)
    app = StillApp(
        session, fps=20, palette=load_palette(shot.theme), probe=False, clock=lambda: session.seconds
    )
    async with app.run_test(size=(shot.width, shot.height)) as pilot:
        for steps in (*[STEPS_PER_FRAME] * FRAMES, *[1] * LAST_STEPS):
            session.advance(steps)
            app.ticks += steps - 1  # a frame a step, as at 20 steps and 20 frames a second
            app._tick()
        for key in shot.keys:
            await pilot.press(key)
            await pilot.pause()
            app.refresh_view(force=True)
        await pilot.pause()
        app.refresh_view(force=True)
        await pilot.pause()
        return Picture.of(app)


def cells(picture: Picture) -> list[list[list[str]]]:
    """A picture's lines as runs of [text, style]."""
    return [
        [[segment.text, str(segment.style or "")] for segment in Segment.simplify(row) if segment.text]
        for row in picture.rows
    ]


def write_cells(picture: Picture, path: Path) -> None:
    """One line of JSON for each line of the screen, so that a difference is easy to read."""
    lines = ",\n".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in cells(picture))
    path.write_text(f"[\n{lines}\n]\n", "utf-8")


def record(path: Path) -> None:
    """Run the model inside and write what it generated."""
    from tape import Recorder, TapeError

    run: Run = assemble(RunOptions(seed=SEED, device="cpu"), load_scenario("mixed"))
    recorder = Recorder(run.runner)
    for sentence in sentences():
        recorder.encode(sentence)
    run.engine.runner = recorder
    timings = []
    for step in range(TAPE_STEPS):
        run.step()
        timings.append(run.engine.timings)
        if step % 100 == 99:
            print(f"{step + 1} of {TAPE_STEPS} steps", flush=True)
    if not recorder.answers:
        raise TapeError("the run asked for no token")
    recorder.save(path, timings)
    print(f"{path}: {len(recorder.answers):,} answers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--into", type=Path, default=HERE, help="folder of the pictures")
    parser.add_argument("--only", metavar="NAME", help="draw one picture only")
    parser.add_argument("--record", action="store_true", help="make the tape anew first (needs torch)")
    given = parser.parse_args()
    shots = [shot for shot in SHOTS if given.only in (None, shot.name)]
    if not shots:
        parser.error(f"no picture {given.only!r}; there are {', '.join(shot.name for shot in SHOTS)}")
    if given.record:
        record(TAPE)
    (given.into / "cells").mkdir(parents=True, exist_ok=True)
    try:
        for shot in shots:
            picture = asyncio.run(draw(shot))
            picture.save_png(given.into / f"{shot.name}.png")
            write_cells(picture, given.into / "cells" / f"{shot.name}.json")
            print(given.into / f"{shot.name}.png", flush=True)
    except PictureError as error:
        sys.exit(f"screenshots: {error}")


if __name__ == "__main__":
    main()
