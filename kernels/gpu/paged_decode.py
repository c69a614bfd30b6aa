"""Decode attention over paged K/V: one new query a row, the context split over programs (flash-decoding).

What one program of the first pass reads, for row r, KV head h and split s:

    query[token of r]      heads h*G .. h*G+G-1, padded to at least 16 rows     q [16, dim]
    tables[r]              | 7 | 2 | 9 | 4 | 1 | 8 |        physical block of each BLOCK_SIZE tokens
    context of r           |.......|=======|-------|        . other splits   = this one   - the last one
                                    ^tile^tile             TILE tokens: [TILE, dim] of K and of V at head h
    writes                 its weighted mean [G, dim] and the log2 of its sum of weights [G]

All query heads of the group work on a tile while it is on the chip, so each K/V row is read once. With a
sliding window the splits divide the window: what lies before it is never read. The second pass weighs the
splits of one (row, query head) against each other. With one split the first pass writes the result itself.

Dao, Haziza, Massa, Sizov: Flash-Decoding for long-context inference (2023). The block table as in Kwon et
al.: Efficient Memory Management for Large Language Model Serving with PagedAttention (2023), section 4.1.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from kvtop.kernels.gpu.configs import (
    REDUCE_SPLITS,
    REDUCE_WARPS,
    AttentionConfig,
    decode_config,
    padded_dim,
)
from kvtop.kernels.gpu.decode_plan import DecodePlan
from kvtop.kernels.gpu.tiles import fold, load_queries, load_rows, score_tile, token_offsets

LOG2_E = math.log2(math.e)
BACKEND = "hip" if torch.version.hip else "cuda"


def paged_decode(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    tables: torch.Tensor,
    lengths: torch.Tensor,
    scale: float,
    *,
    window: int = 0,
    tokens: torch.Tensor | None = None,
    rows: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    plan: DecodePlan,
    config: AttentionConfig | None = None,
) -> torch.Tensor:
    """Attend for the newest token of each row, whose K/V is stored. Returns `[T, query heads, dim]`.

    query: `[T, query heads, dim]`, last dim contiguous. caches: `[blocks, kv heads, block size, dim]` of one
    dtype (float32, float16 or bfloat16), with the same strides, last dim contiguous. tables: `[S, blocks]`
    int32. lengths: `[S]` int32, the newest token included; 0 gives zeros. tokens, rows: `[n]` int32, which
    queries decode and the table row each one reads; without them query i reads row i. scale: of the scores,
    before the softmax. window: only the last `window` tokens are seen; 0 means all. plan: from `plan_decode`
    over these rows' lengths, for this window or a larger one. config: another one than the table's, to be
    measured.

    Changes `out` at the decoding tokens (made when None, in the query's dtype; other tokens are left as
    they are). Raises ValueError for a head dim above 256 or caches that differ in strides.
    """
    _, heads, dim = query.shape
    _, kv_heads, block_size, _ = key_cache.shape
    if key_cache.stride() != value_cache.stride():
        raise ValueError("the key and the value cache must have the same strides")
    config = config or decode_config(dim, heads // kv_heads, key_cache.element_size(), BACKEND)
    if out is None:
        out = torch.empty_like(query, memory_format=torch.contiguous_format)
    if tokens is None or rows is None:
        tokens = rows = torch.arange(lengths.shape[0], dtype=torch.int32, device=query.device)
    count = tokens.shape[0]
    if not count:
        return out
    split = plan.splits > 1
    if split:
        partial = torch.empty(count, heads, plan.splits, dim, dtype=torch.float32, device=query.device)
        sums = torch.empty(count, heads, plan.splits, dtype=torch.float32, device=query.device)
    else:
        partial, sums = out, out
    group = heads // kv_heads
    chunks = -(-group // config.rows)
    decode_split[count, kv_heads * chunks, plan.splits](
        out,
        partial,
        sums,
        query,
        key_cache,
        value_cache,
        tables,
        lengths,
        tokens,
        rows,
        scale * LOG2_E,
        window,
        plan.splits,
        plan.tokens,
        tables.stride(0),
        query.stride(0),
        query.stride(1),
        out.stride(0),
        out.stride(1),
        key_cache.stride(0),
        key_cache.stride(1),
        SPLIT=split,
        GROUP=group,
        ROWS=config.rows,
        DIM=dim,
        PADDED_DIM=padded_dim(dim),
        BLOCK_SIZE=block_size,
        SLOT_STRIDE=key_cache.stride(2),
        TILE=config.tile,
        PRECISION=config.precision,
        HALVES=config.halves,
        **config.options,
    )
    if split:
        reduce_splits[count, heads](
            out,
            partial,
            sums,
            lengths,
            tokens,
            rows,
            window,
            plan.splits,
            plan.tokens,
            out.stride(0),
            out.stride(1),
            DIM=dim,
            PADDED_DIM=padded_dim(dim),
            SPLITS=REDUCE_SPLITS,
            num_warps=REDUCE_WARPS,
        )
    return out


@triton.jit(do_not_specialize=["window", "splits", "span", "table_stride"])
def decode_split(
    out: tl.tensor,
    partial: tl.tensor,
    sums: tl.tensor,
    query: tl.tensor,
    key_cache: tl.tensor,
    value_cache: tl.tensor,
    tables: tl.tensor,
    lengths: tl.tensor,
    tokens: tl.tensor,
    rows: tl.tensor,
    scale: tl.tensor,
    window: tl.tensor,
    splits: tl.tensor,
    span: tl.tensor,
    table_stride: tl.tensor,
    query_token_stride: tl.tensor,
    query_head_stride: tl.tensor,
    out_token_stride: tl.tensor,
    out_head_stride: tl.tensor,
    block_stride: tl.tensor,
    head_stride: tl.tensor,
    SPLIT: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    SLOT_STRIDE: tl.constexpr,
    TILE: tl.constexpr,
    PRECISION: tl.constexpr,
    HALVES: tl.constexpr,
) -> None:
    """Grid `(decoding rows, kv heads x chunks of ROWS query heads, splits)`; see `paged_decode`."""
    CHUNKS: tl.constexpr = (GROUP + ROWS - 1) // ROWS
    index = tl.program_id(0)
    kv_head = tl.program_id(1) // CHUNKS
    split = tl.program_id(2)
    token = tl.load(tokens + index).to(tl.int64)
    row = tl.load(rows + index).to(tl.int64)
    length = tl.load(lengths + row)
    begin = split * span
    if window > 0:
        begin += tl.maximum(length - window, 0)
    end = tl.minimum(begin + span, length)
    if SPLIT:
        if begin >= length:
            return  # the second pass knows the row's length too, and reads no partial result from here

    in_group = (tl.program_id(1) % CHUNKS) * ROWS + tl.arange(0, ROWS)
    head = kv_head * GROUP + in_group
    column = tl.arange(0, PADDED_DIM)
    real = (in_group < GROUP)[:, None] & (column < DIM)[None, :]
    kind: tl.constexpr = key_cache.dtype.element_ty
    q_rows = query + token * query_token_stride + head[:, None] * query_head_stride
    q_low, q_high = load_queries(q_rows, (in_group < GROUP)[:, None], kind, DIM, PADDED_DIM, HALVES)

    table = tables + row * table_stride
    keys_of_head = key_cache + kv_head.to(tl.int64) * head_stride
    values_of_head = value_cache + kv_head.to(tl.int64) * head_stride
    peak = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, PADDED_DIM], tl.float32)
    for start in range(begin, end, TILE):
        position = start + tl.arange(0, TILE)
        seen = position < end
        offsets = token_offsets(table, position, seen, block_stride, SLOT_STRIDE, BLOCK_SIZE, True)
        scores = score_tile(
            q_low, q_high, keys_of_head, offsets, seen, DIM, PADDED_DIM, HALVES, True, PRECISION
        )
        values = load_rows(values_of_head, offsets, seen, column, DIM, PADDED_DIM, True)
        scores = tl.where(seen[None, :], scores * scale, float("-inf"))
        peak, total, acc = fold(scores, values, peak, total, acc, PRECISION, False)

    acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    if SPLIT:
        heads = tl.num_programs(1) // CHUNKS * GROUP
        piece = (index.to(tl.int64) * heads + head) * splits + split
        tl.store(partial + piece[:, None] * DIM + column[None, :], acc, mask=real)
        tl.store(sums + piece, peak + tl.log2(total), mask=in_group < GROUP)
    else:
        place = token * out_token_stride + head[:, None] * out_head_stride + column[None, :]
        tl.store(out + place, acc.to(out.dtype.element_ty), mask=real)


@triton.jit(do_not_specialize=["window", "splits", "span"])
def reduce_splits(
    out: tl.tensor,
    partial: tl.tensor,
    sums: tl.tensor,
    lengths: tl.tensor,
    tokens: tl.tensor,
    rows: tl.tensor,
    window: tl.tensor,
    splits: tl.tensor,
    span: tl.tensor,
    out_token_stride: tl.tensor,
    out_head_stride: tl.tensor,
    DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    SPLITS: tl.constexpr,
) -> None:
    """Grid `(decoding rows, query heads)`: the mean of a head's partial results by their sums of weights."""
    index = tl.program_id(0)
    head = tl.program_id(1)
    token = tl.load(tokens + index).to(tl.int64)
    row = tl.load(rows + index).to(tl.int64)
    visible = tl.load(lengths + row)
    if window > 0:
        visible = tl.minimum(visible, window)
    written = tl.cdiv(visible, span)  # splits behind the row's end wrote nothing
    piece = (index.to(tl.int64) * tl.num_programs(1) + head) * splits
    column = tl.arange(0, PADDED_DIM)
    peak = float("-inf")
    total = 0.0
    acc = tl.zeros([PADDED_DIM], tl.float32)
    for start in range(0, written, SPLITS):
        split = start + tl.arange(0, SPLITS)
        real = split < written
        score = tl.load(sums + piece + split, mask=real, other=float("-inf"))
        place = (piece + split)[:, None] * DIM + column[None, :]
        means = tl.load(partial + place, mask=real[:, None] & (column < DIM)[None, :], other=0.0)
        higher = tl.maximum(peak, tl.max(score, 0))
        kept = tl.exp2(peak - higher)
        weights = tl.exp2(score - higher)
        total = total * kept + tl.sum(weights, 0)
        acc = acc * kept + tl.sum(means * weights[:, None], 0)
        peak = higher
    acc = acc / tl.where(total == 0.0, 1.0, total)
    place = token * out_token_stride + head * out_head_stride + column
    tl.store(out + place, acc.to(out.dtype.element_ty), mask=column < DIM)
