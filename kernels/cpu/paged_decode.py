"""Paged attention of one-token queries on a CPU: walks the block table, copies nothing that it reads twice.

One call a layer writes the step's keys and values to their slots and attends for the rows that decode.
The cache is head-major, `[block, kv head, offset, dim]`, so the part of a block that one head needs is
contiguous. The softmax is computed online over tiles of `TILE` tokens, in float32 (FlashAttention, Dao et
al. 2022; PagedAttention, Kwon et al. 2023). bfloat16 is handled by its bits, as uint16.

Tensors come in as addresses and element strides: making NumPy views of them would cost more than a small
model's attention. The last dimension of every tensor must be contiguous. Nothing here runs in parallel:
Numba's OpenMP layer would change torch's number of threads for the whole process.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import platformdirs
from llvmlite import ir
from numba import carray, literally, njit, types
from numba.extending import intrinsic, overload

TILE = 16
"""Tokens that are scored together: a constant multiple of 8, so that the loops over it are unrolled."""

# NaN and infinity keep their meaning for stored values, so a broken model stays visible; sums may be
# reordered, which is what lets LLVM vectorise them.
_FASTMATH = {"contract", "reassoc", "nsz", "arcp"}
_F = np.float32
_LOWEST = np.float32(-1e30)


@intrinsic  # type: ignore[untyped-decorator]
def _pointer(context: Any, address: Any, like: Any) -> Any:
    """A pointer to elements of `like`'s type at an integer address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(like)(address, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def _bits(context: Any, value: Any) -> Any:
    """The 32 bits of a float32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.uint32(types.float32), generate


@intrinsic  # type: ignore[untyped-decorator]
def _float(context: Any, bits: Any) -> Any:
    """The float32 that has these 32 bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), generate


def _load(value: Any) -> Any:
    """An element of a tensor as float32; replaced by the overload below when compiled."""
    raise NotImplementedError


def _store(value: Any, like: Any) -> Any:
    """A float32 as an element of `like`'s type; replaced by the overload below when compiled."""
    raise NotImplementedError


@overload(_load, inline="always")  # type: ignore[untyped-decorator]
def _overload_load(value: Any) -> Callable[..., Any]:
    def from_bits(value: Any) -> Any:
        return _float(np.uint32(np.uint32(value) << np.uint32(16)))

    def unchanged(value: Any) -> Any:
        return value

    return from_bits if value == types.uint16 else unchanged


@overload(_store, inline="always")  # type: ignore[untyped-decorator]
def _overload_store(value: Any, like: Any) -> Callable[..., Any]:
    def round_to_even(value: Any, like: Any) -> Any:
        bits = _bits(_F(value))
        if (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000):
            return np.uint16(0x7FC0)
        odd = np.uint32(np.uint32(bits >> np.uint32(16)) & np.uint32(1))
        return np.uint16(np.uint32(bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))

    def unchanged(value: Any, like: Any) -> Any:
        return value

    return round_to_even if like == types.uint16 else unchanged


@njit(inline="always")  # type: ignore[untyped-decorator]
def _exp(x: Any) -> Any:
    """exp of a non-positive float32, to about 2e-7: a polynomial that LLVM can vectorise."""
    scaled = max(x, _F(-87.0)) * _F(1.44269504)
    whole = _F(math.floor(scaled + _F(0.5)))
    rest = scaled - whole
    power = _F(1.5403530e-4) * rest + _F(1.3333558e-3)
    power = power * rest + _F(9.6181291e-3)
    power = power * rest + _F(5.5504109e-2)
    power = power * rest + _F(2.4022651e-1)
    power = power * rest + _F(6.9314718e-1)
    power = power * rest + _F(1.0)
    return power * _float(np.uint32(np.uint32(np.int32(whole) + np.int32(127)) << np.uint32(23)))


# Small functions over contiguous arrays: LLVM then gets clean loops.
@njit(fastmath=_FASTMATH)  # type: ignore[untyped-decorator]
def _widen(target: Any, source: Any, count: Any) -> None:
    for i in range(count):
        target[i] = _load(source[i])


@njit  # type: ignore[untyped-decorator]
def _copy(target: Any, source: Any, count: Any) -> None:
    for i in range(count):
        target[i] = source[i]


@njit(fastmath=_FASTMATH)  # type: ignore[untyped-decorator]
def _score(scores: Any, query: Any, keys: Any, group: Any, dim: Any) -> None:
    """Dot products of `group` queries with a tile of keys, four at a time."""
    literally(dim)
    for g in range(group):
        for x in range(0, TILE, 4):
            a = _F(0)
            b = _F(0)
            c = _F(0)
            e = _F(0)
            for d in range(dim):
                y = query[g, d]
                a += y * keys[x, d]
                b += y * keys[x + 1, d]
                c += y * keys[x + 2, d]
                e += y * keys[x + 3, d]
            scores[g, x] = a
            scores[g, x + 1] = b
            scores[g, x + 2] = c
            scores[g, x + 3] = e


