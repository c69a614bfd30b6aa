"""Paged attention on a CPU: one call a layer writes the step's K/V and attends for all of its queries.

The cache is head-major, `[block, kv head, offset, dim]`: the part of a block that one head needs is
contiguous. Queries walk the block table in tiles of `TILE` tokens with an online softmax in base 2
(FlashAttention, Dao et al. 2022; PagedAttention, Kwon et al. 2023). A few rows, as when one token decodes,
read keys and values where they lie. More rows share a tile: its keys are transposed and its values widened
once, in float32, and the products are computed block by block in registers.

What a query gives depends on its own sequence alone, to the last bit, and on whether the step holds few rows
of it: tiles begin at multiples of `TILE`, sums run in the order of the tokens, and what a query must not see
is neither scored for it nor multiplied by 0.

Nothing here runs in parallel: Numba's OpenMP layer would change torch's number of threads for the whole
process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from kvtop.kernels.cpu import microkernels as micro
from kvtop.kernels.cpu.compile import cache_folder, sources
from kvtop.kernels.cpu.microkernels import ROWS, TILE
from kvtop.kernels.cpu.vectors import LANES

FEW_ROWS = 8
"""Up to so many rows of a sequence read tiles where they lie; more of them repay transposing."""

TILE_ROWS = 128
"""Rows that share a tile, unless one token alone has more query heads for each KV head."""

_F = np.float32


@intrinsic  # type: ignore[untyped-decorator]
def _pointer(context: Any, address: Any, like: Any) -> Any:
    """A pointer to elements of `like`'s type at an integer address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(like)(address, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def _copy(context: Any, target: Any, source: Any, count: Any) -> Any:
    """Copies bytes from one address to another."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        target, source = (builder.inttoptr(address, byte) for address in arguments[:2])
        cgutils.raw_memcpy(builder, target, source, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@njit(inline="always")  # type: ignore[untyped-decorator]
def _elements(address: Any, like: Any) -> Any:
    """A flat array at an address. Its length is not known here, so it is not checked."""
    return carray(_pointer(address, like), (np.int64(1) << 40,))


@njit(inline="always")  # type: ignore[untyped-decorator]
def _write(cache: Any, source: Any, token: Any, head: Any, slots: Any, shape: Any) -> None:
    """Copy the keys, or values, of T tokens to their slots."""
    _, kv_heads, block_size, dim, size = shape
    for t in range(slots.size):
        block = slots[t] // block_size
        offset = slots[t] - block * block_size
        for h in range(kv_heads):
            to = ((block * kv_heads + h) * block_size + offset) * dim
            _copy(cache + to * size, source + (t * token + h * head) * size, dim * size)


@njit(error_model="numpy")  # type: ignore[untyped-decorator]
def _find(address: Any, table: Any, first: Any, begin: Any, end: Any, shape: Any) -> None:
    """Where the tokens first .. first + TILE - 1 of a sequence lie; for those outside begin .. end - 1 the
    place of one inside, so that whole vectors may be read."""
    _, kv_heads, block_size, dim, _ = shape
    places = _elements(address, np.int64(0))
    token = max(first, begin)
    stop = min(first + TILE, end)
    lead = token - first
    while token < stop:
        block = token // block_size
        offset = token - block * block_size
        piece = min(block_size - offset, stop - token)
        place = (np.int64(table[block]) * kv_heads * block_size + offset) * dim
        for i in range(piece):
            places[token - first + i] = place + i * dim
        token += piece
    for i in range(lead):
        places[i] = places[lead]
    for i in range(stop - first, TILE):
        places[i] = places[stop - first - 1]


@njit(inline="always")  # type: ignore[untyped-decorator]
def _span(position: Any, window: Any) -> Any:
    """Which tokens of a tile a query sees, begin and end: `position` is its own, from the tile's first."""
    end = min(np.int64(TILE), max(np.int64(0), position + 1))
    begin = min(end, max(np.int64(0), position + 1 - window)) if window > 0 else np.int64(0)
    return begin, end


