"""The inner loops of attention on a CPU, each a function of machine code that `paged_attention` calls.

They work on a tile: up to `TILE` tokens of one KV head, and some rows, which are queries of that head's
group. Every argument but the last is a tuple of 64-bit integers: addresses, counts, and offsets in bytes.
`like` is `np.float32(0)` or, for bfloat16, `np.uint16(0)`: the element type of the tensors. All that is
kept in between is float32.

Tensors are read through `places`: the offset, in elements, of each token of a tile, so that a tile may lie in
any number of blocks. A head's dimension is `chunks` whole vectors and `tail` numbers more; in the tiles it is
filled up with zeros to whole vectors, `wide` bytes a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kvtop.kernels.cpu.vectors import I64, LANES, Code, Value, number, numbers

TILE = 64
"""Tokens of a tile: what is scored before the softmax's state is brought up to date."""

ROWS = 4
"""Rows that share what is loaded of a tile: with AVX-512, 4 x 4 vectors of sums fill half the registers."""

LOWEST = -1e30
"""The highest score of no tokens: far below any score, and not infinite, so that differences are numbers."""


def micro_kernel(emit: Callable[..., None]) -> Any:
    """`emit(code, *arguments)` as a function that Numba can call with (tuple of integers, like)."""

    @intrinsic  # type: ignore[untyped-decorator]
    def call(typing: Any, arguments: Any, like: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            given = cgutils.unpack_tuple(builder, values[0])
            half = like == types.uint16
            name = f"kvtop_{emit.__name__}_{'bf16' if half else 'fp32'}"
            function = builder.module.globals.get(name)
            if function is None:
                kind = ir.FunctionType(ir.VoidType(), [I64] * len(given))
                function = ir.Function(builder.module, kind, name)
                function.linkage = "internal"
                function.attributes.add("noinline")
                body = ir.IRBuilder(function.append_basic_block())
                emit(Code(body, half), *function.args)
                body.ret_void()
            builder.call(function, given)
            return context.get_dummy_value()

        return types.void(arguments, like), generate

    return call


def _vectors(code: Code, chunks: Value, tail: Value, emit: Callable[[Value, Value], None]) -> None:
    """`emit(chunk, mask)` for each whole vector of a head's dimension, mask None, and for the tail."""
    with code.loop(number(0), chunks) as chunk:
        emit(chunk, None)
    with code.when_positive(tail):
        emit(chunks, code.between(number(0), number(0), tail))


def _for_rows(code: Code, rows: Value, emit: Callable[[int], None]) -> None:
    """`emit(n)` for each number of rows, of which `rows` chooses one when the code runs."""
    end = code.builder.append_basic_block()
    choice = code.builder.switch(rows, end)
    for count in range(1, ROWS + 1):
        block = code.builder.append_basic_block()
        choice.add_case(number(count), block)
        code.builder.position_at_end(block)
        emit(count)
        code.builder.branch(end)
    code.builder.position_at_end(end)


@micro_kernel
def dots(
    code: Code,
    rows: Value,
    scores: Value,
    query: Value,
    wide: Value,
    keys: Value,
    places: Value,
    chunks: Value,
    tail: Value,
    ahead: Value,
) -> None:
    """Scores of LANES tokens, from where they lie: 1 to ROWS rows of `query` with keys at `places`.

    Dimensions are the vector axis: the products are summed by lanes, four tokens at a time, and at the end
    across lanes, all tokens together. Meanwhile what lies at the same places from `ahead` on is prefetched.
    """

    def emit(count: int) -> None:
        parts: list[list[Value]] = [[] for _ in range(count)]
        for first in range(0, LANES, 4):
            sums = [code.variables(4) for _ in range(count)]
            at = [code.element(keys, places, number(first + x)) for x in range(4)]

            def add(chunk: Value, mask: Value, sums: Any = sums, at: Any = at) -> None:
                offset = code.times(chunk, code.size * LANES)
                wide_offset = code.times(chunk, 4 * LANES)
                row = [code.load(code.add(query, code.times(wide, r), wide_offset)) for r in range(count)]
                for x in range(4):
                    key = code.read(code.add(at[x], offset), mask)
                    code.prefetch(code.add(at[x], further, offset))
                    for r in range(count):
                        code.set(sums[r][x], code.fused(row[r], key, code.get(sums[r][x])))

            _vectors(code, chunks, tail, add)
            for r in range(count):
                parts[r].append(code.sums([code.get(variable) for variable in sums[r]]))
        for r in range(count):
            code.store(code.sums(parts[r]), code.add(scores, r * TILE * 4))

    further = code.builder.sub(ahead, keys)
    _for_rows(code, rows, emit)


def _block(
    code: Code,
    rows: int,
    width: int,
    target: Value,
    stride: Value,
    fresh: bool,
    factors: Callable[[int, Value], Value],
    vectors: Callable[[Value], list[Value]],
    begin: Value,
    end: Value,
) -> None:
    """A block of a matrix product, in registers: `target[r] += factors(r, x) * vectors(x)`, x ascending.

    The target is `rows` rows, `stride` bytes apart, of `width` vectors; if `fresh`, sums begin at 0.
    """
    sums = [code.variables(width) for _ in range(rows)]
    at = [[code.add(target, code.times(stride, r), 4 * LANES * k) for k in range(width)] for r in range(rows)]
    if not fresh:
        for r in range(rows):
            for k in range(width):
                code.set(sums[r][k], code.load(at[r][k]))
    with code.loop(begin, end) as x:
        loaded = vectors(x)
        for r in range(rows):
            factor = code.everywhere(factors(r, x))
            for k in range(width):
                code.set(sums[r][k], code.fused(factor, loaded[k], code.get(sums[r][k])))
    for r in range(rows):
        for k in range(width):
            code.store(code.get(sums[r][k]), at[r][k])


@micro_kernel
def weigh(
    code: Code,
    rows: Value,
    sums: Value,
    wide: Value,
    weights: Value,
    values: Value,
    places: Value,
    begin: Value,
    end: Value,
    chunks: Value,
    tail: Value,
    ahead: Value,
    ahead_places: Value,
) -> None:
    """The sums of 1 to ROWS rows, plus the values of tokens begin .. end - 1 of a tile times their weights.

    Meanwhile what lies at `ahead_places`, from `ahead` on, is prefetched.
    """

    def columns(count: int, width: int, first: Value, mask: Value = None) -> None:
        offset = code.times(first, code.size * LANES)

        def load(x: Value) -> list[Value]:
            at = code.add(code.element(values, places, x), offset)
            coming = code.add(code.element(ahead, ahead_places, x), offset)
            for line in range(0, width * code.size * LANES, 64):
                code.prefetch(code.add(coming, line))
            return [code.read(code.add(at, k * code.size * LANES), mask) for k in range(width)]

        target = code.add(sums, code.times(first, 4 * LANES))
        _block(code, count, width, target, wide, False, weight, load, begin, end)

    def weight(row: int, x: Value) -> Value:
        return code.add(weights, row * TILE * 4, code.times(x, 4))

    def emit(count: int) -> None:
        fours = code.builder.and_(chunks, number(-4))
        with code.loop(number(0), fours, 4) as first:
            columns(count, 4, first)
        with code.loop(fours, chunks) as first:
            columns(count, 1, first)
        with code.when_positive(tail):
            columns(count, 1, chunks, code.between(number(0), number(0), tail))

    _for_rows(code, rows, emit)


@micro_kernel
def multiply(
    code: Code, scores: Value, query: Value, wide: Value, keys: Value, dim: Value, first: Value, last: Value
) -> None:
    """Scores of ROWS rows with transposed keys, `[dim, TILE]`: tokens are the vector axis.

    first, last: which vectors of tokens; four at a time are computed, so up to three more are written.
    """
    with code.loop(first, last, 4) as column:
        offset = code.times(column, 4 * LANES)

        def load(d: Value) -> list[Value]:
            at = code.add(keys, code.times(d, TILE * 4), offset)
            return [code.load(code.add(at, 4 * LANES * k)) for k in range(4)]

        def factor(row: int, d: Value) -> Value:
            return code.add(query, code.times(wide, row), code.times(d, 4))

        target = code.add(scores, offset)
        _block(code, ROWS, 4, target, number(TILE * 4), True, factor, load, number(0), dim)


@micro_kernel
def transpose(code: Code, target: Value, keys: Value, places: Value, chunks: Value, tail: Value) -> None:
    """LANES tokens into LANES columns of transposed keys, `[dim, TILE]`, as float32."""
    at = [code.element(keys, places, number(x)) for x in range(LANES)]

    def emit(chunk: Value, mask: Value) -> None:
        offset = code.times(chunk, code.size * LANES)
        rows = code.transposed([code.read(code.add(address, offset), mask) for address in at])
        for d, row in enumerate(rows):
            code.store(row, code.add(target, code.times(chunk, LANES * TILE * 4), d * TILE * 4))

    _vectors(code, chunks, tail, emit)


@micro_kernel
def widen(
    code: Code,
    target: Value,
    wide: Value,
    source: Value,
    places: Value,
    count: Value,
    factor: Value,
    chunks: Value,
    tail: Value,
) -> None:
    """`count` rows of a tensor as float32, times the one at the address `factor`; zeros after `tail`."""
    scale = code.everywhere(factor)
    with code.loop(number(0), count) as row:
        at = code.element(source, places, row)
        to = code.add(target, code.times(wide, row))

        def emit(chunk: Value, mask: Value) -> None:
            value = code.read(code.add(at, code.times(chunk, code.size * LANES)), mask)
            code.store(code.builder.fmul(value, scale), code.add(to, code.times(chunk, 4 * LANES)))

        _vectors(code, chunks, tail, emit)


@micro_kernel
def reset(code: Code, state: Value, sums: Value, wide: Value) -> None:
    """A row's state and sums before its first tile. A state is two vectors: highest score, total weight."""
    code.store(numbers(LOWEST), state)
    code.store(numbers(0.0), code.add(state, 4 * LANES))
    with code.loop(number(0), wide, 4 * LANES) as offset:
        code.store(numbers(0.0), code.add(sums, offset))


@micro_kernel
def softmax(
    code: Code,
    rows: Value,
    scores: Value,
    begin: Value,
    end: Value,
    states: Value,
    sums: Value,
    wide: Value,
) -> None:
    """Scores of the tokens begin .. end - 1 of a tile become weights, powers of 2, for 1 to ROWS rows.

    Others in the same vectors become 0. The rows' states are brought up to date, and their sums are scaled to
    the new highest scores. The rows are worked on side by side: each is a chain of waits by itself.
    """
    b = code.builder
    first = b.sdiv(begin, number(LANES))
    last = b.sdiv(code.add(end, LANES - 1), number(LANES))

    def at(row: int, chunk: Value) -> Value:
        return code.add(scores, row * TILE * 4, code.times(chunk, 4 * LANES))

    def seen(chunk: Value) -> Value:
        return code.between(code.times(chunk, LANES), begin, end)

    def emit(count: int) -> None:
        peaks, added = code.variables(count, numbers(LOWEST)), code.variables(count)
        with code.loop(first, last) as chunk:
            mask = seen(chunk)
            for r in range(count):
                score = b.select(mask, code.load(at(r, chunk)), numbers(LOWEST))
                code.set(peaks[r], code.larger(score, code.get(peaks[r])))
        state = [code.add(states, r * LANES * 8) for r in range(count)]
        before = [code.load(address) for address in state]
        highest = [
            code.larger(code.fold(code.get(peak), code.larger), old)
            for peak, old in zip(peaks, before, strict=True)
        ]
        with code.loop(first, last) as chunk:
            mask = seen(chunk)
            for r in range(count):
                weight = code.exp2(b.fsub(code.load(at(r, chunk)), highest[r]))
                weight = b.select(mask, weight, numbers(0.0))
                code.store(weight, at(r, chunk))
                code.set(added[r], b.fadd(code.get(added[r]), weight))
        keep = [code.exp2(b.fsub(old, new)) for old, new in zip(before, highest, strict=True)]
        for r in range(count):
            total = code.add(state[r], 4 * LANES)
            code.store(highest[r], state[r])
            code.store(code.fused(code.load(total), keep[r], code.get(added[r])), total)
        with code.loop(number(0), wide, 4 * LANES) as offset:
            for r in range(count):
                place = code.add(sums, code.times(wide, r), offset)
                code.store(b.fmul(code.load(place), keep[r]), place)

    _for_rows(code, rows, emit)


@micro_kernel
def finish(code: Code, target: Value, state: Value, sums: Value, chunks: Value, tail: Value) -> None:
    """A row's sums over its total weight, as elements of a tensor."""
    b = code.builder
    norm = b.fdiv(numbers(1.0), code.fold(code.load(code.add(state, 4 * LANES)), b.fadd))

    def emit(chunk: Value, mask: Value) -> None:
        value = b.fmul(code.load(code.add(sums, code.times(chunk, 4 * LANES))), norm)
        code.write(value, code.add(target, code.times(chunk, code.size * LANES)), mask)

    _vectors(code, chunks, tail, emit)
