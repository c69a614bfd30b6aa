"""The layout of one packed forward: which rows its tokens belong to, where their K/V goes, what they read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


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
