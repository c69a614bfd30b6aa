"""Draws the pictures of the dashboard, as PNG and SVG, from a seeded run without a terminal.

    python screenshots/make.py [--steps 420] [--seed 7] [--model inside] [--into screenshots]

The run goes on while the pictures are drawn, so that rates are real: two runs of one seed show the same
memory at the same step, but a picture may be a few steps later than the other's.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from kvtop.assembly import assemble
from kvtop.options import RunOptions
from kvtop.session.live import LiveSession
from kvtop.session.session import Phase
from kvtop.ui.app import KvtopApp
from kvtop.ui.png import Picture, PictureError
from kvtop.workload.scenario import load_scenario

SECONDS_AT_MOST = 600
SPARKLINE_SECONDS = 6
"""So that the sparklines have something to show."""


@dataclass(frozen=True)
class Shot:
    """One picture: a name, a size in cells, and the keys that lead to it."""

    name: str
    width: int
    height: int
    keys: tuple[str, ...] = ()


SHOTS = (
    Shot("overview-120x36", 120, 36),
    Shot("overview-80x24", 80, 24),
    Shot("selected-120x36", 120, 36, ("Z", "down", "down", "down", "enter")),
)


async def draw(shots: tuple[Shot, ...], session: LiveSession, steps: int, folder: Path) -> None:
    """Run a session for some steps, then draw every picture of it."""
    for number, shot in enumerate(shots):
        app = KvtopApp(session if number == 0 else Reopened(session), folder=folder)
        async with app.run_test(size=(shot.width, shot.height)) as pilot:
            if number == 0:
                await advance(session, steps)
            await pilot.pause(SPARKLINE_SECONDS)
            for key in shot.keys:
                await pilot.press(key)
                await pilot.pause(0.3)
            app.refresh_view(force=True)
            picture = Picture.of(app)
        picture.save_svg(folder / f"{shot.name}.svg")
        picture.save_png(folder / f"{shot.name}.png")
        print(f"{folder / shot.name}.png, .svg")


async def advance(session: LiveSession, steps: int) -> None:
    """Wait until the session has run so many steps."""
    for _ in range(SECONDS_AT_MOST * 10):
        if session.status.phase is Phase.FAILED:
            raise SystemExit(session.status.message)
        snapshot = session.snapshot()
        if snapshot is not None and snapshot.step >= steps:
            return
        await asyncio.sleep(0.1)
    raise SystemExit(f"the run did not reach step {steps} within {SECONDS_AT_MOST} s")


class Reopened:
    """A session that is shown again after it was started: every picture has an app of its own."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)

    def start(self) -> None:
        """It runs already."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=420)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--model", default="inside")
    parser.add_argument("--into", type=Path, default=Path(__file__).parent)
    given = parser.parse_args()
    options = RunOptions(model=given.model, seed=given.seed)
    scenario = load_scenario("mixed")
    session = LiveSession(lambda progress: assemble(options, scenario, progress))
    try:
        asyncio.run(draw(SHOTS, session, given.steps, given.into))
    except PictureError as error:
        sys.exit(f"screenshots: {error}")
    finally:
        session.close()


if __name__ == "__main__":
    main()
