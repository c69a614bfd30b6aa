"""Items of the block map that stand for many blocks each: how many are in use, and who holds most of them.

Counts are kept from one frame to the next. A pool of a million blocks changes in few places, so only blocks
that changed are counted anew: one whose state differs, or that was touched since.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kvtop.timeline.snapshot import BlockColumns, BlockState
from kvtop.ui.draw.codestrip import Codes
from kvtop.ui.panels.map.codes import Blocks, Inks, window
from kvtop.ui.panels.map.geometry import Geometry
from kvtop.ui.panels.map.looks import (
    CACHED,
    CACHED_COLOUR,
    DIM,
    FREE,
    FREE_COLOUR,
    FULL,
    INKS,
    LEVEL,
    SHARED,
    STRONG,
    code_of,
    colour_of,
)

SLOT_BITS = 5
SLOTS = 1 << SLOT_BITS
"""Rows of the counts: an ink each, blocks in use without an owner (DIM), cached, free."""
_CACHED, _FREE = DIM + 1, DIM + 2
_ONE = np.int32(SLOTS)
"""A block, in counts whose lowest bits tell their slot: of equal counts the least ink is the largest."""
_SHARED = SLOTS
"""Marks a shared block beside its slot."""
ONLY_CACHED, ALL_FREE = 8, 9
"""Levels of items in which nothing is in use."""
_MOSTLY_SHARED = 10


class Aggregator:
    """The counts of a window's items."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self._columns: BlockColumns | None = None
        self._step = 0
        self._kind = np.zeros(0, np.uint8)
        """The slot of every block, with `_SHARED`."""
        self._marks = np.zeros((2, 0), np.bool_)
        self._counts = np.zeros((SLOTS, 0), np.int32)
        """Blocks by slot and item; see `_ONE`."""
        self._shared = np.zeros(0, np.int32)
        blocks = np.arange(geometry.first, geometry.last, geometry.each)
        self._size = np.minimum(geometry.each, geometry.blocks - blocks).astype(np.int32)
        self._lit: Blocks | None = None
        """Places of lit blocks in the window, as they were given; None while nothing is dimmed."""
        self._lit_marks = np.zeros(0, np.bool_)
        self._lit_counts = np.zeros((SLOTS, 0), np.int32)
        """As `_counts`, of lit blocks alone."""

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
        number = len(shown.state)
        changed, touched = self._marks[0, :number], self._marks[1, :number]
        np.not_equal(shown.state, window(before, self.geometry).state, out=changed)
        np.greater_equal(shown.touched, since, out=touched)
        changed |= touched
        places = np.flatnonzero(changed)
        kind = _kinds(shown.state.take(places), shown.owner.take(places), inks)
        really = np.flatnonzero(kind != self._kind.take(places))
        if len(really):
            self._count(places[really], kind[really])
        return len(places)

    def _count_all(self, shown: BlockColumns, inks: Inks) -> None:
        """Count every block of the window."""
        items, each = self.geometry.items, self.geometry.each
        self._kind = _kinds(shown.state, shown.owner, inks)
        place = np.repeat(np.arange(items), each)[: len(self._kind)]
        place += (self._kind & (_SHARED - 1)) * np.intp(items)
        counts = np.bincount(place, minlength=SLOTS * items).astype(np.int32).reshape(SLOTS, items)
        self._counts = _empty_counts(items)
        self._counts += counts * _ONE
        self._lit = None
        starts = np.arange(0, len(self._kind), each)
        self._shared = np.add.reduceat(self._kind >= _SHARED, starts, dtype=np.int32)
        self._marks = np.zeros((2, len(self._kind)), np.bool_)

    def _count(self, places: NDArray[np.intp], kind: NDArray[np.uint8]) -> None:
        """Count some blocks anew that have become another kind."""
        item, old = places // self.geometry.each, self._kind.take(places)
        self._kind[places] = kind
        _add(self._counts, item, old, -_ONE)
        _add(self._counts, item, kind, _ONE)
        if self._lit is not None:
            lit = self._lit_marks.take(places)
            _add(self._lit_counts, item[lit], old[lit], -_ONE)
            _add(self._lit_counts, item[lit], kind[lit], _ONE)
        np.subtract.at(self._shared, item[old >= _SHARED], np.int32(1))
        np.add.at(self._shared, item[kind >= _SHARED], np.int32(1))

    def light(self, lit: Blocks | None) -> None:
        """Of these blocks the owners are shown, all else is dimmed; None shows all owners.

        They are device blocks as of the last `update`, as often as they stand in tables. Only blocks that
        were not lit before, or are no longer, are counted.
        """
        if lit is None:
            self._lit = None
            return
        if not self.geometry.whole:
            lit = lit[(lit >= self.geometry.first) & (lit < self.geometry.last)] - self.geometry.first
        if self._lit is None:
            self._lit_marks = np.zeros(len(self._kind), np.bool_)
            self._lit_counts = _empty_counts(self.geometry.items)
        elif np.array_equal(lit, self._lit):
            return
        self._lit = lit
        marks = np.zeros(len(self._kind), np.bool_)
        marks[lit] = True
        places = np.flatnonzero(marks != self._lit_marks)
        added, item, kind = marks.take(places), places // self.geometry.each, self._kind.take(places)
        self._lit_marks = marks
        _add(self._lit_counts, item[added], kind[added], _ONE)
        _add(self._lit_counts, item[~added], kind[~added], -_ONE)

    # -- drawing ------------------------------------------------------------------------------------------

    def colours(self) -> NDArray[np.uint8]:
        """The colour of every item, for half cells: brightest where most blocks are shared."""
        level = self._levels(STRONG)
        level[(self._shared * 2 > self._size) & (level < STRONG)] = STRONG
        return _COLOURS.take(self._inks() * (ALL_FREE + 1) + level)

    def letters(self) -> Codes:
        """The code of every item's tile, as of a single block of whoever holds most of it: shared where more
        than half of what is used is shared, partly filled where no more than half is used."""
        level = self._levels(8)
        used = self._size - ((self._counts[_CACHED] + self._counts[_FREE]) >> SLOT_BITS)
        level[(self._shared * 2 > used) & (used > 0)] = _MOSTLY_SHARED
        return _LETTERS.take(self._inks() * (_MOSTLY_SHARED + 1) + level)

    def codes(self) -> Codes:
        """The code of every item's tile, whose glyph says how full it is."""
        return _CODES.take(self._inks() * (ALL_FREE + 1) + self._levels(8))

    def _inks(self) -> NDArray[np.int32]:
        """The ink of every item."""
        counts = self._counts if self._lit is None else self._lit_counts
        most = counts[:INKS].max(axis=0)
        return np.where(most >= _ONE, SLOTS - 1 - (most & (SLOTS - 1)), DIM).astype(np.int32)

    def _levels(self, levels: int) -> NDArray[np.int32]:
        """How full every item is: from 0 (few blocks) to `levels` - 1 (all), ONLY_CACHED, ALL_FREE."""
        cached = self._counts[_CACHED] >> SLOT_BITS
        used = self._size - cached - (self._counts[_FREE] >> SLOT_BITS)
        level = (used * levels + self._size - 1) // self._size - 1
        return np.where(used > 0, level, np.where(cached > 0, ONLY_CACHED, ALL_FREE)).astype(np.int32)