@njit(fastmath=_FASTMATH)  # type: ignore[untyped-decorator]
def _softmax(scores: Any, count: Any, group: Any, highest: Any, total: Any, keep: Any) -> None:
    """Scores of a tile become weights, 0 from `count` on; `keep` is what remains of the sums so far."""
    for g in range(group):
        for x in range(count, TILE):
            scores[g, x] = _LOWEST
        peak = highest[g]
        for x in range(TILE):
            peak = max(peak, scores[g, x])
        keep[g] = _exp(highest[g] - peak)
        highest[g] = peak
        tile_sum = _F(0)
        for x in range(TILE):
            weight = _exp(scores[g, x] - peak)
            scores[g, x] = weight
            tile_sum += weight
        total[g] = total[g] * keep[g] + tile_sum


@njit(fastmath=_FASTMATH)  # type: ignore[untyped-decorator]
def _accumulate(sums: Any, keep: Any, w: Any, v: Any, group: Any, dim: Any) -> None:
    """`sums` = `sums` * `keep` + the tile's weighted values, eight tokens at a time."""
    literally(dim)
    for g in range(group):
        scale = keep[g]
        for x in range(0, TILE, 8):
            w0, w1, w2, w3 = w[g, x], w[g, x + 1], w[g, x + 2], w[g, x + 3]
            w4, w5, w6, w7 = w[g, x + 4], w[g, x + 5], w[g, x + 6], w[g, x + 7]
            for d in range(dim):
                sums[g, d] = (
                    sums[g, d] * scale
                    + ((w0 * v[x, d] + w1 * v[x + 1, d]) + (w2 * v[x + 2, d] + w3 * v[x + 3, d]))
                    + ((w4 * v[x + 4, d] + w5 * v[x + 5, d]) + (w6 * v[x + 6, d] + w7 * v[x + 7, d]))
                )
            scale = _F(1)


@njit  # type: ignore[untyped-decorator]
def _gather(
    tile: Any,
    cache: Any,
    tables: Any,
    row: Any,
    first: Any,
    count: Any,
    head: Any,
    kv_heads: Any,
    block_size: Any,
    dim: Any,
) -> None:
    """Tokens `first .. first + count - 1` of one head into `tile`, the rest of it zero."""
    literally(dim)
    done = 0
    while done < count:
        logical = (first + done) // block_size
        offset = (first + done) - logical * block_size
        piece = min(block_size - offset, count - done)
        start = ((np.int64(tables[row, logical]) * kv_heads + head) * block_size + offset) * dim
        _widen(tile[done * dim :], cache[start : start + piece * dim], piece * dim)
        done += piece
    for i in range(count * dim, TILE * dim):
        tile[i] = _F(0)


@njit(inline="always")  # type: ignore[untyped-decorator]
def _elements(address: Any, like: Any) -> Any:
    """A flat array at an address. Its length is not known here, so it is not checked."""
    return carray(_pointer(address, like), (np.int64(1) << 40,))


