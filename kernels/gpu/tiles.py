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
    SLOT_STRIDE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    MASKED: tl.constexpr,
) -> tl.tensor:
    """`[TILE]` int64: elements from a head's first block to each token's row. Pools exceed 2^31 elements.

    SLOT_STRIDE is known when compiling: rows of a head dim that 8 divides but 16 does not are loaded whole.
    """
    if MASKED:
        block = tl.load(table + position // BLOCK_SIZE, mask=seen, other=0)
    else:
        block = tl.load(table + position // BLOCK_SIZE)
    return block.to(tl.int64) * block_stride + (position % BLOCK_SIZE) * SLOT_STRIDE


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
def load_queries(
    rows: tl.tensor,
    used: tl.tensor,
    kind: tl.constexpr,
    DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    HALVES: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """The query tile as the two operands of `score_tile`. rows: `[rows, 1]` pointers, read where `used`."""
    WIDTH: tl.constexpr = PADDED_DIM // 2 if HALVES else PADDED_DIM
    column = tl.arange(0, WIDTH)
    low = tl.load(rows + column[None, :], mask=used & (column < DIM)[None, :], other=0.0).to(kind)
    high = low
    if HALVES:
        column += WIDTH
        high = tl.load(rows + column[None, :], mask=used & (column < DIM)[None, :], other=0.0).to(kind)
    return low, high


@triton.jit
def score_tile(
    low: tl.tensor,
    high: tl.tensor,
    cache: tl.tensor,
    offsets: tl.tensor,
    seen: tl.tensor,
    DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    HALVES: tl.constexpr,
    MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tl.tensor:
    """`[rows, TILE]`: queries times keys. HALVES: in two products over half of the dim each, one after the
    other, where the registers do not hold the operands of the whole: a float32 is two TF32 numbers there.
    """
    WIDTH: tl.constexpr = low.shape[1]
    scores = tl.zeros([low.shape[0], offsets.shape[0]], tl.float32)
    column = tl.arange(0, WIDTH)
    keys = load_rows(cache, offsets, seen, column, DIM, PADDED_DIM, MASKED)
    scores = product(low, tl.trans(keys), scores, PRECISION)
    if HALVES:
        keys = load_rows(cache, offsets, seen, column + WIDTH, DIM, PADDED_DIM, MASKED)
        scores = product(high, tl.trans(keys), scores, PRECISION)
    return scores


@triton.jit
def fold(
    scores: tl.tensor,
    values: tl.tensor,
    peak: tl.tensor,
    total: tl.tensor,
    acc: tl.tensor,
    PRECISION: tl.constexpr,
    BLIND: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """One step of the online softmax, base 2, float32 (Milakov and Gimelshein, 2018; FlashAttention).

    scores `[rows, TILE]`: -inf where a row does not see a token. peak, total `[rows]`: the largest score and
    the sum of the weights so far. acc `[rows, dim]`: the weighted values. BLIND: a row may see no token yet.
    """
    higher = tl.maximum(peak, tl.max(scores, 1))
    base = higher
    if BLIND:
        base = tl.where(higher == float("-inf"), 0.0, higher)  # -inf less -inf is NaN
    kept = tl.exp2(peak - base)
    weights = tl.exp2(scores - base[:, None])
    total = total * kept + tl.sum(weights, 1)
    acc = product(weights.to(values.dtype), values, acc * kept[:, None], PRECISION)
    return higher, total, acc