def _add(
    counts: NDArray[np.int32], item: NDArray[np.intp], kind: NDArray[np.uint8], number: np.int32
) -> None:
    """Add a number for every block, by its item, in the slot of its kind."""
    np.add.at(counts.reshape(-1), (kind & (SLOTS - 1)) * np.intp(counts.shape[1]) + item, number)


def _empty_counts(items: int) -> NDArray[np.int32]:
    """Counts of nothing: in every slot its own mark in the lowest bits."""
    return np.repeat(np.arange(SLOTS - 1, -1, -1, dtype=np.int32), items).reshape(SLOTS, items)


def _looks(what: Callable[[int, int], int], cached: int, free: int) -> NDArray[np.uint16]:
    """A look-up by ink and level."""
    found = np.zeros((INKS + 1, ALL_FREE + 1), np.uint16)
    for ink in range(INKS + 1):
        found[ink, :ONLY_CACHED] = [what(ink, level) for level in range(ONLY_CACHED)]
        found[ink, ONLY_CACHED:] = cached, free
    return found.reshape(-1)


_COLOURS = _looks(lambda ink, level: colour_of(ink, min(level, STRONG)), CACHED_COLOUR, FREE_COLOUR).astype(
    np.uint8
)
_CODES = _looks(lambda ink, eighth: code_of(ink, LEVEL + eighth), CACHED, FREE)
_LETTERS = np.array(
    [
        [
            *(code_of(ink, 0 if eighth < 4 else FULL) for eighth in range(8)),
            CACHED,
            FREE,
            code_of(ink, SHARED),
        ]
        for ink in range(INKS + 1)
    ],
    np.uint16,
).reshape(-1)
"""By ink and level of eight, `_MOSTLY_SHARED` included."""


def _kinds(state: NDArray[np.uint8], owner: NDArray[np.int32], inks: Inks) -> NDArray[np.uint8]:
    """The slot of every block, marked where it is shared."""
    return _KINDS.take(inks.take(owner, mode="wrap") * np.uint8(len(BlockState)) + state)


_KINDS = np.array([[_FREE, _CACHED, ink, ink | _SHARED] for ink in range(INKS + 1)], np.uint8).reshape(-1)
"""The kind of a block by its ink and state."""
