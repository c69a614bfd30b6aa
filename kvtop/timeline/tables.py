"""The block tables of one tier from snapshot to snapshot: whose each block is, and how much a table shares.

Between two snapshots a few blocks change hands in a pool of a million. What changed is found by comparing
each table with the one that the last snapshot had, and only that is worked on. A block stands at the same
place in every table that holds it, since tables share beginnings; so who else holds it is looked up there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kvtop.timeline.state import PoolState, SequenceState

Blocks = NDArray[np.int32]
SMALL = 8192
"""Blocks of a pool for which everything is worked out anew each time: that costs less than comparing."""
_NOBODY = 0
_NONE: Blocks = np.empty(0, np.int32)
_NONE.setflags(write=False)


@dataclass(slots=True, eq=False)
class TableState:
    """A sequence's table as the newest snapshot has it."""

    slot: int
    """Stands for the sequence in `TierTables.slots`, for as long as it is on this tier."""
    raw: bytes = b""
    blocks: Blocks = field(default_factory=lambda: _NONE)
    """`raw` as ids: read-only, never changed, for snapshots hold it."""
    stored: int = 0
    shared: int = 0
    """Entries whose block has a reference count above 1."""
    same: int = 0
    """Entries at the beginning that the snapshot before had, too."""


EMPTY = TableState(_NOBODY)
"""The table of a sequence without blocks."""


@dataclass(slots=True)
class _Part:
    """Entries from `first` on that a table has lost or gained since the last snapshot."""

    slot: int
    first: int
    blocks: Blocks

    @property
    def places(self) -> NDArray[np.intp]:
        return np.arange(self.first, self.first + len(self.blocks))


