"""CPU time of the block map: a frame from the snapshot to the escape codes of the rows that changed.

The widget's own code is measured, with frames made before the clock starts. Beside it stands what the same
rows cost as Textual's own strips of segments, with styles made beforehand and runs already merged.
"""

from __future__ import annotations

import asyncio
import dataclasses
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from churn import ChurnSession, frames
from measure import say
from rich.console import Console
from textual.geometry import Size
from textual.strip import Strip

from kvtop.timeline.snapshot import BlockState, Flash, FlashKind, Snapshot
from kvtop.ui.app.app import KvtopApp
from kvtop.ui.draw.codestrip import CodeStrip
from kvtop.ui.frame.row import RowKey
from kvtop.ui.frame.view import View
from kvtop.ui.panels.map.panel import BlockMap
from kvtop.ui.terminal.paint import RowsUpdate

SMALL, LARGE = 20_000, 1_000_000
EXTENT = Size(207, 50)
"""Room for 20,000 half cells, and the labels."""
BUDGET = 0.004
FRAMES = 24
PASSES = 3
"""The best of so many medians: what the machine does beside is not the map's."""


def all_changed(snapshots: Sequence[Snapshot], run: int) -> list[Snapshot]:
    """Every block with another owner or state in every frame."""
    random = np.random.default_rng(3)
    made = []
    for step, snapshot in enumerate(snapshots, 1):
        number = len(snapshot.blocks.state)
        owner = np.repeat(random.integers(0, 48, number // run + 1), run)[:number].astype(np.int32)
        state = np.repeat(random.integers(BlockState.USED, BlockState.SHARED + 1, number // run + 1), run)
        blocks = dataclasses.replace(
            snapshot.blocks,
            owner=owner,
            state=state[:number].astype(np.uint8),
            touched=np.full(number, step, np.int32),
        )
        made.append(dataclasses.replace(snapshot, blocks=blocks))
    return made


def flashing(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """Ten flashes of 10 blocks in every frame."""
    random = np.random.default_rng(4)
    made: list[Flash] = []
    found = []
    for snapshot in snapshots:
        for _ in range(10):
            blocks = random.integers(0, len(snapshot.blocks.state), 10)
            kind = FlashKind(int(random.integers(0, len(FlashKind))))
            made.append(Flash(len(made) + 1, kind, tuple(blocks.tolist())))
        found.append(dataclasses.replace(snapshot, flashes=tuple(made[-256:])))
    return found


def with_tables(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """The same with the tables that the owners of the blocks have."""
    made = []
    for snapshot in snapshots:
        owner = snapshot.blocks.owner
        rows = (
            dataclasses.replace(row, table=np.flatnonzero(owner == number).astype(np.int32))
            for number, row in enumerate(snapshot.sequences)
        )
        made.append(dataclasses.replace(snapshot, sequences=tuple(rows)))
    return made


def measured(block_map: BlockMap, views: Sequence[View], console: Console) -> tuple[float, float, float]:
    """Seconds of a frame in the median, of the same rows as stock strips, and rows drawn in a frame."""
    block_map._grid = None
    block_map.show(views[0])
    ours, stock, rows = [], [], 0
    for view in views[1:]:
        began = time.thread_time()
        changed = block_map.show(view)
        RowsUpdate([(0, row, block_map.strips[row]) for row in changed]).render_segments(console)
        ours.append(time.thread_time() - began)
        rows += len(changed)
        lines = [strip for row in changed if isinstance(strip := block_map.strips[row], CodeStrip)]
        began = time.thread_time()
        for strip in lines:
            Strip(strip.table.segments(strip.codes)).render(console)
        stock.append(time.thread_time() - began)
    return statistics.median(ours), statistics.median(stock), rows / len(ours)


async def main() -> None:
    console = Console(color_system="truecolor", force_terminal=True)
    small, large = ({r: frames(n, runs=r)[:FRAMES] for r in (True, False)} for n in (SMALL, LARGE))
    app = KvtopApp(ChurnSession(small[True]), fps=1 / 3600, probe=False)  # type: ignore[arg-type]
    async with app.run_test(size=(240, 70)):
        app.refresh_view(force=True)
        block_map, view = app.dashboard.body("map"), app.view(app.session.status)
        block_map.extent = EXTENT
        one = frozenset({RowKey(3, 0)})
        lit = frozenset(RowKey(number, 0) for number in range(5))
        held = with_tables(large[True])
        cases: list[tuple[str, Sequence[Snapshot], frozenset[RowKey]]] = [
            ("20,000 cells, all changed at random", all_changed(small[True], 1), frozenset()),
            ("20,000 cells, all changed in runs of 16", all_changed(small[True], 16), frozenset()),
            ("20,000 cells, 1 % changed at random", small[False], frozenset()),
            ("20,000 cells, 1 % changed in runs of 16", small[True], frozenset()),
            ("1,000,000 blocks, 1 % changed at random", large[False], frozenset()),
            ("1,000,000 blocks, 1 % changed in runs of 16", large[True], frozenset()),
            ("1,000,000 blocks, runs, 20,000 blocks lit", held, one),
            ("1,000,000 blocks, runs, 100,000 blocks lit", held, lit),
            ("1,000,000 blocks, runs, 100 blocks flash a frame", flashing(large[True]), frozenset()),
            ("1,000,000 blocks, nothing changed, 100,000 lit", [held[0]] * FRAMES, lit),
        ]
        print(f"{'a frame of the map, ' + str(EXTENT.width) + ' x ' + str(EXTENT.height):<58} "
              f"{'CPU':>16}  stock strips, rows drawn, budget")  # fmt: skip
        for name, snapshots, rows_lit in cases:
            views = [
                dataclasses.replace(view, snapshot=snapshot, lit=rows_lit, clock=number / 20)
                for number, snapshot in enumerate(snapshots)
            ]
            ours, stock, rows = min(measured(block_map, views, console) for _ in range(PASSES))
            ratio = f"{stock / ours:4.1f} times that" if rows >= 1 else f"{'-':>15}"
            say(name, f"{1000 * ours:.2f} ms", f"{ratio}, {rows:4.1f} rows, 4 ms:", ours <= BUDGET)


if __name__ == "__main__":
    asyncio.run(main())
