"""The sequences table: 500 rows of which every figure changes in every frame, beside Textual's DataTable.

A frame is made as the app makes it: rows in their order from the snapshot, then the lines that are in sight,
then (apart) their escape codes. The peer gets the same cells and draws the same number of lines.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from churn import WORDS, ChurnSession
from measure import best_thread_seconds, say
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.widgets import DataTable

from kvtop.config import Settings
from kvtop.timeline import snapshot as snap
from kvtop.ui.app.app import KvtopApp
from kvtop.ui.draw.text import visible
from kvtop.ui.frame.columns import BY_ID
from kvtop.ui.frame.row import TableOrder
from kvtop.ui.frame.rows import table_rows

SEQUENCES, BLOCKS, TABLE, BRANCHES = 500, 20_000, 30, 4
SIZE = (200, 50)
FRAMES = 12
REPEATS = 15
TEN = 10
BUDGET = 3e-3
"""Seconds a frame, at ten frames a second, in the dashboard's panel."""
ORDERS = {
    "by arrival": TableOrder(),
    "sorted by blocks": TableOrder(sort="blk"),
    "sorted by generated tokens": TableOrder(sort="gen"),
    "flat, sorted by generated tokens": TableOrder(sort="gen", tree=False),
}


def frames(branches: int) -> list[snap.Snapshot]:
    """Snapshots in which every sequence differs from frame to frame."""
    random = np.random.default_rng(3)
    blocks = snap.BlockColumns(
        np.full(BLOCKS, snap.BlockState.USED, np.uint8),
        random.integers(1, 4, BLOCKS, dtype=np.int32),
        np.zeros(BLOCKS, np.int32),
        random.integers(1, 17, BLOCKS, dtype=np.int32),
        np.zeros(BLOCKS, np.bool_),
        np.zeros(BLOCKS, np.int32),
    )
    counters = snap.Counters(**dict.fromkeys(snap.Counters.__dataclass_fields__, 1))
    source = snap.Source("live", "null", None, None, None, 16, None, None, "churn", 1, None, SEQUENCES)
    made = []
    for step in range(FRAMES):
        sequences = tuple(
            _sequence(step, *divmod(number, branches), branches, random) for number in range(SEQUENCES)
        )
        made.append(snap.Snapshot(source, step, 0, counters, blocks, None, sequences, None, ()))
    return made


def _sequence(
    step: int, request: int, branch: int, branches: int, random: np.random.Generator
) -> snap.SequenceRow:
    table = random.integers(0, BLOCKS, TABLE).astype(np.int32)
    return snap.SequenceRow(
        id=request << 16 | branch,
        name=f"{request}.{branch}" if branch else str(request),
        request=request,
        branch=branch,
        label="",
        state="running",
        wait_reason="",
        prompt_tokens=200 + (request + step) % 90,
        generated_tokens=int(random.integers(1, 400)),
        stored_tokens=400 + step,
        max_new_tokens=512,
        n=branches,
        beam_width=1,
        blocks=TABLE + (request + step) % 7,
        on_host=False,
        shared_blocks=(request + step) % 9,
        waste_slots=(request + step) % 16,
        prefix_hit_tokens=(11 * (request + step)) % 200,
        preemptions=step % 3,
        table=table,
        tail=tuple(random.integers(0, 1000, 32).tolist()),
    )


def decode(token_ids: Sequence[int]) -> str:
    return visible(" ".join([WORDS[token % len(WORDS)] for token in token_ids]))


def in_turn(work: Callable[[snap.Snapshot], object], snapshots: list[snap.Snapshot]) -> float:
    """Seconds of a frame: each at its best of some rounds, so that neighbours on the machine count less."""
    work(snapshots[-1])
    best = [float("inf")] * len(snapshots)
    for _ in range(REPEATS):
        for place, snapshot in enumerate(snapshots):
            best[place] = min(best[place], best_thread_seconds(partial(work, snapshot), 1))
    return sum(best) / len(best)


