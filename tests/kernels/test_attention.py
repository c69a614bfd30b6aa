"""The attention kernels against their definition in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kvtop.kernels.cpu.attention import NumbaAttention
from kvtop.kernels.gather_sdpa import GatherAttention
from tests.kernels.cases import Case, make_case

KINDS = [NumbaAttention, GatherAttention]
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 8e-3}


def check(case: Case, kind: Any, window: int = 0) -> None:
    got = case.run(kind(), window)
    expected = case.expected(window)
    assert np.isfinite(expected).all()
    error = np.abs(got - expected).max()
    assert error < TOLERANCE[case.key_cache.dtype] * max(1.0, np.abs(expected).max()), error


def edges(block_size: int) -> list[int]:
    """Lengths around block edges and around the tile of the decode kernel."""
    near = {1, block_size - 1, block_size, block_size + 1, 2 * block_size, 3 * block_size + 2}
    return sorted(length for length in near | {7, 8, 9, 31, 32, 33, 70} if length > 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("block_size", [1, 4, 16, 256])
def test_decode_at_block_edges(kind: Any, dtype: torch.dtype, block_size: int) -> None:
    check(make_case([(length, 1) for length in edges(block_size)], block_size, dtype=dtype), kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("group", "kv_heads", "dim"), [(1, 1, 5), (1, 3, 64), (7, 1, 64), (4, 2, 16), (3, 5, 16)]
)
def test_decode_of_any_shape(kind: Any, dtype: torch.dtype, group: int, kv_heads: int, dim: int) -> None:
    check(make_case([(5, 1), (40, 1), (1, 1)], 4, group, kv_heads, dim, dtype), kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_prefill_chunks_beside_decodes(kind: Any, block_size: int) -> None:
    rows = [(9, 9), (20, 1), (17, 6), (33, 33), (8, 4), (50, 5), (1, 1), (30, 2)]
    for dtype in (torch.float32, torch.bfloat16):
        check(make_case(rows, block_size, dtype=dtype), kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", [1, 3, 8, 31, 32, 33, 1000])
def test_sliding_window(kind: Any, window: int) -> None:
    check(make_case([(45, 1), (40, 12), (3, 3), (2, 1), (70, 2), (64, 64)], 4), kind, window)


@pytest.mark.parametrize("kind", KINDS)
def test_what_has_left_the_window_is_not_read(kind: Any) -> None:
    case = make_case([(45, 1), (40, 6)], 4)
    window = 8
    before = case.key_cache.clone(), case.value_cache.clone()
    # Whole blocks before the first query's window: 45 - 8 = 37 and 40 - 6 + 1 - 8 = 27 tokens back.
    for row, blocks in ((0, 37 // 4), (1, 27 // 4)):
        case.key_cache[case.step.tables[row, :blocks]] = float("nan")
        case.value_cache[case.step.tables[row, :blocks]] = float("nan")
    got = case.run(kind(), window)
    assert np.isfinite(got).all()
    case.key_cache, case.value_cache = before
    assert np.abs(got - case.run(kind(), window)).max() == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_tables_that_share_blocks(kind: Any) -> None:
    case = make_case([(14, 1), (14, 1), (15, 3)], 4)
    # The second and third sequence begin with the first one's blocks 0 to 2 (12 tokens), then part.
    case.step.tables[1:, :3] = case.step.tables[0, :3]
    check(case, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_reads_what_a_later_row_writes(kind: Any) -> None:
    """All K/V of a layer is written before any row attends: the second row writes the first one's past."""
    case = make_case([(12, 1), (8, 8)], 4)
    case.step.tables[0, :2] = case.step.tables[1, :2]
    check(case, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_in_either_memory_order(kind: Any) -> None:
    rows = [(9, 9), (20, 1), (6, 2)]
    one, other = (make_case(rows, packed_heads=packed) for packed in (True, False))
    assert other.query.is_contiguous() and not one.query.is_contiguous()
    assert np.abs(one.run(kind()) - other.run(kind())).max() < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_slots_of_the_step_are_written(kind: Any) -> None:
    case = make_case([(9, 3), (4, 4), (7, 1)], 4)
    before = case.key_cache.clone(), case.value_cache.clone()
    case.run(kind())
    blocks, offsets = case.step.slots // 4, case.step.slots % 4
    for cache, old, new in zip(
        (case.key_cache, case.value_cache), before, (case.key, case.value), strict=True
    ):
        assert torch.equal(cache[blocks, :, offsets], new.transpose(0, 1))
        cache[blocks, :, offsets] = old[blocks, :, offsets]
        assert torch.equal(torch.nan_to_num(cache, nan=-7.0), torch.nan_to_num(old, nan=-7.0))


def test_scores_far_apart_neither_overflow_nor_vanish() -> None:
    case = make_case([(40, 1), (70, 1)], 4)
    case.query *= 200.0
    got = case.run(NumbaAttention())
    assert np.abs(got - case.expected()).max() < 1e-4


def test_nan_in_one_sequence_stays_there() -> None:
    case = make_case([(40, 1), (3, 1)], 4)
    case.key[:, 0] = float("nan")
    case.value[:, 0] = float("nan")
    got = case.run(NumbaAttention())
    assert np.isnan(got[0]).all() and np.isfinite(got[1]).all()


def test_bfloat16_is_rounded_to_even() -> None:
    """With one token to see, the output is its value: what the kernel stores must be the very bits."""
    case = make_case([(1, 1)] * 9, 4, dtype=torch.bfloat16)
    got = case.run(NumbaAttention())
    expected = case.value.transpose(0, 1).repeat_interleave(3, dim=1).double().numpy()
    assert (got == expected).all()


def test_halves_round_as_torch_does() -> None:
    generator = torch.Generator().manual_seed(1)
    case = make_case([(2, 1)] * 40, 4, group=1, dtype=torch.bfloat16)
    case.query.zero_()
    # Two equal scores: the output is the mean of two values, often half-way between two bfloat16 numbers.
    case.value_cache[:] = torch.randn(case.value_cache.shape, generator=generator).bfloat16()
    got = case.run(NumbaAttention())
    exact = case.expected()
    assert (got == torch.from_numpy(exact).float().bfloat16().double().numpy()).all()
