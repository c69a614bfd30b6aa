"""The columns of a pool that snapshots carry: frozen for whoever holds them, and cheap to make again.

A snapshot's arrays lie in a buffer of their own. Once nobody holds an array of it any more, the buffer is
used for a later snapshot: then only the blocks that something happened to since it was filled are written.
"""

from __future__ import annotations

import weakref
from array import array
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvtop.timeline.snapshot import BlockColumns, BlockState
from kvtop.timeline.tables import Blocks, TierTables

REMEMBERED = 8
"""Snapshots for which it is known what changed: a buffer that is older is filled anew."""
SPARE = 4
"""Buffers at most that nobody holds and that are kept."""
_BYTES = 18
"""Of all columns, for a block."""


@dataclass(slots=True)
class PoolTotals:
    """Sums over a pool's blocks."""

    by_state: NDArray[np.int64]
    """Blocks by `BlockState`."""
    stored: int
    """Filled slots of used blocks."""


@dataclass(slots=True)
class _Buffer:
    """Memory of one snapshot's columns."""

    memory: bytearray
    version: int = 0
    """The snapshot that it was filled for; 0 for none."""
    indices: Blocks | None = None
    """Rows by slot, as its owners were written with."""

    def columns(self, *, write: bool) -> BlockColumns:
        """The columns in it. All arrays rest on one, which dies when the last of them does."""
        root = np.frombuffer(self.memory, np.uint8)
        root.setflags(write=write)
        blocks = len(self.memory) // _BYTES
        wide = [root[i * 4 * blocks : (i + 1) * 4 * blocks].view(np.int32) for i in range(4)]
        narrow = [root[i * blocks : (i + 1) * blocks] for i in (16, 17)]
        return BlockColumns(
            ref_count=wide[0],
            owner=wide[1],
            fill=wide[2],
            touched=wide[3],
            state=narrow[0],
            has_hash=narrow[1].view(np.bool_),
        )


class PoolColumns:
    """Makes the columns of one pool. Use from the source's thread; what it returns may go to any."""

    def __init__(self, tables: TierTables) -> None:
        self._pool = tables.pool
        self._tables = tables
        self._changed: set[int] = set()
        self._history: deque[Blocks | None] = deque(maxlen=REMEMBERED)
        """Blocks that changed from each snapshot to the next; None for any."""
        self._version = 0
        self._spare: deque[_Buffer] = deque(maxlen=SPARE)
        self._last: BlockColumns | None = None
        self.totals = PoolTotals(np.zeros(len(BlockState), np.int64), 0)
        """As of the newest columns."""

    def note(self, blocks: Iterable[int]) -> None:
        """Something happened to these blocks. Those that were merely written to need not be named."""
        self._changed.update(blocks)

    def freeze(self, row_of: dict[int, int]) -> BlockColumns:
        """The pool as it is now, in arrays that never change. The tables must be up to date; `row_of` says
        which row each sequence has."""
        changed = self._take_changed()
        self._version += 1
        self._history.append(changed)
        buffer = self._buffer()
        missed = self._version - buffer.version
        known = buffer.indices is not None and missed <= len(self._history)
        steps = list(self._history)[-missed:] if known else [None]
        patches = [step for step in steps if step is not None]
        columns = buffer.columns(write=True)
        if len(patches) < len(steps):
            self._write_all(columns)
            place = None
        else:
            place = changed if len(patches) == 1 else np.unique(np.concatenate(patches))
            assert place is not None
            self._write(columns, place)
        indices = self._tables.indices(row_of)
        self._write_owners(columns.owner, buffer.indices, indices, place)
        self._count(columns, changed)
        buffer.version, buffer.indices = self._version, indices
        self._last = self._lend(buffer)
        return self._last

    # -- buffers --------------------------------------------------------------------------------------

    def _buffer(self) -> _Buffer:
        try:
            return self._spare.pop()
        except IndexError:
            return _Buffer(bytearray(_BYTES * self._pool.num_blocks))

    def _lend(self, buffer: _Buffer) -> BlockColumns:
        """Read-only columns. The buffer comes back when the last array of them is gone, on any thread."""
        columns = buffer.columns(write=False)
        root = columns.state.base
        assert isinstance(root, np.ndarray)
        weakref.finalize(root, self._spare.append, buffer).atexit = False
        return columns

    # -- what is written --------------------------------------------------------------------------------

    def _take_changed(self) -> Blocks | None:
        """Blocks that changed since the last columns; None when they are too many to tell."""
        noted, self._changed = self._changed, set()
        written = self._tables.written
        if written is None or len(noted) * 8 > self._pool.num_blocks:
            return None
        blocks = np.fromiter(noted, np.int32, len(noted))
        return np.unique(np.concatenate([blocks, *written]))

    def _write_all(self, columns: BlockColumns) -> None:
        pool = self._pool
        columns.ref_count[:] = _view(pool.ref_counts, np.int32)
        columns.fill[:] = _view(pool.fills, np.int32)
        columns.touched[:] = _view(pool.touched, np.int32)
        np.not_equal(_view(pool.hashes, np.int64), 0, out=columns.has_hash)
        columns.state[:] = _states(columns.ref_count, columns.has_hash)

    def _write(self, columns: BlockColumns, place: Blocks) -> None:
        pool = self._pool
        references = _view(pool.ref_counts, np.int32)[place]
        hashed = _view(pool.hashes, np.int64)[place] != 0
        columns.ref_count[place] = references
        columns.fill[place] = _view(pool.fills, np.int32)[place]
        columns.touched[place] = _view(pool.touched, np.int32)[place]
        columns.has_hash[place] = hashed
        columns.state[place] = _states(references, hashed)

    def _write_owners(
        self, owner: Blocks, before: Blocks | None, indices: Blocks, place: Blocks | None
    ) -> None:
        """Rows move up when one above them ends: the blocks of those that moved are written, too."""
        slots = self._tables.slots
        if place is not None and before is not None:
            moved = [
                known.blocks
                for known in self._tables.known.values()
                if known.slot >= len(before) or before[known.slot] != indices[known.slot]
            ]
            if sum(map(len, moved)) * 4 <= len(slots):
                for blocks in (place, *moved):
                    owner[blocks] = indices[slots[blocks]]
                return
        np.take(indices, slots, out=owner, mode="clip")

    def _count(self, columns: BlockColumns, changed: Blocks | None) -> None:
        """Bring the totals up to these columns; `changed` is what differs from the last ones."""
        totals, last = self.totals, self._last
        if changed is None or last is None:
            used = columns.state >= BlockState.USED
            totals.by_state = np.bincount(columns.state, minlength=len(BlockState))
            totals.stored = int(np.dot(columns.fill.astype(np.int64), used))
            return
        for sign, seen in ((-1, last), (1, columns)):
            state = seen.state[changed]
            totals.by_state = totals.by_state + sign * np.bincount(state, minlength=len(BlockState))
            totals.stored += sign * int(seen.fill[changed][state >= BlockState.USED].sum(dtype=np.int64))


def _states(references: Blocks, hashed: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """A `BlockState` each. In bytes throughout: at a million blocks every wider temporary costs."""
    used = references > 0
    state = used.view(np.uint8) * np.uint8(BlockState.USED)
    state += references > 1
    state |= (hashed & ~used).view(np.uint8) * np.uint8(BlockState.CACHED)
    return state


def _view(values: array[int], kind: type[np.signedinteger]) -> NDArray[np.signedinteger]:
    return np.frombuffer(values, dtype=kind) if len(values) else np.empty(0, dtype=kind)
