"""The layout of one packed forward: which rows its tokens belong to, where their K/V goes, what they read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Array = npt.NDArray[Any]


class TableReads(NamedTuple):
    """How much of the cache a layer's attention reads, each row's tokens once, and how scattered it lies."""

    tokens: int
    """A token that two rows read counts twice."""
    blocks: int
    """Table entries; a block that two rows share counts twice."""
    runs: int
    """Stretches of table entries whose physical ids count up by one: the fewer, the less scattered."""


@dataclass(frozen=True, slots=True, eq=False)
class PackedStep:
    """`T` tokens of `S` rows, one after the other; row i has tokens `starts[i] .. starts[i + 1] - 1`.

    A row's last token is its sequence's newest: after the step `lengths[i]` tokens are stored, and the
    query of the token at position p attends to positions 0 .. p.
    """

    slots: Int64
    """`[T]`: block id x block size + offset, where each token's key and value go."""
    tables: Int32
    """`[S, blocks]`: physical block ids, padded with 0."""
    lengths: Int32
    """`[S]`."""
    starts: Int64
    """`[S + 1]`."""
    block_size: int

    @property
    def counts(self) -> Int64:
        """`[S]`: tokens of each row in this step."""
        return np.diff(self.starts)

    def token_rows(self) -> Int64:
        """`[T]`: the row of each token."""
        return np.repeat(np.arange(len(self.lengths)), self.counts)

    def token_positions(self) -> Int64:
        """`[T]`: each token's position within its sequence."""
        ends = self.starts[1:]
        return np.arange(self.starts[-1]) + np.repeat(self.lengths - ends, self.counts)

    def reads(self, window: int = 0) -> TableReads:
        """What one layer's attention reads through the tables. Changes nothing.

        window: a query sees its last `window` tokens only; 0 means all. Blocks that have left the window of a
        row's first query are not read.
        """
        lengths = self.lengths.astype(np.int64)
        seen = np.minimum(lengths, self.counts - 1 + window) if window else lengths
        first = (lengths - seen) // self.block_size
        end = -(-lengths // self.block_size)
        column = np.arange(1, self.tables.shape[1])
        follows = (column > first[:, None]) & (column < end[:, None])
        breaks = int((follows & (np.diff(self.tables, axis=1) != 1)).sum())
        return TableReads(int(seen.sum()), int((end - first).sum()), len(lengths) + breaks)
