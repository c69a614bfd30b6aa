"""How scattered the blocks are that attention reads: runs in a table, readers of a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Blocks = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Locality:
    """How one block table lies in the pool. A table that grew in one go is one ascending run."""

    blocks: int
    runs: int
    """Stretches of logical blocks whose physical ids count up by one."""
    span: int
    """Blocks from the lowest to the highest id, both included; 0 for an empty table."""

    @property
    def mean_run(self) -> float:
        """Mean length of a run in blocks; 0 for an empty table."""
        return self.blocks / self.runs if self.runs else 0.0

    @property
    def adjacent(self) -> float | None:
        """Share of neighbouring logical blocks that are neighbours in memory too, 0 to 1; None for less than
        two blocks."""
        return (self.blocks - self.runs) / (self.blocks - 1) if self.blocks > 1 else None


def locality(table: Blocks) -> Locality:
    """How a table of physical ids by logical index is laid out."""
    if not len(table):
        return Locality(0, 0, 0)
    breaks = int(np.count_nonzero(np.diff(table) != 1))
    return Locality(len(table), breaks + 1, int(table.max()) - int(table.min()) + 1)


def run_counts(tables: Sequence[Blocks]) -> NDArray[np.int64]:
    """The number of runs of each table; 0 for an empty one."""
    lengths = np.array([len(table) for table in tables], np.int64)
    counts = np.zeros(len(tables), np.int64)
    filled = np.flatnonzero(lengths)
    if len(filled):
        whole = np.concatenate([table for table in tables if len(table)])
        starts = np.concatenate(([0], np.cumsum(lengths[filled])[:-1]))
        breaks = np.ones(len(whole), np.bool_)
        breaks[1:] = np.diff(whole) != 1
        breaks[starts] = True
        counts[filled] = np.add.reduceat(breaks, starts, dtype=np.int64)
    return counts


@dataclass(frozen=True, slots=True)
class Readers:
    """Which blocks a step's attention read, and for how many sequences."""

    blocks: Blocks
    """Ids of the blocks that were read, ascending, each once."""
    counts: NDArray[np.int64]
    """Sequences that read each of them."""

    @property
    def distinct(self) -> int:
        """Blocks that were read."""
        return len(self.blocks)

    @property
    def reads(self) -> int:
        """Blocks read, a shared one once for each sequence."""
        return int(self.counts.sum())

    def per_cell(self, cells: int, total: int) -> NDArray[np.int64]:
        """The most readers of a block in each of `cells` equal parts of a pool of `total` blocks; 0 where
        none was read. Ids beyond the pool are left out."""
        most = np.zeros(cells, np.int64)
        if cells and total:
            inside = self.blocks < total
            np.maximum.at(most, self.blocks[inside] * np.int64(cells) // total, self.counts[inside])
        return most


def readers(tables: Sequence[Blocks]) -> Readers:
    """Count the readers of every block that some table holds."""
    if not tables:
        return Readers(np.empty(0, np.int32), np.empty(0, np.int64))
    blocks, counts = np.unique(np.concatenate(tables), return_counts=True)
    return Readers(blocks, counts)


def access_path(table: Blocks, total: int, width: int) -> NDArray[np.float64]:
    """Where a table's blocks lie, 0 (the pool's first block) to 1, in `width` equal parts of its logical
    indices; each part has the mean. A table shorter than `width` has one value a block."""
    if not len(table) or total < 1 or width < 1:
        return np.empty(0)
    places = table / max(1, total - 1)
    if len(table) <= width:
        return places
    starts = np.arange(width) * len(table) // width
    sizes = np.diff(starts, append=len(table))
    return np.add.reduceat(places, starts) / sizes