async def ours(branches: int, *, zoomed: bool) -> dict[str, float]:
    """Seconds a frame of our table in its panel or at full size, by order; and of its rows' escape codes."""
    snapshots = frames(branches)
    app = KvtopApp(ChurnSession(snapshots), fps=1 / 3600, probe=False)
    found = {}
    async with app.run_test(size=SIZE) as pilot:
        if zoomed:
            await pilot.press("o")
            await pilot.pause()
        app.refresh_view(force=True)
        table, base = app.dashboard.body("sequences"), app.view(app.session.status)
        drawn = len(table.strips)
        changed: list[int] = []

        def show(order: TableOrder, snapshot: snap.Snapshot) -> None:
            rows = table_rows(snapshot, order)
            view = dataclasses.replace(base, snapshot=snapshot, rows=rows, order=order, decode=decode)
            changed.append(len(table.show(view)))

        for name, order in ORDERS.items():
            changed.clear()
            found[name] = in_turn(partial(show, order), snapshots)
            assert min(changed[1:]) >= drawn - 2, "every row in sight changes"
        found["escape codes"] = in_turn(
            lambda _: [strip.render(app.console) for strip in _fresh(table.strips)], snapshots[:1]
        )
        found["rows in sight"] = drawn - 1
    return found


def _fresh(strips: Sequence[object]) -> Iterator[object]:
    """The strips without what they remember of having been rendered."""
    from textual.strip import Strip

    for strip in strips:
        assert isinstance(strip, Strip)
        yield Strip(strip._segments, strip.cell_length)


class Peer(App[None]):
    """Textual's own table."""

    def compose(self) -> ComposeResult:
        yield DataTable(zebra_stripes=False, cursor_type="row")


def cells(snapshot: snap.Snapshot) -> list[list[str]]:
    """The same cells as text."""
    return [
        [row.name, *[BY_ID[name].text(row) for name in Settings.columns], decode(row.tail)[-100:]]
        for row in table_rows(snapshot, TableOrder(tree=False))
    ]


async def peers() -> list[float]:
    """Seconds a frame of a DataTable of which all 500 rows are set anew, or those in sight, or ten."""
    contents = [cells(snapshot) for snapshot in frames(1)]
    app = Peer()
    async with app.run_test(size=SIZE) as pilot:
        table = app.query_one(DataTable)
        columns = table.add_columns("ID", *Settings.columns, "TEXT")
        keys = [table.add_row(*row) for row in contents[0]]
        await pilot.pause()
        region = Region(0, 0, *table.size)
        turns = itertools.cycle(contents)

        def update(number: int) -> None:
            for key, row in zip(keys[:number], next(turns), strict=False):
                for column, value in zip(columns, row, strict=True):
                    table.update_cell(key, column, value)
            table.render_lines(region)

        return [
            best_thread_seconds(partial(update, number), REPEATS)
            for number in (SEQUENCES, table.size.height, TEN)
        ]


async def main() -> None:
    every, in_sight, ten = await peers()
    milliseconds = "{:.2f} ms".format
    for branches, zoomed in ((1, False), (BRANCHES, False), (BRANCHES, True)):
        found = await ours(branches, zoomed=zoomed)
        what = "alone" if branches == 1 else f"in groups of {branches}"
        what += ", full size" if zoomed else ""
        for name in ORDERS:
            seconds = found[name]
            say(
                f"{SEQUENCES} {what}, {name}",
                milliseconds(1e3 * seconds),
                f"DataTable x {every / seconds:.0f}" + ("" if zoomed else ", budget 3 ms"),
                None if zoomed else seconds <= BUDGET,
            )
        codes = milliseconds(1e3 * found["escape codes"])
        say(f"  escape codes of the {found['rows in sight']:.0f} rows in sight", codes)
    for what, seconds in (("all", every), ("those in sight", in_sight), ("ten", ten)):
        say(f"DataTable of 500 rows, {what} set anew", milliseconds(1e3 * seconds))


if __name__ == "__main__":
    asyncio.run(main())
