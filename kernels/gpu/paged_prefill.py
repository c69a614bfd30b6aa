"""Prefill attention over paged K/V: the queries of many rows packed one after the other, causal.

What one program reads, for a tile of ROWS // G queries of row r, and KV head h:

    query       | row 0 ..... | row r: . . . [q q q q] . . | row 2 ...    packed, no padding between rows
                                               |
    q tile      [ROWS, dim]: queries x the G heads of h's group; row m is query m // G, head m % G

    context r   |. . . .+++++++|=======|=======|*******|      the stored prefix, then the new tokens, which
                                                             `store` has written before
                .  before the first query's window: not read
                +  on the window's edge, or * on the diagonal: masked
                =  seen whole by every query of the tile: no mask
                beyond the last query: not read

A tile of K and of V is read once for all queries and heads of the program. The block table is looked up per
token, as in decode. Query tiles come as a list made on the host, `(row, first query)`, so no program is idle.

Dao: FlashAttention-2 (2023), with query heads folded into the rows as in grouped-query decoding.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
import triton
import triton.language as tl

from kvtop.kernels.gpu.configs import padded_dim, prefill_config
from kvtop.kernels.gpu.paged_decode import BACKEND, LOG2_E
from kvtop.kernels.gpu.tiles import fold, load_queries, load_rows, score_tile, token_offsets


def queries_per_tile(dim: int, group: int, element_bytes: int) -> int:
    """Queries of a row that one program takes, for `prefill_tiles`. Raises ValueError for a dim above 256."""
    rows = prefill_config(dim, group, element_bytes, BACKEND).rows
    return rows // min(group, rows)


def prefill_tiles(counts: npt.NDArray[np.integer], queries_per_tile: int) -> npt.NDArray[np.int32]:
    """`[n, 2]`: (row, first query within the row) of each tile. counts: `[S]`, queries of each row; 0 leaves
    a row out. A row's last tile, which reads the most context, comes first: it should not start last.
    """
    tiles = -(-np.asarray(counts) // queries_per_tile)
    rows = np.repeat(np.arange(len(tiles)), tiles)
    ends = np.cumsum(tiles)
    index = np.repeat(ends, tiles) - 1 - np.arange(len(rows))
    return np.stack([rows, index * queries_per_tile], 1).astype(np.int32)


def paged_prefill(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    tables: torch.Tensor,
    lengths: torch.Tensor,
    starts: torch.Tensor,
    tiles: torch.Tensor,
    scale: float,
    *,
    window: int = 0,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attend for the new tokens of rows, whose K/V is stored already. Returns `[T, query heads, dim]`.

    query: `[T, query heads, dim]`, last dim contiguous; row i has queries `starts[i] .. starts[i + 1] - 1`,
    the last at position `lengths[i] - 1`, and each sees its own position and those before. caches: `[blocks,
    kv heads, block size, dim]` of one dtype (float32, float16 or bfloat16), with the same strides, last dim
    contiguous. tables: `[S, blocks]` int32. lengths: `[S]` int32, new tokens included. starts: `[S + 1]`,
    integers. tiles: `[n, 2]` int32, from `prefill_tiles(counts, queries_per_tile(...))`; rows without a tile
    are not computed. scale: of the scores, before the softmax. window: a query sees its last `window` tokens
    only, its own included; 0 means all.

    Changes `out` at the tiles' queries (made when None, in the query's dtype; other tokens are left as they
    are). Raises ValueError for a head dim above 256 or caches that differ in strides.
    """
    _, heads, dim = query.shape
    _, kv_heads, block_size, _ = key_cache.shape
    if key_cache.stride() != value_cache.stride():
        raise ValueError("the key and the value cache must have the same strides")
    group = heads // kv_heads
    config = prefill_config(dim, group, key_cache.element_size(), BACKEND)
    if out is None:
        out = torch.empty_like(query, memory_format=torch.contiguous_format)
    if not tiles.shape[0]:
        return out
    chunks = -(-group // min(group, config.rows))
    prefill_tile[tiles.shape[0], kv_heads * chunks](
        out,
        query,
        key_cache,
        value_cache,
        tables,
        lengths,
        starts,
        tiles,
        scale * LOG2_E,
        window,
        tables.stride(0),
        query.stride(0),
        query.stride(1),
        out.stride(0),
        out.stride(1),
        key_cache.stride(0),
        key_cache.stride(1),
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
    return out


@triton.jit(do_not_specialize=["window", "table_stride"])
def prefill_tile(
    out: tl.tensor,
    query: tl.tensor,
    key_cache: tl.tensor,
    value_cache: tl.tensor,
    tables: tl.tensor,
    lengths: tl.tensor,
    starts: tl.tensor,
    tiles: tl.tensor,
    scale: tl.tensor,
    window: tl.tensor,
    table_stride: tl.tensor,
    query_token_stride: tl.tensor,
    query_head_stride: tl.tensor,
    out_token_stride: tl.tensor,
    out_head_stride: tl.tensor,
    block_stride: tl.tensor,
    head_stride: tl.tensor,
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
    """Grid `(tiles, kv heads x chunks of at most ROWS query heads)`; see `paged_prefill`."""
    HEADS: tl.constexpr = GROUP if GROUP < ROWS else ROWS
    CHUNKS: tl.constexpr = (GROUP + HEADS - 1) // HEADS
    QUERIES: tl.constexpr = ROWS // HEADS
    row = tl.load(tiles + tl.program_id(0) * 2).to(tl.int64)
    first_query = tl.load(tiles + tl.program_id(0) * 2 + 1)
    kv_head = tl.program_id(1) // CHUNKS
    row_start = tl.load(starts + row).to(tl.int64)
    count = (tl.load(starts + row + 1) - row_start).to(tl.int32)
    length = tl.load(lengths + row)
    first = length - count + first_query  # position of the tile's first query
    last = tl.minimum(first + QUERIES, length) - 1  # ... and of its last

    m = tl.arange(0, ROWS)
    in_tile = m // HEADS
    in_group = (tl.program_id(1) % CHUNKS) * HEADS + m % HEADS
    # A power of two of rows need not be whole queries, nor the queries fill the tile.
    used = (in_tile < QUERIES) & (in_tile + first <= last) & (in_group < GROUP)
    asking = tl.minimum(first + in_tile, last)  # rows without a query see what the last one sees
    column = tl.arange(0, PADDED_DIM)
    kind: tl.constexpr = key_cache.dtype.element_ty
    # 64 bits up to the tile, 32 within: these live through the loops in every thread's registers.
    token = row_start + first_query
    head = kv_head.to(tl.int64) * GROUP
    q_rows = query + token * query_token_stride + head * query_head_stride
    q_rows += (in_tile * query_token_stride + in_group * query_head_stride)[:, None]
    q_low, q_high = load_queries(q_rows, used[:, None], kind, DIM, PADDED_DIM, HALVES)

    # Tiles of the context, from the first that any query sees: some on the window's edge that not all see,
    # then those that every query sees whole, then those that reach beyond the first query.
    begin = 0
    edge_tiles = 0
    if window > 0:
        begin = tl.maximum(first + 1 - window, 0)
        edge_tiles = tl.cdiv(tl.maximum(last + 1 - window, 0) - begin, TILE)
    whole_begin = begin + edge_tiles * TILE
    whole_tiles = tl.maximum(first + 1 - whole_begin, 0) // TILE
    whole_end = whole_begin + whole_tiles * TILE
    late_tiles = tl.cdiv(tl.maximum(last + 1 - whole_end, 0), TILE)

    table = tables + row * table_stride
    keys_of_head = key_cache + kv_head.to(tl.int64) * head_stride
    values_of_head = value_cache + kv_head.to(tl.int64) * head_stride
    peak = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, PADDED_DIM], tl.float32)
    for start in range(whole_begin, whole_end, TILE):
        position = start + tl.arange(0, TILE)
        offsets = token_offsets(table, position, position, block_stride, SLOT_STRIDE, BLOCK_SIZE, False)
        scores = score_tile(
            q_low, q_high, keys_of_head, offsets, position, DIM, PADDED_DIM, HALVES, False, PRECISION
        )
        values = load_rows(values_of_head, offsets, position, column, DIM, PADDED_DIM, False)
        peak, total, acc = fold(scores * scale, values, peak, total, acc, PRECISION, False)

    for index in range(edge_tiles + late_tiles):
        # The softmax does not mind the order, so one loop does both edges.
        start = begin + index * TILE
        if index >= edge_tiles:
            start += whole_tiles * TILE
        position = start + tl.arange(0, TILE)
        stored = position <= last
        offsets = token_offsets(table, position, stored, block_stride, SLOT_STRIDE, BLOCK_SIZE, True)
        scores = score_tile(
            q_low, q_high, keys_of_head, offsets, stored, DIM, PADDED_DIM, HALVES, True, PRECISION
        )
        values = load_rows(values_of_head, offsets, stored, column, DIM, PADDED_DIM, True)
        seen = position[None, :] <= asking[:, None]
        if window > 0:
            seen = seen & (position[None, :] > asking[:, None] - window)
        scores = tl.where(seen, scores * scale, float("-inf"))
        peak, total, acc = fold(scores, values, peak, total, acc, PRECISION, True)

    acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    out_rows = out + token * out_token_stride + head * out_head_stride
    out_rows += (in_tile * out_token_stride + in_group * out_head_stride)[:, None]
    real = used[:, None] & (column < DIM)[None, :]
    tl.store(out_rows + column[None, :], acc.to(out.dtype.element_ty), mask=real)