@njit(fastmath=_FASTMATH, error_model="numpy")  # type: ignore[untyped-decorator]
def _write_and_decode(
    workspace: Any,
    like: Any,
    addresses: Any,
    strides: Any,
    shape: Any,
    dim: Any,
    slots: Any,
    queries: Any,
    rows: Any,
    lengths: Any,
    tables: Any,
    scale: Any,
    window: Any,
) -> None:
    literally(dim)
    group, kv_heads, block_size = shape
    q_token, q_head, k_token, k_head, v_token, v_head = strides
    out = _elements(addresses[0], like)
    query = _elements(addresses[1], like)
    key = _elements(addresses[2], like)
    value = _elements(addresses[3], like)
    key_cache = _elements(addresses[4], like)
    value_cache = _elements(addresses[5], like)
    for t in range(slots.size):
        block = slots[t] // block_size
        offset = slots[t] - block * block_size
        for h in range(kv_heads):
            to = (((block * kv_heads + h) * block_size) + offset) * dim
            k = t * k_token + h * k_head
            v = t * v_token + h * v_head
            _copy(key_cache[to : to + dim], key[k : k + dim], dim)
            _copy(value_cache[to : to + dim], value[v : v + dim], dim)

    # Arrays made from an address have no reference count to keep.
    at = workspace
    wide_query, at = carray(_pointer(at, _F(0)), (group, dim)), at + 4 * group * dim
    sums, at = carray(_pointer(at, _F(0)), (group, dim)), at + 4 * group * dim
    flat_keys = carray(_pointer(at, _F(0)), (TILE * dim,))
    keys, at = carray(_pointer(at, _F(0)), (TILE, dim)), at + 4 * TILE * dim
    flat_values = carray(_pointer(at, _F(0)), (TILE * dim,))
    values, at = carray(_pointer(at, _F(0)), (TILE, dim)), at + 4 * TILE * dim
    scores, at = carray(_pointer(at, _F(0)), (group, TILE)), at + 4 * group * TILE
    highest, at = carray(_pointer(at, _F(0)), (group,)), at + 4 * group
    total, at = carray(_pointer(at, _F(0)), (group,)), at + 4 * group
    keep = carray(_pointer(at, _F(0)), (group,))
    for i in range(queries.size):
        t = queries[i]
        row = rows[i]
        length = lengths[i]
        begin = max(np.int64(0), length - window) if window > 0 else np.int64(0)
        for h in range(kv_heads):
            for g in range(group):
                highest[g] = _LOWEST
                total[g] = _F(0)
                q = t * q_token + (h * group + g) * q_head
                for d in range(dim):
                    wide_query[g, d] = _load(query[q + d]) * scale
                    sums[g, d] = _F(0)
            first = begin
            while first < length:
                # Tiles end where TILE divides, so that with usual block sizes each lies in one block.
                count = min(TILE - first % TILE, length - first)
                _gather(flat_keys, key_cache, tables, row, first, count, h, kv_heads, block_size, dim)
                _score(scores, wide_query, keys, group, dim)
                _softmax(scores, count, group, highest, total, keep)
                _gather(flat_values, value_cache, tables, row, first, count, h, kv_heads, block_size, dim)
                _accumulate(sums, keep, scores, values, group, dim)
                first += count
            for g in range(group):
                norm = _F(1) / total[g]
                to = ((t * kv_heads + h) * group + g) * dim
                for d in range(dim):
                    out[to + d] = _store(sums[g, d] * norm, like)


def _compiled(function: Callable[..., None]) -> Callable[..., None]:
    """`function` under Numba, its machine code kept in the user's cache folder where that can be written.

    Numba reads the folder when a function is decorated, so its global setting is put back afterwards.
    Where nothing can be written the code is compiled at every start.
    """
    options: dict[str, Any] = {"fastmath": _FASTMATH, "nogil": True, "error_model": "numpy"}
    before = numba.config.CACHE_DIR
    try:
        if not before:
            folder = Path(platformdirs.user_cache_dir("kvtop")) / "numba"
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                numba.config.CACHE_DIR = str(folder)
        return njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except (OSError, RuntimeError):
        return njit(**options)(function)  # type: ignore[no-any-return]
    finally:
        numba.config.CACHE_DIR = before


def workspace_size(group: int, dim: int) -> int:
    """How many float32 numbers a kernel needs for its intermediate results."""
    return 2 * group * dim + 2 * TILE * dim + group * TILE + 3 * group


@functools.cache
def write_and_decode(dim: int) -> Callable[..., None]:
    """The kernel for one head dimension, compiled when it is first called with an element type.

    The loops over `dim` then have constant bounds, which makes them almost twice as fast. The kernel writes
    the keys and values of `T` tokens, then attends for some of their queries:

    kernel(workspace, like, addresses, strides, shape, slots, queries, rows, lengths, tables, scale, window)

    workspace: address of `workspace_size` float32 numbers, overwritten.
    like: `np.float32(0)` or, for bfloat16, `np.uint16(0)`: the element type of every tensor.
    addresses: of out, query, key, value, key_cache, value_cache; `out` is contiguous,
    `[T, kv_heads * group, dim]`. Changes the caches and `out`.
    strides: elements from one token, then one head, to the next, of query, key and value.
    shape: (group = query heads for each KV head, kv_heads, block_size).
    slots: `[T]` int64, where each token's key and value go.
    queries, rows, lengths: `[n]` int64: which of the T queries attend, the row of `tables` that each reads
    through, and how many of the sequence's tokens it attends to (at least 1).
    tables: `[rows, blocks]` int32. scale: float32. window: only the last `window` tokens are seen; 0 means
    all.
    """

    def kernel(
        workspace: Any,
        like: Any,
        addresses: Any,
        strides: Any,
        shape: Any,
        slots: Any,
        queries: Any,
        rows: Any,
        lengths: Any,
        tables: Any,
        scale: Any,
        window: Any,
    ) -> None:
        _write_and_decode(
            workspace,
            like,
            addresses,
            strides,
            shape,
            dim,
            slots,
            queries,
            rows,
            lengths,
            tables,
            scale,
            window,
        )

    return _compiled(kernel)
