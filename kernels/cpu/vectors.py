"""LLVM code over vectors of float32: the words in which the kernels' inner loops are written.

Numba leaves it to LLVM to find vectors in scalar loops, and LLVM, asked to reorder sums, finds other ones
whenever the code around a loop changes. Here the vectors, and with them the order of every sum, are fixed:
what a kernel computes depends on its arguments and the width of the machine's vectors alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils

# llvmlite and Numba's builders carry no types.
Value = Any


def _lanes() -> int:
    named = numba.config.CPU_FEATURES
    features = (
        {name[1:]: name[0] == "+" for name in named.split(",") if name}
        if named
        else llvmlite.binding.get_host_cpu_features()
    )
    return 16 if features.get("avx512f") else 8 if features.get("avx") else 4


LANES = _lanes()
"""Numbers in a vector: 16 with AVX-512, 8 with AVX, else 4."""

I16, I32, I64, F32 = ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
VECTOR = ir.VectorType(F32, LANES)
INTEGERS = ir.VectorType(I32, LANES)
HALVES = ir.VectorType(I16, LANES)


def number(value: int) -> Value:
    """A constant address, count or place."""
    return ir.Constant(I64, value)


def numbers(value: float) -> Value:
    """The same float32 in every lane."""
    return ir.Constant(VECTOR, [float(np.float32(value))] * LANES)


def integers(value: int) -> Value:
    """The same integer of 32 bits in every lane."""
    return ir.Constant(INTEGERS, [value] * LANES)


class Code:
    """Emits instructions at a builder's place. Addresses are 64-bit integers; offsets are in bytes.

    `half`: elements of the tensors are bfloat16, handled by their bits; otherwise they are float32.
    """

    def __init__(self, builder: Value, half: bool) -> None:
        self.builder = builder
        self.half = half
        self.size = 2 if half else 4
        """Bytes of an element of a tensor."""

    # -- integers -----------------------------------------------------------------------------------------

    def add(self, *terms: Value) -> Value:
        """The sum of addresses, offsets and Python integers."""
        total, *rest = (number(term) if isinstance(term, int) else term for term in terms)
        for term in rest:
            total = self.builder.add(total, term)
        return total

    def times(self, value: Value, factor: Value) -> Value:
        """A product of integers, the second one possibly Python's."""
        return self.builder.mul(value, number(factor) if isinstance(factor, int) else factor)

    def element(self, base: Value, places: Value, index: Value) -> Value:
        """The address of the element whose offset, in elements, is `places[index]`."""
        place = self.builder.load(self._pointer(self.add(places, self.times(index, 8)), I64))
        return self.add(base, self.times(place, self.size))

    @contextmanager
    def loop(self, begin: Value, end: Value, step: int = 1) -> Iterator[Value]:
        """A loop over begin, begin + step .. below end; yields the index."""
        with cgutils.for_range_slice(self.builder, begin, end, number(step), intp=I64) as (index, _):
            yield index

    def when_positive(self, value: Value) -> Any:
        """A context whose instructions run when an integer is above 0."""
        return self.builder.if_then(self.builder.icmp_signed(">", value, number(0)))

    # -- memory -------------------------------------------------------------------------------------------

    def _pointer(self, address: Value, kind: Value) -> Value:
        return self.builder.inttoptr(address, kind.as_pointer())

    def _intrinsic(self, name: str, result: Value, arguments: Sequence[Value]) -> Value:
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), arguments)

    def variables(self, count: int, value: Value = None) -> list[Value]:
        """So many vectors that may change; LLVM keeps them in registers while there are enough."""
        made = [cgutils.alloca_once(self.builder, VECTOR) for _ in range(count)]
        for variable in made:
            self.builder.store(numbers(0.0) if value is None else value, variable)
        return made

    def get(self, variable: Value) -> Value:
        """The vector that a variable holds."""
        return self.builder.load(variable)

    def set(self, variable: Value, value: Value) -> None:
        """Change a variable."""
        self.builder.store(value, variable)

    def load(self, address: Value) -> Value:
        """A vector of float32."""
        return self.builder.load(self._pointer(address, VECTOR), align=4)

    def store(self, value: Value, address: Value) -> None:
        """A vector of float32."""
        self.builder.store(value, self._pointer(address, VECTOR), align=4)

    def everywhere(self, address: Value) -> Value:
        """The one float32 at an address, in every lane."""
        return self.splat(self.builder.load(self._pointer(address, F32)), VECTOR)

    def read(self, address: Value, mask: Value = None) -> Value:
        """A vector of a tensor's elements as float32; 0, and nothing read, where `mask` is false."""
        kind = HALVES if self.half else VECTOR
        pointer = self._pointer(address, kind)
        if mask is None:
            value = self.builder.load(pointer, align=self.size)
        else:
            name = f"llvm.masked.load.v{LANES}{'i16' if self.half else 'f32'}.p0"
            zeros = ir.Constant(kind, None)
            value = self._intrinsic(name, kind, [pointer, ir.Constant(I32, self.size), mask, zeros])
        if not self.half:
            return value
        bits = self.builder.shl(self.builder.zext(value, INTEGERS), integers(16))
        return self.builder.bitcast(bits, VECTOR)

    def write(self, value: Value, address: Value, mask: Value = None) -> None:
        """A vector of float32 as a tensor's elements, bfloat16 rounded to even; only where `mask` is true."""
        if self.half:
            value = self._rounded(value)
        pointer = self._pointer(address, value.type)
        if mask is None:
            self.builder.store(value, pointer, align=self.size)
        else:
            name = f"llvm.masked.store.v{LANES}{'i16' if self.half else 'f32'}.p0"
            self._intrinsic(name, ir.VoidType(), [value, pointer, ir.Constant(I32, self.size), mask])

    def _rounded(self, value: Value) -> Value:
        b = self.builder
        bits = b.bitcast(value, INTEGERS)
        odd = b.and_(b.lshr(bits, integers(16)), integers(1))
        rounded = b.lshr(b.add(b.add(bits, integers(0x7FFF)), odd), integers(16))
        rounded = b.select(b.fcmp_unordered("uno", value, value), integers(0x7FC0), rounded)
        return b.trunc(rounded, HALVES)

    def prefetch(self, address: Value) -> None:
        """Ask for a cache line that is read soon. Never faults."""
        level = [ir.Constant(I32, value) for value in (0, 3, 1)]
        self._intrinsic("llvm.prefetch.p0", ir.VoidType(), [self._pointer(address, ir.IntType(8)), *level])

    # -- vectors ------------------------------------------------------------------------------------------

    def splat(self, value: Value, kind: Value) -> Value:
        """A scalar in every lane."""
        nothing = ir.Constant(kind, ir.Undefined)
        one = self.builder.insert_element(nothing, value, ir.Constant(I32, 0))
        return self.shuffle(one, nothing, [0] * LANES)

    def shuffle(self, a: Value, b: Value, lanes: Sequence[int]) -> Value:
        """A vector of some lanes of `a` (0 .. LANES - 1) and `b` (from LANES on)."""
        return self.builder.shuffle_vector(a, b, ir.Constant(INTEGERS, list(lanes)))

    def between(self, first: Value, begin: Value, end: Value) -> Value:
        """A mask: lanes numbered first, first + 1 .. of which the number is in begin .. end - 1."""
        b = self.builder
        first, begin, end = (self.splat(b.trunc(value, I32), INTEGERS) for value in (first, begin, end))
        lane = b.add(ir.Constant(INTEGERS, list(range(LANES))), first)
        return b.and_(b.icmp_signed(">=", lane, begin), b.icmp_signed("<", lane, end))

    def fused(self, a: Value, b: Value, c: Value) -> Value:
        """`a * b + c`, rounded once where the machine can."""
        return self._intrinsic(f"llvm.fmuladd.v{LANES}f32", VECTOR, [a, b, c])

    def larger(self, a: Value, b: Value) -> Value:
        """The maximum by lanes; `b` where one of them is NaN."""
        return self.builder.select(self.builder.fcmp_ordered(">", a, b), a, b)

    def fold(self, value: Value, combine: Any) -> Value:
        """All lanes combined, in every lane."""
        distance = LANES // 2
        while distance:
            turned = self.shuffle(value, value, [(i + distance) % LANES for i in range(LANES)])
            value = combine(value, turned)
            distance //= 2
        return value

    def sums(self, vectors: Sequence[Value]) -> Value:
        """From `n` vectors one, each summed into LANES / n neighbouring lanes. n: a power of two."""
        even, odd = range(0, 2 * LANES, 2), range(1, 2 * LANES, 2)
        while len(vectors) > 1:
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [self.builder.fadd(self.shuffle(a, b, even), self.shuffle(a, b, odd)) for a, b in pairs]
        return vectors[0]

    def transposed(self, rows: Sequence[Value]) -> Sequence[Value]:
        """LANES vectors as the columns of the square that they were the rows of."""
        low = [i // 2 + i % 2 * LANES for i in range(LANES)]
        high = [lane + LANES // 2 for lane in low]
        half = LANES // 2
        for _ in range(LANES.bit_length() - 1):
            rows = [self.shuffle(rows[i], rows[i + half], m) for i in range(half) for m in (low, high)]
        return rows

    def exp2(self, x: Value) -> Value:
        """2 to the power of x, for x of at most 0, to about 2e-7; 2**-126 for less. NaN stays NaN."""
        b = self.builder
        x = b.select(b.fcmp_ordered("<", x, numbers(-126.0)), numbers(-126.0), x)
        whole = self._intrinsic(f"llvm.floor.v{LANES}f32", VECTOR, [b.fadd(x, numbers(0.5))])
        rest = b.fsub(x, whole)
        power = numbers(1.5403530e-4)
        for factor in (1.3333558e-3, 9.6181291e-3, 5.5504109e-2, 2.4022651e-1, 6.9314718e-1, 1.0):
            power = self.fused(power, rest, numbers(factor))
        exponent = b.shl(b.add(b.fptosi(whole, INTEGERS), integers(127)), integers(23))
        return b.fmul(power, b.bitcast(exponent, VECTOR))
