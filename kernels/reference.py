"""Paged attention as its definition reads, in float64: slow, and what the kernels are compared with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]


def attend(
    query: Float64,
    key_cache: Float64,
    value_cache: Float64,
    table: npt.NDArray[np.integer],
    position: int,
    scale: float,
    window: int = 0,
) -> Float64:
    """The output for one query at `position` of a sequence, read through its block table.

    query: `[query heads, dim]`; caches: `[blocks, kv heads, block size, dim]`; table: physical block ids.
    window: only the last `window` tokens are seen; 0 means all. Returns `[query heads, dim]`.
    """
    _, kv_heads, block_size, _ = key_cache.shape
    first = max(0, position + 1 - window) if window else 0
    tokens = np.arange(first, position + 1)
    blocks, offsets = np.asarray(table)[tokens // block_size], tokens % block_size
    group = len(query) // kv_heads
    out = np.empty_like(query)
    for head in range(len(query)):
        keys = key_cache[blocks, head // group, offsets]
        scores = keys @ query[head] * scale
        weights = np.exp(scores - scores.max())
        out[head] = weights @ value_cache[blocks, head // group, offsets] / weights.sum()
    return out
