"""From the snapshot's columns to codes: one for every block, or for every item that stands for many.

Whatever is drawn is worked out for the window alone: its columns are slices, which cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kvtop.timeline.snapshot import BlockColumns, BlockState, SequenceRow, Snapshot
from kvtop.ui.draw.codestrip import Codes
from kvtop.ui.draw.palette import HUES, LEVELS, VARIANTS
from kvtop.ui.frame.row import RowKey
from kvtop.ui.panels.map.geometry import Geometry
from kvtop.ui.panels.map.looks import (
    CACHED,
    CACHED_COLOUR,
    DIM,
    FIRST_COLOUR,
    FREE,
    FREE_COLOUR,
    FULL,
    MAX_DIGIT,
    PART,
    SHAPES,
    SHARED,
    STRONG,
    USED,
)

Inks = NDArray[np.uint8]
"""An ink each, of a sequence or of a block."""
Blocks = NDArray[np.int32]
"""Block ids."""


def window(columns: BlockColumns, geometry: Geometry) -> BlockColumns:
    """The columns of the blocks that are shown."""
    if geometry.whole:
        return columns
    part = slice(geometry.first, geometry.last)
    return BlockColumns(
        columns.state[part],
        columns.ref_count[part],
        columns.owner[part],
        columns.fill[part],
        columns.has_hash[part],
        columns.touched[part],
    )


def sequence_inks(sequences: tuple[SequenceRow, ...]) -> Inks:
    """The ink of every row, as `palette.ink_index`, and one more for "no owner"."""
    number = len(sequences)
    request = np.fromiter((row.request for row in sequences), np.int64, number)
    branch = np.fromiter((row.branch for row in sequences), np.int64, number)
    inks = np.full(number + 1, DIM, np.uint8)
    inks[:number] = request % HUES + HUES * ((request // HUES + branch) % VARIANTS)
    return inks


def lit_blocks(snapshot: Snapshot, lit: Iterable[RowKey]) -> Blocks | None:
    """The device blocks of some rows, as often as they stand in their tables; None when they hold none."""
    wanted = {(key.request, key.branch) for key in lit}
    if not wanted:
        return None
    tables = [
        row.table
        for row in snapshot.sequences
        if ((row.request, None) in wanted or (row.request, row.branch) in wanted)
        and not row.on_host
        and len(row.table)
    ]
    return np.concatenate(tables) if tables else None


def block_inks(columns: BlockColumns, inks: Inks, lit: Blocks | None, first: int = 0) -> Inks:
    """The ink of every block of a window that begins at `first`. Blocks that are not lit are dimmed."""
    if lit is None:
        return inks.take(columns.owner, mode="wrap")  # -1 is the last
    found = np.full(len(columns.owner), DIM, np.uint8)
    places = lit - first
    if first or len(places):
        places = places[(places >= 0) & (places < len(found))]
    found[places] = inks.take(columns.owner[places], mode="wrap")
    return found


def tile_codes(columns: BlockColumns, inks: Inks, block_size: int) -> Codes:
    """The code of every block's tile."""
    shape = columns.fill * (FULL + 1)
    shape -= 1
    shape //= block_size
    np.clip(shape, 0, FULL, out=shape)
    shared = columns.state == BlockState.SHARED
    if shared.any():
        shape = np.where(shared, np.clip(columns.ref_count, 2, MAX_DIGIT + 1) + (SHARED - 2), shape)
    return _coded(columns.state, inks, shape)


def _coded(state: NDArray[np.uint8], inks: Inks, shape: NDArray[np.int32]) -> Codes:
    """Codes of inks and shapes; free and cached blocks look the same whoever held them."""
    codes = inks.astype(np.uint16)
    codes *= SHAPES
    codes += shape.astype(np.uint16)
    codes[state == BlockState.FREE] = FREE
    codes[state == BlockState.CACHED] = CACHED
    return codes


def half_colours(columns: BlockColumns, inks: Inks, block_size: int) -> NDArray[np.uint8]:
    """The colour of every block on half cells: dark when partly filled, bright when shared."""
    level = np.full(len(inks), USED, np.uint8)
    level[columns.fill < block_size] = PART
    level[columns.state == BlockState.SHARED] = STRONG
    colours = ink_colours(inks, level)
    colours[columns.state == BlockState.FREE] = FREE_COLOUR
    colours[columns.state == BlockState.CACHED] = CACHED_COLOUR
    return colours


def ink_colours(inks: Inks, level: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The colour of half cells by ink and level; the dimmed ink comes first in the table."""
    colours = inks + np.uint8(1)
    colours[inks == DIM] = 0
    colours *= np.uint8(LEVELS)
    colours += level
    colours += np.uint8(FIRST_COLOUR)
    return colours
