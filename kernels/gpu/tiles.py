"""What the attention kernels do with one tile of the context: find it, load it, fold it into the softmax.

A tile is TILE tokens that follow each other in the sequence and lie anywhere in the cache. Its size is free
of the block size: each token looks up its own physical block.

    position        96  97  98  99 100 101 ...        the tile, consecutive
    / block size     6   6   6   6   6   6 ...  --->  table[6] = 41, one load a token (cached)
    cache row       41:0 41:1 41:2 41:3 ...     --->  [TILE, dim] of K and of V at the same offsets
"""

from __future__ import annotations

import os

import triton
import triton.language as tl

INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")
"""Triton's interpreter, which the tests use where there is no GPU, has no product of bfloat16."""


@triton.jit
def product(a: tl.tensor, b: tl.tensor, acc: tl.tensor, PRECISION: tl.constexpr) -> tl.tensor:
    """`a @ b + acc` on matrix instructions, float32 sums."""
    if INTERPRETED:
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, acc, input_precision=PRECISION)


@triton.jit
def token_offsets(
    table: tl.tensor,
    position: tl.tensor,
    seen: tl.tensor,
    block_stride: tl.tensor,
    slot_stride: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
    MASKED: tl.constexpr,
) -> tl.tensor:
    """`[TILE]` int64: elements from a head's first block to each token's row. Pools exceed 2^31 elements."""
    if MASKED:
        block = tl.load(table + position // BLOCK_SIZE, mask=seen, other=0)
    else:
        block = tl.load(table + position // BLOCK_SIZE)
    return block.to(tl.int64) * block_stride + (position % BLOCK_SIZE) * slot_stride


@triton.jit
def load_rows(
    cache: tl.tensor,
    offsets: tl.tensor,
    seen: tl.tensor,
    column: tl.tensor,
    DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    MASKED: tl.constexpr,
) -> tl.tensor:
    """`[TILE, PADDED_DIM]`: rows that are seen, else zeros. What is not seen may be NaN: it is not read."""
    pointers = cache + offsets[:, None] + column[None, :]
    if MASKED:
        if DIM == PADDED_DIM:
            tile = tl.load(pointers, mask=seen[:, None], other=0.0)
        else:
            tile = tl.load(pointers, mask=seen[:, None] & (column < DIM)[None, :], other=0.0)
    else:
        if DIM == PADDED_DIM:
            tile = tl.load(pointers)
        else:
            tile = tl.load(pointers, mask=(column < DIM)[None, :], other=0.0)
    return tile


@triton.jit
def fold(
    scores: tl.tensor,
    values: tl.tensor,
    high: tl.tensor,
    total: tl.tensor,
    acc: tl.tensor,
    PRECISION: tl.constexpr,
    BLIND: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """One step of the online softmax, base 2, float32 (Milakov and Gimelshein, 2018; FlashAttention).

    scores `[rows, TILE]`: -inf where a row does not see a token. high, total `[rows]`: the largest score and
    the sum of the weights so far. acc `[rows, dim]`: the weighted values. BLIND: a row may see no token yet.
    """
    higher = tl.maximum(high, tl.max(scores, 1))
    base = higher
    if BLIND:
        base = tl.where(higher == float("-inf"), 0.0, higher)  # -inf less -inf is NaN
    kept = tl.exp2(high - base)
    weights = tl.exp2(scores - base[:, None])
    total = total * kept + tl.sum(weights, 1)
    acc = product(weights.to(values.dtype), values, acc * kept[:, None], PRECISION)
    return higher, total, acc