class TierTables:
    """The tables of one tier. `update` brings them up to the fold's state; use from the source's thread."""

    def __init__(self, pool: PoolState, block_size: int) -> None:
        self.known: dict[int, TableState] = {}
        """Sequence -> its table, in the order of the rows; those without blocks are left out."""
        self.slots = np.zeros(pool.num_blocks, np.intp)
        """Block -> slot of the first sequence that holds it, 0 without one. Changed by `update`."""
        self.written: list[Blocks] | None = None
        """Blocks that the newest `update` found written to; None when it worked everything out anew, and any
        block may have another owner."""
        self.pool = pool
        self._block_size = block_size
        self._small = pool.num_blocks <= SMALL
        self._shared = np.zeros(pool.num_blocks, np.bool_)
        self._free_slots: list[int] = []
        self._highest = _NOBODY

    def update(self, sequences: Sequence[SequenceState]) -> None:
        """Take in the tables of now, none of them empty, in the order of the rows."""
        before, now = self.known, {}
        lost: list[_Part] = []
        gained: list[_Part] = []
        self.written = []
        for sequence in sequences:
            known = before.get(sequence.id) or TableState(self._slot())
            now[sequence.id] = known
            raw = sequence.table.tobytes()
            if known.stored != sequence.stored:
                first, end = known.stored // self._block_size, -(-sequence.stored // self._block_size)
                self.written.append(np.frombuffer(raw, np.int32)[first:end])
                known.stored = sequence.stored
            known.same = len(known.blocks)
            if raw != known.raw:
                _exchange(known, raw, lost, gained)
        ended = [known for id_, known in before.items() if id_ not in now]
        lost += [_Part(known.slot, 0, known.blocks) for known in ended]
        self.known, in_order = now, _in_order(before, now)
        if self._small or not in_order or not self._change_owners(lost, gained):
            if lost or gained or not in_order:
                self._work_out()
            self.written = None
        elif lost or gained:
            self._count_shared(lost, gained)
        self._free_slots += [known.slot for known in ended]

    def indices(self, row_of: dict[int, int]) -> Blocks:
        """Slot -> row of its sequence, -1 for slots that nobody has. Changes nothing."""
        found = np.full(self._highest + 1, -1, np.int32)
        for sequence, known in self.known.items():
            found[known.slot] = row_of[sequence]
        return found

    def _slot(self) -> int:
        if self._free_slots:
            return self._free_slots.pop()
        self._highest += 1
        return self._highest

    def _work_out(self) -> None:
        """Owners and counts from all tables."""
        self.slots.fill(_NOBODY)
        np.greater(_references(self.pool), 1, out=self._shared)
        for known in reversed(self.known.values()):
            self.slots[known.blocks] = known.slot
            known.shared = int(np.count_nonzero(self._shared[known.blocks]))

    def _change_owners(self, lost: Sequence[_Part], gained: Sequence[_Part]) -> bool:
        """Bring `slots` up to the tables. False when the next holder of a block was not found."""
        slots = self.slots
        rank = np.full(self._highest + 1, len(self.known))
        for place, known in enumerate(self.known.values()):
            rank[known.slot] = place
        left: list[tuple[Blocks, NDArray[np.intp]]] = []
        for part in lost:
            mine = slots[part.blocks] == part.slot
            slots[part.blocks[mine]] = _NOBODY
            left.append((part.blocks[mine], part.places[mine]))
        for part in gained:
            first = rank[slots[part.blocks]] > rank[part.slot]
            slots[part.blocks[first]] = part.slot
        if not left:
            return True
        blocks, places = (np.concatenate(column) for column in zip(*left, strict=True))
        references = _references(self.pool)[blocks]
        # Whoever held a lost block beside its first holder has it still, where that one had it.
        held = (references > 1) | ((references == 1) & (slots[blocks] == _NOBODY))
        blocks, places = blocks[held], places[held]
        given = blocks
        for place, known in enumerate(self.known.values()):
            if not len(blocks):
                break
            hit = _stands(known.blocks, blocks, places)
            found = blocks[hit]
            slots[found[rank[slots[found]] > place]] = known.slot
            blocks, places = blocks[~hit], places[~hit]
        return bool((slots[given] != _NOBODY).all())

    def _count_shared(self, lost: Sequence[_Part], gained: Sequence[_Part]) -> None:
        """Bring each table's number of shared blocks up to now."""
        by_slot = {known.slot: known for known in self.known.values()}
        references = _references(self.pool)
        for part in lost:
            if part.slot in by_slot:
                by_slot[part.slot].shared -= int(np.count_nonzero(self._shared[part.blocks]))
        for part in gained:
            by_slot[part.slot].shared += int(np.count_nonzero(references[part.blocks] > 1))
        parts = [*lost, *gained]
        blocks, at = np.unique(np.concatenate([part.blocks for part in parts]), return_index=True)
        places = np.concatenate([part.places for part in parts])[at]
        shared = references[blocks] > 1
        crossed = shared != self._shared[blocks]
        self._shared[blocks] = shared
        blocks, places, shared = blocks[crossed], places[crossed], shared[crossed]
        if not len(blocks):
            return
        for known in self.known.values():
            hit = _stands(known.blocks[: known.same], blocks, places)
            known.shared += int(np.count_nonzero(shared[hit])) - int(np.count_nonzero(~shared[hit]))


def _exchange(known: TableState, raw: bytes, lost: list[_Part], gained: list[_Part]) -> None:
    """Let a table be `raw` from now on, and note what it has lost and gained by that."""
    old, blocks = known.blocks, np.frombuffer(raw, np.int32)
    common = min(len(blocks), len(old))
    differs = old[:common] != blocks[:common]
    same = int(differs.argmax()) if differs.any() else common
    if same < len(old):
        lost.append(_Part(known.slot, same, old[same:]))
    if same < len(blocks):
        gained.append(_Part(known.slot, same, blocks[same:]))
    known.raw, known.blocks, known.same = raw, blocks, same


def _stands(table: Blocks, blocks: Blocks, places: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which of `blocks` a table has at their `places`."""
    hit = places < len(table)
    hit[hit] = table[places[hit]] == blocks[hit]
    return hit


def _in_order(before: dict[int, TableState], now: dict[int, TableState]) -> bool:
    """Whether the sequences of both stand in the same order in both."""
    return [id_ for id_ in before if id_ in now] == [id_ for id_ in now if id_ in before]


def _references(pool: PoolState) -> Blocks:
    return np.frombuffer(pool.ref_counts, dtype=np.int32) if pool.num_blocks else _NONE
