"""How a decode step is split: every row covered, the processors busy, nothing split for its own sake."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("triton")

from kvtop.kernels.gpu.decode_plan import MAX_SPLITS, MIN_SPAN, DecodePlan, plan_decode

H200 = 132


def plan(
    *lengths: int, kv_heads: int = 8, processors: int = H200, tile: int = 64, window: int = 0
) -> DecodePlan:
    return plan_decode(np.array(lengths, np.int32), kv_heads, processors, tile, window)


@pytest.mark.parametrize("tile", [32, 64, 128])
@pytest.mark.parametrize("window", [0, 1, 1000])
def test_every_row_is_covered_and_no_split_is_idle_in_the_longest(tile: int, window: int) -> None:
    random = np.random.default_rng(tile)
    for _ in range(200):
        lengths = random.integers(0, 2 ** random.integers(1, 18), random.integers(1, 65))
        made = plan(*lengths, kv_heads=int(random.integers(1, 33)), tile=tile, window=window)
        longest = max(1, min(lengths.max(), window or lengths.max()))
        assert made.splits * made.tokens >= longest > (made.splits - 1) * made.tokens
        assert 1 <= made.splits <= MAX_SPLITS
        assert made.tokens % tile == 0
        assert made.splits == 1 or made.tokens >= MIN_SPAN


def test_a_small_batch_is_split_until_the_processors_are_busy() -> None:
    assert 8 * plan(32768).splits >= 2 * H200
    assert 8 * 4 * plan(*[4096] * 4).splits >= 2 * H200


def test_a_large_batch_is_split_just_enough_to_end_evenly() -> None:
    made = plan(*[4096] * 64)
    assert 64 * 8 * made.splits >= 2 * H200
    assert made.tokens >= 512


def test_short_rows_are_not_split() -> None:
    assert plan(*[100] * 64).splits == 1
    assert plan(1).splits == 1
    assert plan(*[128] * 256) == DecodePlan(1, 128)


def test_one_long_row_among_short_ones_is_not_left_to_one_program() -> None:
    assert plan(32768, *[100] * 63).tokens <= 2048


def test_fewer_processors_want_fewer_splits() -> None:
    assert plan(*[4096] * 8, processors=16).splits < plan(*[4096] * 8, processors=H200).splits


def test_the_window_is_what_is_split() -> None:
    assert plan(100_000, window=256) == plan(256)
    assert plan(100_000, 50, window=256) == plan(256, 50)


def test_no_rows_and_empty_rows_have_a_plan() -> None:
    assert plan() == plan(0, 0) == DecodePlan(1, MIN_SPAN)
