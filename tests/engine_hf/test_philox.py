"""Philox4x32-10 against the published vectors, and what the sampler relies on."""

from __future__ import annotations

import numpy as np
import pytest

from kvtop.engine.philox import philox4x32, uniforms

# The known-answer vectors for "philox4x32 10" that Random123 publishes: counter, key, result.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text: str) -> tuple[np.ndarray, ...]:
    return tuple(np.array([int(word, 16)], dtype=np.uint64) for word in text.split())


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_known_answers(counter: str, key: str, answer: str) -> None:
    result = philox4x32(words(counter), words(key))  # type: ignore[arg-type]
    assert " ".join(f"{int(word[0]):08x}" for word in result) == answer


def test_first_number_is_the_first_53_bits_of_the_known_answer() -> None:
    expected = ((0x6627E8D5 >> 5) << 26 | 0xE169C58D >> 6) / 2**53
    assert uniforms([0], [0], [0]).tolist() == [expected]


def test_every_key_part_matters_and_batching_does_not() -> None:
    seeds, branches, positions = [1, 2, 1, 1], [0, 0, 1, 0], [7, 7, 7, 8]
    together = uniforms(seeds, branches, positions)
    alone = [float(uniforms(*one)) for one in zip(seeds, branches, positions, strict=True)]
    assert together.tolist() == alone
    assert len(set(alone)) == 4


def test_high_seed_bits_count_and_negative_seeds_are_their_twos_complement() -> None:
    assert uniforms(1, 0, 0) != uniforms(1 + (1 << 32), 0, 0)
    assert uniforms(-1, 0, 0) == uniforms(2**64 - 1, 0, 0)
    assert uniforms([2**63 + 5, 1], 0, 0)[0] == uniforms(2**63 + 5, 0, 0)


def test_seed_beyond_64_bits_is_refused() -> None:
    with pytest.raises(OverflowError, match="64 bits"):
        uniforms([2**64], 0, 0)


def test_range_and_spread() -> None:
    values = uniforms(3, 0, np.arange(20_000))
    assert values.min() >= 0.0 and values.max() < 1.0
    counts, _ = np.histogram(values, bins=20, range=(0.0, 1.0))
    # Chi-square with 19 degrees of freedom: beyond 43.8 once in a thousand seeds; this seed is fixed.
    assert ((counts - 1000.0) ** 2 / 1000.0).sum() < 43.8
