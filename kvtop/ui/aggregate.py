"""Cells of the block map that stand for many blocks each: shade by use, colour by the largest owner."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvtop.timeline.snapshot import BlockColumns, BlockState
from kvtop.ui import blockgrid
from kvtop.ui.blockgrid import CACHED_LOOK, CACHED_PAIR, CURSOR_PAIR, DIM, FREE_LOOK, FREE_PAIR, INKS
from kvtop.ui.codestrip import Codes
from kvtop.ui.palette import LEVELS

_FREE, _CACHED = 8, 9
"""Entries of the glyph column beside the eighths 0 to 7."""


class Aggregator:
    """Colours of cells that stand for `each` blocks, kept between frames.

    A pool of a million blocks changes in few places from one frame to the next, so only cells that hold a
    changed block are counted again: one whose state differs, or that was touched since.
    """

    def __init__(self, each: int) -> None:
        self.each = each
        self._state: NDArray[np.uint8] | None = None
        self._step = 0
        self._colours = np.zeros(0, np.uint8)
        self._dominant = np.zeros(0, np.uint8)
        self._eighths = np.zeros(0, np.uint8)

    def reset(self) -> None:
        """Count everything at the next update: another selection, another moment, another palette."""
        self._state = None

    def update(
        self, columns: BlockColumns, inks: NDArray[np.uint8], lit: NDArray[np.bool_] | None, step: int
    ) -> None:
        """Bring the cells up to `step`; counts only what changed since the last call.

        `inks` and `lit` are those of `blockgrid.owner_inks`.
        """
        state = columns.state
        cells = -(-len(state) // self.each)
        if self._state is None or len(self._state) != len(state) or step < self._step:
            self._colours = np.zeros(cells, np.uint8)
            self._dominant = np.full(cells, DIM, np.uint8)
            self._eighths = np.zeros(cells, np.uint8)
            dirty = np.arange(cells)
        else:
            changed = state != self._state
            changed |= columns.touched >= self._step
            dirty = np.unique(np.flatnonzero(changed) // self.each)
        self._state, self._step = state, step
        if len(dirty):
            self._count(dirty, columns, inks, lit)

    def _count(
        self,
        dirty: NDArray[np.intp],
        columns: BlockColumns,
        inks: NDArray[np.uint8],
        lit: NDArray[np.bool_] | None,
    ) -> None:
        """Count some cells anew: use, sharing, and who holds most."""
        each, blocks = self.each, len(columns.state)
        if len(dirty) == len(self._colours):
            places: slice | NDArray[np.intp] = slice(None)
            starts = np.arange(0, blocks, each)
        else:
            places = (dirty[:, None] * each + np.arange(each)).ravel()
            if places[-1] >= blocks:
                places = places[: np.searchsorted(places, blocks)]
            starts = np.arange(0, len(places), each)

        def per_cell(mask: NDArray[np.bool_]) -> NDArray[np.int32]:
            return np.add.reduceat(mask, starts, dtype=np.int32)

        state = columns.state[places]
        used, shared = per_cell(state >= BlockState.USED), per_cell(state == BlockState.SHARED)
        held = inks.take(columns.owner[places], mode="wrap")
        if lit is not None:
            held = np.where(lit[places], held, np.uint8(DIM))
        most = np.zeros(len(dirty), np.int32)
        dominant = np.full(len(dirty), DIM, np.uint8)
        for ink in np.unique(inks).tolist():
            if ink < INKS:
                number = per_cell(held == ink)
                more = number > most
                most[more] = number[more]
                dominant[more] = ink
        size = np.minimum(each, blocks - dirty * each)
        level = np.clip(-(-used * 5 // size) - 1, 0, 4).astype(np.uint8)
        level[shared * 2 > size] = LEVELS - 1
        colours = blockgrid.pair_colours(dominant, level)
        empty = used == 0
        cached = empty & (per_cell(state == BlockState.CACHED) > 0)
        colours[empty] = FREE_PAIR
        colours[cached] = CACHED_PAIR
        eighths = np.clip(-(-used * 8 // size) - 1, 0, 7).astype(np.uint8)
        eighths[empty] = _FREE
        eighths[cached] = _CACHED
        self._colours[dirty], self._dominant[dirty], self._eighths[dirty] = colours, dominant, eighths

    def colours(self, cursor: int | None) -> NDArray[np.uint8]:
        """The colour of every cell, for half cells. `cursor` is the cell under the cursor."""
        colours = self._colours.copy()
        if cursor is not None:
            colours[cursor] = CURSOR_PAIR
        return colours

    def looks(self, cursor: int | None) -> Codes:
        """The look of every cell as a glyph that says how full it is, for whole cells."""
        looks = blockgrid.shape_looks(self._dominant, self._eighths)
        looks[self._eighths == _FREE] = FREE_LOOK
        looks[self._eighths == _CACHED] = CACHED_LOOK
        if cursor is not None:
            looks[cursor] = blockgrid.under_cursor(int(looks[cursor]))
        return looks
