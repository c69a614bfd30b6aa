"""Triton's prefill against the definition in float64: in the interpreter, or on a GPU where there is one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

pytest.importorskip("triton")

from kvtop.kernels.gpu.configs import prefill_config
from kvtop.kernels.gpu.paged_prefill import paged_prefill, prefill_tiles, queries_per_tile
from tests.kernels.cases import Case, make_case
from tests.kernels.gpu.grid import DEVICE, GRID, TOLERANCE, TYPES

ROWS = [(1, 1), (17, 17), (70, 25), (33, 1), (90, 3)]


def prefill_case(rows: Sequence[tuple[int, int]], *args: int, dtype: torch.dtype = torch.float32) -> Case:
    """(tokens, new tokens) of each row, their K/V stored. args: block size, group, KV heads, dim."""
    case = make_case(rows, *args, dtype=dtype)
    case.store()
    return case


def run(
    case: Case, window: int = 0, leave_out: Sequence[int] = (), out: torch.Tensor | None = None
) -> np.ndarray:
    heads, _, dim = case.query.shape
    group = heads // case.key_cache.shape[1]
    counts = case.step.counts.copy()
    counts[list(leave_out)] = 0
    tiles = prefill_tiles(counts, queries_per_tile(dim, group, case.key_cache.element_size()))
    got = paged_prefill(
        case.query.transpose(0, 1).to(DEVICE),
        case.key_cache.to(DEVICE),
        case.value_cache.to(DEVICE),
        torch.from_numpy(case.step.tables).to(DEVICE),
        torch.from_numpy(case.step.lengths).to(DEVICE),
        torch.from_numpy(case.step.starts).to(DEVICE),
        torch.from_numpy(tiles).to(DEVICE),
        case.scale,
        window=window,
        out=out,
    )
    return got.cpu().double().numpy()


def check(case: Case, window: int = 0) -> None:
    got, expected = run(case, window), case.expected(window)
    assert np.isfinite(expected).all()
    error = np.abs(got - expected).max()
    assert error <= TOLERANCE[case.key_cache.dtype] * max(1.0, np.abs(expected).max()), error


def test_tiles_cover_every_query_once_and_the_longest_come_first() -> None:
    assert prefill_tiles(np.array([5, 0, 4, 1]), 2).tolist() == [
        [0, 4],
        [0, 2],
        [0, 0],
        [2, 2],
        [2, 0],
        [3, 0],
    ]
    assert prefill_tiles(np.array([0, 0]), 8).shape == (0, 2)
    assert prefill_tiles(np.array([], np.int64), 8).shape == (0, 2)


@pytest.mark.parametrize("block_size", [1, 3, 16, 256])
def test_chunks_behind_prefixes(block_size: int) -> None:
    check(prefill_case(ROWS, block_size, 3, 1, 32, dtype=torch.bfloat16))


@pytest.mark.parametrize(("group", "kv_heads"), [(1, 3), (4, 2), (7, 1), (16, 1), (140, 1)])
def test_any_number_of_query_heads_per_kv_head(group: int, kv_heads: int) -> None:
    check(prefill_case([(5, 5), (40, 3)], 16, group, kv_heads, 32))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("dim", [80, 128])
def test_head_dims_and_types(dim: int, dtype: torch.dtype) -> None:
    check(prefill_case([(20, 20), (40, 3)], 16, 4, 1, dim, dtype=dtype))


def test_chunks_of_several_tiles() -> None:
    tile = prefill_config(32, 1, 4).rows
    check(prefill_case([(tile + 1, tile + 1), (3 * tile - 1, 2 * tile), (tile, tile - 1)], 16, 1, 1, 32))


@pytest.mark.parametrize("window", [1, 15, 33, 64, 100])
def test_sliding_window(window: int) -> None:
    check(prefill_case([(1, 1), (17, 17), (150, 25), (65, 64), (100, 1)], 16, 3, 1, 32), window)


def test_queries_that_see_nothing_of_the_first_tile_of_context() -> None:
    config = prefill_config(32, 1, 4)
    assert config.rows > config.tile + 5
    check(prefill_case([(config.rows, config.rows)], 16, 1, 1, 32), window=5)


def test_what_has_left_the_window_is_not_read() -> None:
    case = prefill_case([(170, 20), (70, 3)], 16, 3, 1, 32)
    queries = queries_per_tile(32, 3, 4)
    assert queries >= 20, "one tile a row, so that no tile begins after the row's first query"
    whole = run(case, 40)
    for row, seen_from in enumerate((170 - 20 + 1 - 40, 70 - 3 + 1 - 40)):
        gone = np.arange(seen_from)
        blocks = case.step.tables[row, gone // 16]
        case.key_cache[blocks, :, gone % 16] = float("nan")
        case.value_cache[blocks, :, gone % 16] = float("nan")
        case.step.tables[row, : seen_from // 16] = 1 << 30  # nor are the blocks looked up
    assert (run(case, 40) == whole).all()


def test_tables_that_share_blocks() -> None:
    case = prefill_case([(40, 3), (40, 5), (50, 18)], 16, 3, 1, 32)
    case.step.tables[1:, :2] = case.step.tables[0, :2]
    check(case)


def test_rows_without_a_tile_are_left_alone() -> None:
    case = prefill_case(ROWS, 16, 3, 1, 32)
    out = torch.full((47, 3, 32), 7.0, device=DEVICE)
    got, expected = run(case, leave_out=[0, 3], out=out), case.expected()
    assert (out.cpu().double().numpy() == got).all()
    alone = case.step.starts[[0, 3]]
    assert (got[alone] == 7.0).all()
    others = np.setdiff1d(np.arange(47), alone)
    assert np.abs(got[others] - expected[others]).max() < 5e-6
    assert (run(case, leave_out=range(5), out=torch.zeros_like(out)) == 0.0).all()


@pytest.mark.parametrize("packed_heads", [True, False])
def test_queries_in_either_memory_order(packed_heads: bool) -> None:
    case = make_case([(20, 20), (40, 3)], 16, 3, 2, 32, packed_heads=packed_heads)
    case.store()
    fused = torch.randn(23, 10, 32)
    fused[:, :6] = case.query.transpose(0, 1)
    if packed_heads:
        case.query = fused[:, :6].transpose(0, 1)
    check(case)


def test_scores_far_apart_neither_overflow_nor_vanish() -> None:
    case = prefill_case(ROWS, 16, 3, 1, 32)
    case.query *= 200.0
    assert np.abs(run(case) - case.expected()).max() < 1e-4


def test_nan_in_one_row_stays_there() -> None:
    case = prefill_case([(40, 20), (33, 20)], 16, 3, 1, 32)
    case.key_cache[case.step.tables[0, 1], :, 3] = float("nan")
    got = run(case)
    # Position 19 of the first row: its queries are at 20 to 39.
    assert np.isnan(got[:20]).all() and np.isfinite(got[20:]).all()


def test_what_a_later_query_alone_sees_does_not_reach_an_earlier_one() -> None:
    case = prefill_case([(40, 20)], 16, 3, 1, 32)
    expected = case.expected()
    case.key_cache[case.step.tables[0, 1], :, 14] = 1e30  # position 30
    case.value_cache[case.step.tables[0, 1], :, 14] = 1e30
    assert np.abs(run(case)[:10] - expected[:10]).max() < 5e-6


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="head dim 320"):
        run(prefill_case([(4, 4)], 16, 1, 1, 320))
    case = prefill_case([(4, 4)], 16, 1, 2, 32)
    case.value_cache = case.value_cache.transpose(1, 2).contiguous().transpose(1, 2)
    with pytest.raises(ValueError, match="same strides"):
        run(case)


@pytest.mark.long
@pytest.mark.parametrize(("dim", "dtype"), GRID)
@pytest.mark.parametrize(("group", "kv_heads"), [(1, 2), (3, 3), (4, 2), (7, 1), (16, 1)])
@pytest.mark.parametrize("block_size", [1, 3, 16, 256])
def test_the_whole_grid(block_size: int, group: int, kv_heads: int, dim: int, dtype: torch.dtype) -> None:
    config = prefill_config(dim, group, dtype.itemsize)
    queries = config.rows // group
    rows = [(1, 1), (block_size + 1, 2), (2 * config.tile + 1, queries + 1), (queries, queries), (70, 5)]
    case = prefill_case(rows, block_size, group, kv_heads, dim, dtype=dtype)
    check(case)
    check(case, window=50)


@pytest.mark.long
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("dim", [32, 48, 64, 80, 96, 128, 160, 192, 256])
def test_every_head_dim_in_every_type(dim: int, dtype: torch.dtype) -> None:
    test_the_whole_grid(16, 3, 2, dim, dtype)
