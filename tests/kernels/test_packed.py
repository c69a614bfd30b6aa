"""What a layer reads through the tables, against counting it token by token."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvtop.kernels.packed import PackedStep


def counted(step: PackedStep, window: int) -> tuple[int, int, int]:
    """Tokens, table entries and runs, one query after the other."""
    tokens, entries, runs = 0, 0, 0
    for row, (length, count) in enumerate(zip(step.lengths.tolist(), step.counts.tolist(), strict=True)):
        seen = {
            position
            for query in range(length - count, length)
            for position in range(max(0, query + 1 - window) if window else 0, query + 1)
        }
        logical = sorted({position // step.block_size for position in seen})
        ids = [int(step.tables[row, block]) for block in logical]
        tokens += len(seen)
        entries += len(ids)
        runs += 1 + sum(after != before + 1 for before, after in pairwise(ids))
    return tokens, entries, runs


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=5),
    st.sampled_from([1, 3, 4, 16]),
    st.sampled_from([0, 1, 2, 7, 100]),
    st.integers(0, 99),
)
def test_reads(rows, block_size, window, seed) -> None:
    lengths = np.array([length for length, _ in rows], np.int32)
    counts = np.array([min(pair) for pair in rows])
    blocks = -(-lengths // block_size)
    tables = np.random.default_rng(seed).integers(0, 4, (len(rows), int(blocks.max()))).astype(np.int32)
    for row, used in enumerate(blocks):
        tables[row, used:] = 0
    starts = np.concatenate([[0], np.cumsum(counts)])
    step = PackedStep(np.zeros(starts[-1], np.int64), tables, lengths, starts, block_size)
    assert step.reads(window) == counted(step, window)
