"""From the rows of a plan to the arrays of one packed forward."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import NamedTuple

import numpy as np

from kvtop.engine.runner import Row
from kvtop.kernels.packed import Array, Int64, PackedStep


class Packed(NamedTuple):
    """One packed forward of `T` tokens."""

    token_ids: Int64
    """`[T]`."""
    positions: Int64
    """`[T]`."""
    step: PackedStep
    answered: Int64
    """Rows that samples or candidates are wanted of."""

    def arrays(self) -> dict[str, Array]:
        """What the model's forward takes: part of the step's one upload. Changes nothing."""
        return {"token_ids": self.token_ids, "positions": self.positions, "last_tokens": self.last_tokens}

    @property
    def last_tokens(self) -> Int64:
        """The place in 0 .. T - 1 of the last token of each answered row."""
        return self.step.starts[self.answered + 1] - 1


def pack(rows: Seq[Row], block_size: int) -> Packed:
    """Lay the rows' tokens one after the other. Changes nothing. Every row has at least one token."""
    counts = np.fromiter((len(row.token_ids) for row in rows), np.int64, len(rows))
    begins = np.fromiter((row.start for row in rows), np.int64, len(rows))
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    lengths = begins + counts

    width = -(-int(lengths.max()) // block_size)
    tables = np.zeros((len(rows), width), np.int32)
    token_ids = np.empty(int(starts[-1]), np.int64)
    for i, row in enumerate(rows):
        used = -(-int(lengths[i]) // block_size)
        tables[i, :used] = row.table if len(row.table) == used else row.table[:used]
        token_ids[starts[i] : starts[i + 1]] = row.token_ids

    row_of = np.repeat(np.arange(len(rows)), counts)
    positions = np.arange(len(token_ids)) + (begins - starts[:-1])[row_of]
    slots = tables[row_of, positions // block_size].astype(np.int64) * block_size + positions % block_size
    answered = np.flatnonzero([row.samples or row.candidates for row in rows])
    step = PackedStep(slots, tables, lengths.astype(np.int32), starts, block_size)
    return Packed(token_ids, positions, step, answered)