@njit(inline="always")  # type: ignore[untyped-decorator]
def _weigh(few: Any, rows: Any, begin: Any, end: Any, at: Any, near: Any, key_cache: Any, like: Any) -> None:
    """Add the values of a tile's tokens begin .. end - 1 to the sums of rows whose weights are known."""
    if begin >= end:
        return
    count, sums, wide, weights = rows
    values, value_cache, dim = at
    places, ahead, wide_places = near
    if few:
        coming, parts = (key_cache, ahead), (dim // LANES, dim % LANES)
        micro.weigh((count, sums, wide, weights, value_cache, places, begin, end, *parts, *coming), like)
    else:
        coming, parts = (values, wide_places), (wide // (LANES * 4), np.int64(0))
        micro.weigh((count, sums, wide, weights, values, wide_places, begin, end, *parts, *coming), _F(0))


@njit(error_model="numpy")  # type: ignore[untyped-decorator]
def _attend_to_tile(
    few: Any,
    rows: Any,
    group: Any,
    position: Any,
    window: Any,
    dim: Any,
    tile: Any,
    near: Any,
    cache: Any,
    like: Any,
) -> None:
    """Bring some rows up to date with a tile. Row r is a query, `position + r // group` tokens into it.

    few: they read keys and values where they lie.
    tile: addresses of the rows' queries, sums, states and scores, and of the tile's keys and values.
    near: addresses of the tile's places, the next tile's, and those of the values when they are widened.
    cache: addresses of one head's keys and values, and of a float32 1.
    """
    queries, sums, states, scores, keys, values = tile
    places, _, _ = near
    key_cache, value_cache, one = cache
    chunks, tail = dim // LANES, dim % LANES
    padded = chunks + (1 if tail > 0 else 0)
    wide = padded * LANES * 4
    from_token, _ = _span(position, window)
    _, to_token = _span(position + (rows - 1) // group, window)
    from_vector, to_vector = from_token // LANES, -(-to_token // LANES)
    if not few:
        for x in range(from_vector, to_vector):
            micro.transpose((keys + x * LANES * 4, key_cache, places + x * LANES * 8, chunks, tail), like)
        micro.widen((values, wide, value_cache, places, to_token, one, chunks, tail), like)
    for first in range(0, rows, ROWS):
        count = min(np.int64(ROWS), rows - first)
        query, score, total = queries + first * wide, scores + first * TILE * 4, sums + first * wide
        from_token, low_end = _span(position + first // group, window)
        high_begin, to_token = _span(position + (first + count - 1) // group, window)
        if to_token <= from_token:
            continue
        from_vector, to_vector = from_token // LANES, -(-to_token // LANES)
        if few:
            for x in range(from_vector, to_vector):
                at, to = places + x * LANES * 8, score + x * LANES * 4
                micro.dots((count, to, query, wide, key_cache, at, chunks, tail, value_cache), like)
        else:
            from_vector -= from_vector % 4
            micro.multiply((score, query, wide, keys, dim, from_vector, to_vector), like)
        state = states + first * LANES * 8
        if high_begin == from_token and low_end == to_token:
            micro.softmax((count, score, from_token, to_token, state, total, wide), like)
        else:
            for r in range(count):
                begin, end = _span(position + (first + r) // group, window)
                if begin < end:
                    to, row_state, row_sums = score + r * TILE * 4, state + r * LANES * 8, total + r * wide
                    micro.softmax((np.int64(1), to, begin, end, row_state, row_sums, wide), like)
        # Tokens that all of these rows see, together; those before and after them row by row.
        values_at = (values, value_cache, dim)
        if high_begin >= low_end:
            high_begin = low_end = np.int64(TILE)
        for r in range(count):
            begin, end = _span(position + (first + r) // group, window)
            row = (np.int64(1), total + r * wide, wide, score + r * TILE * 4)
            _weigh(few, row, begin, min(end, high_begin), values_at, near, key_cache, like)
        _weigh(few, (count, total, wide, score), high_begin, low_end, values_at, near, key_cache, like)
        for r in range(count):
            begin, end = _span(position + (first + r) // group, window)
            row = (np.int64(1), total + r * wide, wide, score + r * TILE * 4)
            _weigh(few, row, max(begin, low_end), end, values_at, near, key_cache, like)


@njit(inline="always")  # type: ignore[untyped-decorator]
def _attend(
    like: Any,
    addresses: Any,
    strides: Any,
    shape: Any,
    workspace: Any,
    slots: Any,
    tables: Any,
    lengths: Any,
    starts: Any,
    scale: Any,
    window: Any,
) -> None:
    """See `write_and_attend`."""
    out, query, key, value, key_cache, value_cache = addresses
    q_token, q_head, k_token, k_head, v_token, v_head = strides
    group, kv_heads, block_size, dim, size = shape
    queries, sums, states, scores, keys, values, places, more_places, wide_places, rows_at, factors = (
        workspace
    )
    _write(key_cache, key, k_token, k_head, slots, shape)
    _write(value_cache, value, v_token, v_head, slots, shape)
    chunks, tail = dim // LANES, dim % LANES
    padded = chunks + (1 if tail > 0 else 0)
    wide = padded * LANES * 4
    _elements(factors, _F(0))[0] = scale
    _elements(factors, _F(0))[1] = _F(1)
    wide_place = _elements(wide_places, np.int64(0))
    for x in range(TILE):
        wide_place[x] = x * padded * LANES
    row_place = _elements(rows_at, np.int64(0))
    most = max(np.int64(1), np.int64(TILE_ROWS) // group)
    for row in range(lengths.size):
        table = tables[row]
        tokens = starts[row + 1] - starts[row]
        stored = np.int64(lengths[row]) - tokens
        few = tokens * group <= FEW_ROWS
        for first_query in range(starts[row], starts[row + 1], most):
            count = min(most, starts[row + 1] - first_query)
            position = stored + first_query - starts[row]
            begin = max(np.int64(0), position + 1 - window) if window > 0 else np.int64(0)
            end = position + count
            rows = count * group
            for h in range(kv_heads):
                for r in range(rows):
                    head = h * group + r % group
                    row_place[r] = (first_query + r // group) * q_token + head * q_head
                    micro.reset((states + r * LANES * 8, sums + r * wide, wide), like)
                micro.widen((queries, wide, query, rows_at, rows, factors, chunks, tail), like)
                cache = (
                    key_cache + h * block_size * dim * size,
                    value_cache + h * block_size * dim * size,
                    factors + 4,
                )
                now, ahead = places, more_places
                first = begin - begin % TILE
                _find(now, table, first, begin, end, shape)
                while first < end:
                    if first + TILE < end:
                        _find(ahead, table, first + TILE, begin, end, shape)
                    tile = (queries, sums, states, scores, keys, values)
                    near = (now, ahead, wide_places)
                    _attend_to_tile(few, rows, group, position - first, window, dim, tile, near, cache, like)
                    first += TILE
                    now, ahead = ahead, now
                for r in range(rows):
                    to = ((first_query + r // group) * kv_heads + h) * group + r % group
                    state = states + r * LANES * 8
                    micro.finish((out + to * dim * size, state, sums + r * wide, chunks, tail), like)


@functools.cache
def workspace(group: int, dim: int) -> tuple[tuple[int, ...], int]:
    """Where the parts of the kernel's workspace begin and how long it is, in bytes. It begins at a multiple
    of 64."""
    rows = max(1, TILE_ROWS // group) * group
    rows = -(-rows // ROWS) * ROWS
    wide = -(-dim // LANES) * LANES * 4
    sizes = (
        rows * wide,  # queries
        rows * wide,  # sums
        rows * LANES * 8,  # states
        rows * TILE * 4,  # scores
        wide * TILE,  # transposed keys
        wide * TILE,  # widened values
        *(3 * [TILE * 8]),  # places: of this tile, the next one and the widened values
        rows * 8,  # places of the queries
        64,  # factors: the scale and 1
    )
    parts, end = [], 0
    for size in sizes:
        parts.append(end)
        end += -(-size // 64) * 64
    return tuple(parts), end


def _compiled(function: Callable[..., None]) -> Callable[..., None]:
    """`function` under Numba, its machine code kept in the user's cache folder where that can be written.

    Numba reads the folder when a function is decorated, so its global setting is put back afterwards.
    Where nothing can be written the code is compiled at every start.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    before = numba.config.CACHE_DIR
    folder = cache_folder()
    try:
        if folder is not None:
            numba.config.CACHE_DIR = str(folder)
        return njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except (OSError, RuntimeError):
        return njit(**options)(function)  # type: ignore[no-any-return]
    finally:
        numba.config.CACHE_DIR = before


@functools.cache
def write_and_attend() -> Callable[..., None]:
    """The kernel, compiled when it is first called with an element type, for every head dimension.

    It writes the keys and values of `T` tokens, then attends for all of their queries:

    kernel(like, addresses, strides, shape, workspace, slots, tables, lengths, starts, scale, window)

    like: `np.float32(0)` or, for bfloat16, `np.uint16(0)`: the element type of every tensor.
    addresses: of out, query, key, value, key_cache, value_cache; the last dimension of all is contiguous,
    `out` and the caches wholly so. Changes the caches and `out`, `[T, kv_heads * group, dim]`.
    strides: elements from one token, then one head, to the next, of query, key and value.
    shape: (group = query heads for each KV head, kv_heads, block_size, dim, bytes of an element).
    workspace: addresses of its parts, see `workspace`; overwritten.
    slots, tables, lengths, starts: as in `PackedStep`. scale: float32, by which scores are multiplied, times
    log2(e). window: only the last `window` tokens are seen; 0 means all.
    """
    version = int(sources(), 16) >> 1

    def kernel(
        like: Any,
        addresses: Any,
        strides: Any,
        shape: Any,
        workspace: Any,
        slots: Any,
        tables: Any,
        lengths: Any,
        starts: Any,
        scale: Any,
        window: Any,
    ) -> None:
        version  # noqa: B018  # in the closure, and so in the key of Numba's cache
        _attend(like, addresses, strides, shape, workspace, slots, tables, lengths, starts, scale, window)

    return _compiled(kernel)
