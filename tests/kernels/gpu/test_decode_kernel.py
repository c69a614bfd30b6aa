"""Triton's decode against the definition in float64: in the interpreter, or on a GPU where there is one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

pytest.importorskip("triton")

from kvtop.kernels.gpu.configs import decode_config
from kvtop.kernels.gpu.decode_plan import DecodePlan, plan_decode
from kvtop.kernels.gpu.paged_decode import paged_decode
from tests.kernels.cases import Case, make_case
from tests.kernels.gpu.grid import DEVICE, GRID, TOLERANCE, TYPES

ONE = DecodePlan(1, 1 << 20)


def decode_case(lengths: Sequence[int], *args: int, dtype: torch.dtype = torch.float32) -> Case:
    """Rows with one new token each, its K/V stored. args: block size, group, KV heads, dim."""
    case = make_case([(length, 1) for length in lengths], *args, dtype=dtype)
    case.store()
    return case


def run(case: Case, plan: DecodePlan = ONE, window: int = 0) -> np.ndarray:
    out = paged_decode(
        case.query.transpose(0, 1).to(DEVICE),
        case.key_cache.to(DEVICE),
        case.value_cache.to(DEVICE),
        torch.from_numpy(case.step.tables).to(DEVICE),
        torch.from_numpy(case.step.lengths).to(DEVICE),
        case.scale,
        window=window,
        plan=plan,
    )
    return out.cpu().double().numpy()


def check(case: Case, plan: DecodePlan = ONE, window: int = 0) -> None:
    got, expected = run(case, plan, window), case.expected(window)
    assert np.isfinite(expected).all()
    error = np.abs(got - expected).max()
    assert error <= TOLERANCE[case.key_cache.dtype] * max(1.0, np.abs(expected).max()), error


def edges(block_size: int, tile: int) -> list[int]:
    near = {1, block_size - 1, block_size, block_size + 1, tile - 1, tile, tile + 1, 2 * tile + 3}
    return sorted(near - {0})


@pytest.mark.parametrize("block_size", [1, 3, 16, 256])
def test_lengths_around_the_edges_of_blocks_and_tiles(block_size: int) -> None:
    tile = decode_config(32, 3, 2).tile
    check(decode_case(edges(block_size, tile), block_size, 3, 1, 32, dtype=torch.bfloat16))


@pytest.mark.parametrize(("group", "kv_heads"), [(1, 3), (4, 2), (7, 1), (16, 1), (20, 1)])
def test_any_number_of_query_heads_per_kv_head(group: int, kv_heads: int) -> None:
    check(decode_case([5, 70], 16, group, kv_heads, 32), DecodePlan(2, 64))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("dim", [80, 128])
def test_head_dims_and_types(dim: int, dtype: torch.dtype) -> None:
    check(decode_case([1, 40], 16, 2, 1, dim, dtype=dtype))


@pytest.mark.parametrize("dtype", TYPES)
def test_splits_longer_than_some_rows(dtype: torch.dtype) -> None:
    check(decode_case([1, 63, 65, 150, 192], 16, 3, 1, 32, dtype=dtype), DecodePlan(3, 64))


def test_more_splits_than_the_second_pass_reads_at_a_time() -> None:
    check(decode_case([300, 30], 16, 2, 1, 32), DecodePlan(19, 16))


def test_a_span_need_not_be_whole_tiles() -> None:
    check(decode_case([97, 100, 45], 16, 2, 1, 32), DecodePlan(3, 45))


@pytest.mark.parametrize(("window", "splits"), [(1, 1), (15, 1), (64, 1), (65, 2), (150, 3), (1000, 3)])
def test_sliding_window(window: int, splits: int) -> None:
    span = -(-min(window, 170) // splits)
    check(decode_case([1, 16, 64, 65, 170], 16, 3, 1, 32), DecodePlan(splits, span), window)


@pytest.mark.parametrize("plan", [ONE, DecodePlan(2, 32)])
def test_what_has_left_the_window_is_not_read(plan: DecodePlan) -> None:
    case = decode_case([170, 70], 16, 3, 1, 32)
    whole = run(case, plan, 40)
    for row, length in enumerate((170, 70)):
        gone = np.arange(length - 40)
        blocks = case.step.tables[row, gone // 16]
        case.key_cache[blocks, :, gone % 16] = float("nan")
        case.value_cache[blocks, :, gone % 16] = float("nan")
        # Nor are the blocks looked up: a table may have lost them.
        case.step.tables[row, : (length - 40) // 16] = 1 << 30
    assert (run(case, plan, 40) == whole).all()


def test_tables_that_share_blocks() -> None:
    case = decode_case([40, 40, 50], 16, 3, 1, 32)
    case.step.tables[1:, :2] = case.step.tables[0, :2]
    check(case, DecodePlan(2, 32))


def test_some_tokens_of_a_packed_step_through_some_rows() -> None:
    case = make_case([(9, 4), (70, 1), (20, 2), (33, 1)], 16, 3, 1, 32)
    case.store()
    for plan in (ONE, DecodePlan(3, 32)):
        out = torch.full((8, 3, 32), 7.0, device=DEVICE)
        given = paged_decode(
            case.query.transpose(0, 1).to(DEVICE),
            case.key_cache.to(DEVICE),
            case.value_cache.to(DEVICE),
            torch.from_numpy(case.step.tables).to(DEVICE),
            torch.from_numpy(case.step.lengths).to(DEVICE),
            case.scale,
            tokens=torch.tensor([7, 4], dtype=torch.int32, device=DEVICE),
            rows=torch.tensor([3, 1], dtype=torch.int32, device=DEVICE),
            out=out,
            plan=plan,
        )
        assert given is out
        got, expected = out.cpu().double().numpy(), case.expected()
        assert np.abs(got[[4, 7]] - expected[[4, 7]]).max() < 5e-6
        assert (got[[0, 1, 2, 3, 5, 6]] == 7.0).all()


@pytest.mark.parametrize("plan", [ONE, DecodePlan(2, 32)])
def test_a_row_without_tokens_gives_zeros(plan: DecodePlan) -> None:
    case = decode_case([40, 33], 16, 3, 1, 32)
    expected = case.expected()
    case.step.lengths[1] = 0
    got = run(case, plan)
    assert (got[1] == 0.0).all() and np.abs(got[0] - expected[0]).max() < 5e-6


@pytest.mark.parametrize("packed_heads", [True, False])
def test_queries_in_either_memory_order(packed_heads: bool) -> None:
    case = make_case([(40, 1), (70, 1)], 16, 3, 2, 32, packed_heads=packed_heads)
    case.store()
    # As a fused projection leaves them: keys and values between one token's queries and the next one's.
    fused = torch.randn(2, 10, 32)
    fused[:, :6] = case.query.transpose(0, 1)
    if packed_heads:
        case.query = fused[:, :6].transpose(0, 1)
    check(case)


def test_caches_of_one_layer_of_a_pool() -> None:
    case = decode_case([40, 70], 16, 3, 2, 32)
    pool = torch.full((3, 2, *case.key_cache.shape), float("nan"))
    pool[1, 0], pool[1, 1] = case.key_cache, case.value_cache
    case.key_cache, case.value_cache = pool[1, 0], pool[1, 1]
    check(case)


@pytest.mark.parametrize("plan", [ONE, DecodePlan(3, 32)])
def test_scores_far_apart_neither_overflow_nor_vanish(plan: DecodePlan) -> None:
    case = decode_case([40, 70], 16, 3, 1, 32)
    case.query *= 200.0
    assert np.abs(run(case, plan) - case.expected()).max() < 1e-4


def test_nan_in_one_row_stays_there() -> None:
    case = decode_case([40, 33], 16, 3, 1, 32)
    case.key_cache[case.step.tables[0, 1], :, 3] = float("nan")
    got = run(case, DecodePlan(2, 32))
    assert np.isnan(got[0]).all() and np.isfinite(got[1]).all()


def test_what_does_not_fit_is_refused() -> None:
    case = decode_case([40], 16, 1, 1, 320)
    with pytest.raises(ValueError, match="head dim 320"):
        run(case)
    case = decode_case([40], 16, 1, 2, 32)
    case.value_cache = case.value_cache.transpose(1, 2).contiguous().transpose(1, 2)
    with pytest.raises(ValueError, match="same strides"):
        run(case)


@pytest.mark.long
def test_a_group_of_several_programs() -> None:
    check(decode_case([5, 70], 16, 70, 2, 32), DecodePlan(2, 64))


@pytest.mark.long
@pytest.mark.parametrize(("dim", "dtype"), GRID)
@pytest.mark.parametrize(("group", "kv_heads"), [(1, 2), (3, 3), (4, 2), (7, 1), (16, 1)])
@pytest.mark.parametrize("block_size", [1, 3, 16, 256])
def test_the_whole_grid(block_size: int, group: int, kv_heads: int, dim: int, dtype: torch.dtype) -> None:
    tile = decode_config(dim, group, dtype.itemsize).tile
    case = decode_case(edges(block_size, tile), block_size, group, kv_heads, dim, dtype=dtype)
    check(case, plan_decode(case.step.lengths, kv_heads, 132, tile))
    check(case, DecodePlan(3, 128))
    check(case, DecodePlan(2, 50), window=90)


@pytest.mark.long
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("dim", [32, 48, 64, 80, 96, 128, 160, 192, 256])
def test_every_head_dim_in_every_type(dim: int, dtype: torch.dtype) -> None:
    test_the_whole_grid(16, 3, 2, dim, dtype)
