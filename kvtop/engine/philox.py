"""Random numbers that depend on what they are for, not on when they are drawn: Philox4x32-10.

The sampled token at a position of a branch of a request always sees the same number, whatever ran beside
it and however often it was preempted or rewound. Philox is the counter-based generator of Salmon, Moraes,
Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC'11); the constants are theirs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)

Words = npt.NDArray[np.uint64]


def philox4x32(counter: tuple[Words, Words, Words, Words], key: tuple[Words, Words]) -> tuple[Words, ...]:
    """Ten rounds over 32-bit words held in uint64 arrays of one shape; four such arrays come out."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        left, right = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (right >> _HALF) ^ c1 ^ k0, right & _LOW, (left >> _HALF) ^ c3 ^ k1, left & _LOW
        k0, k1 = (k0 + np.uint64(_WEYL[0])) & _LOW, (k1 + np.uint64(_WEYL[1])) & _LOW
    return c0, c1, c2, c3


def uniforms(
    seeds: npt.ArrayLike, branches: npt.ArrayLike, positions: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """One number in [0, 1) for each (seed, branch, position); the three are broadcast together.

    `seeds` are any 64-bit integers (negative ones count as their two's complement), `branches` and
    `positions` (of the sampled token within its sequence, prompt included) are non-negative and below
    2**32. 53 random bits each. Changes nothing. Raises OverflowError for a seed beyond 64 bits.
    """
    seed, branch, position = np.broadcast_arrays(_words(seeds), _words(branches), _words(positions))
    zero = np.zeros_like(seed)
    high, low, _, _ = philox4x32((position, branch, zero, zero), (seed & _LOW, seed >> _HALF))
    bits = (high >> np.uint64(5)) << np.uint64(26) | low >> np.uint64(6)
    return bits.astype(np.float64) * 2.0**-53


def _words(values: npt.ArrayLike) -> Words:
    """`values` as uint64, negative integers by their two's complement."""
    array = np.asarray(values)
    if array.dtype == np.uint64:
        return array
    if array.dtype.kind not in "iub":
        # Python integers around 2**63 come as objects or floats: NumPy has no common type for them.
        flat = [int(value) for value in np.asarray(values, dtype=object).ravel()]
        if any(not -(2**63) <= value < 2**64 for value in flat):
            raise OverflowError("a seed must fit 64 bits")
        return np.array([value % 2**64 for value in flat], dtype=np.uint64).reshape(array.shape)
    return array.astype(np.int64, copy=False).view(np.uint64)
