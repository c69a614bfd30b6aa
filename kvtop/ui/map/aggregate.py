"""Items of the block map that stand for many blocks each: how many are in use, and who holds most of them.

Counts are kept from one frame to the next. A pool of a million blocks changes in few places, so only blocks
that changed are counted anew: one whose state differs, or that was touched since.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvtop.timeline.snapshot import BlockColumns, BlockState
from kvtop.ui.codestrip import Codes
from kvtop.ui.map.codes import Blocks, Inks, ink_colours, window
from kvtop.ui.map.geometry import Geometry
from kvtop.ui.map.looks import (
    CACHED,
    CACHED_COLOUR,
    DIM,
    FREE,
    FREE_COLOUR,
    INKS,
    LEVEL,
    SHAPES,
    STRONG,
)

SLOTS = 32
"""Columns of the counts: an ink each, blocks in use without an owner (DIM), cached, free."""
_CACHED, _FREE = DIM + 1, DIM + 2
_SHARED = 1 << 5
"""Marks a shared block beside its slot."""
FEW = 8192
"""Lit blocks up to which sorting them is quicker than a count over all items."""
Levels = NDArray[np.uint8]


class Aggregator:
    """The counts of a window's items."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self._columns: BlockColumns | None = None
        self._step = 0
        self._kind = np.zeros(0, np.uint8)
        """The slot of every block, with `_SHARED`."""
        self._counts = np.zeros((0, SLOTS), np.int32)
        self._shared = np.zeros(0, np.int32)
        self._dominant = np.zeros(0, np.uint8)
        blocks = np.arange(geometry.first, geometry.last, geometry.each)
        self._size = np.minimum(geometry.each, geometry.blocks - blocks)
        self._lit: Blocks | None = None
        self._lit_inks = np.zeros(0, np.uint8)
        self._lit_items = np.zeros(0, np.intp)
        self._lit_dominant = np.zeros(0, np.uint8)

    # -- counting -----------------------------------------------------------------------------------------

    def update(self, columns: BlockColumns, inks: Inks, step: int) -> int:
        """Bring the counts up to `step`. Returns how many blocks were looked at.

        `columns` are the whole pool's, `inks` as `codes.sequence_inks` gives them.
        """
        before = self._columns
        if before is columns:
            return 0
        shown = window(columns, self.geometry)
        self._columns, since, self._step = columns, self._step, step
        if before is None or step < since or len(before.state) != len(columns.state):
            self._count_all(shown, inks)
            return len(shown.state)
        changed = shown.state != window(before, self.geometry).state
        changed |= shown.touched >= since
        places = np.flatnonzero(changed)
        kind = _kinds(shown.state[places], shown.owner[places], inks)
        really = np.flatnonzero(kind != self._kind[places])
        if len(really):
            self._count(places[really], kind[really])
        return len(places)

    def _count_all(self, shown: BlockColumns, inks: Inks) -> None:
        """Count every block of the window."""
        items, each = self.geometry.items, self.geometry.each
        self._kind = _kinds(shown.state, shown.owner, inks)
        item = np.repeat(np.arange(0, items * SLOTS, SLOTS), each)[: len(self._kind)]
        item += self._kind & (_SHARED - 1)
        counts = np.bincount(item, minlength=items * SLOTS)
        self._counts = counts.astype(np.int32).reshape(items, SLOTS)
        starts = np.arange(0, len(self._kind), each)
        self._shared = np.add.reduceat(self._kind >= _SHARED, starts, dtype=np.int32)
        self._dominant = self._counts[:, :INKS].argmax(axis=1).astype(np.uint8)
        self._dominant[~self._counts[:, :INKS].any(axis=1)] = DIM

    def _count(self, places: NDArray[np.intp], kind: NDArray[np.uint8]) -> None:
        """Count some blocks anew that have become another kind."""
        item, old = places // self.geometry.each, self._kind[places]
        flat = self._counts.reshape(-1)
        np.subtract.at(flat, item * SLOTS + (old & (_SHARED - 1)), 1)
        np.add.at(flat, item * SLOTS + (kind & (_SHARED - 1)), 1)
        np.subtract.at(self._shared, item[old >= _SHARED], 1)
        np.add.at(self._shared, item[kind >= _SHARED], 1)
        self._kind[places] = kind
        dirty = np.zeros(self.geometry.items, np.bool_)
        dirty[item] = True
        chosen = np.flatnonzero(dirty)
        held = self._counts[chosen, :INKS]
        dominant = held.argmax(axis=1).astype(np.uint8)
        dominant[~held.any(axis=1)] = DIM
        self._dominant[chosen] = dominant

    def light(self, lit: Blocks | None, columns: BlockColumns, inks: Inks) -> None:
        """Of these blocks the owners are shown, all else is dimmed; None shows all owners."""
        if lit is None:
            self._lit = None
            return
        lit = lit[(lit >= self.geometry.first) & (lit < self.geometry.last)]
        held = inks.take(columns.owner[lit], mode="wrap")
        same = self._lit is not None and np.array_equal(lit, self._lit)
        if same and np.array_equal(held, self._lit_inks):
            return
        self._lit, self._lit_inks = lit, held
        # A block that two lit rows share stands there twice, and is one block.
        lit, held = lit[held != DIM], held[held != DIM]
        blocks, places = np.unique(lit, return_index=True)
        key = (blocks - self.geometry.first) // self.geometry.each * SLOTS + held[places]
        if len(key) > FEW:
            numbers = np.bincount(key, minlength=self.geometry.items * SLOTS).reshape(-1, SLOTS)
            self._lit_items = np.flatnonzero(numbers.any(axis=1))
            self._lit_dominant = numbers[self._lit_items].argmax(axis=1).astype(np.uint8)
            return
        keys, numbers = np.unique(key, return_counts=True)
        order = np.lexsort((-keys, numbers))  # the last one written to an item stays: most, then least ink
        dominant = np.full(self.geometry.items, DIM, np.uint8)
        dominant[keys[order] // SLOTS] = keys[order] % SLOTS
        self._lit_items = np.unique(keys // SLOTS)
        self._lit_dominant = dominant[self._lit_items]

    # -- drawing ------------------------------------------------------------------------------------------

    @property
    def _inks(self) -> Inks:
        """The ink of every item."""
        if self._lit is None:
            return self._dominant
        inks = np.full(len(self._dominant), DIM, np.uint8)
        inks[self._lit_items] = self._lit_dominant
        return inks

    def _used(self) -> NDArray[np.int64]:
        """Blocks in use of every item."""
        return self._size - self._counts[:, _CACHED] - self._counts[:, _FREE]

    def _level(self, used: NDArray[np.int64], levels: int) -> Levels:
        """How full every item is, from 0 (few blocks) to `levels` - 1 (all)."""
        return np.clip(-(-used * levels // self._size) - 1, 0, levels - 1).astype(np.uint8)

    def colours(self) -> NDArray[np.uint8]:
        """The colour of every item, for half cells: brightest where most blocks are shared."""
        used = self._used()
        level = self._level(used, STRONG)
        level[self._shared * 2 > self._size] = STRONG
        colours = ink_colours(self._inks, level)
        colours[used == 0] = FREE_COLOUR
        colours[(used == 0) & (self._counts[:, _CACHED] > 0)] = CACHED_COLOUR
        return colours

    def codes(self) -> Codes:
        """The code of every item's tile, whose glyph says how full it is."""
        used = self._used()
        codes = self._inks.astype(np.uint16)
        codes *= SHAPES
        codes += self._level(used, 8)
        codes += np.uint16(LEVEL)
        codes[used == 0] = FREE
        codes[(used == 0) & (self._counts[:, _CACHED] > 0)] = CACHED
        return codes


def _kinds(state: NDArray[np.uint8], owner: NDArray[np.int32], inks: Inks) -> NDArray[np.uint8]:
    """The slot of every block, marked where it is shared."""
    kind = inks.take(owner, mode="wrap")
    kind[state == BlockState.SHARED] |= _SHARED
    kind[state == BlockState.CACHED] = _CACHED
    kind[state == BlockState.FREE] = _FREE
    return kind
