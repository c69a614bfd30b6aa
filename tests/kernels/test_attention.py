"""The attention kernels against their definition in float64."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kvtop.kernels.cpu.attention import NumbaAttention
from kvtop.kernels.cpu.paged_attention import FEW_ROWS
from kvtop.kernels.gather_sdpa import GatherAttention
from kvtop.kernels.packed import PackedStep
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
    """Lengths around the edges of blocks, of vectors and of the kernel's tiles of 64 tokens."""
    near = {1, block_size - 1, block_size, block_size + 1, 2 * block_size, 3 * block_size + 2}
    return sorted(length for length in near | {7, 8, 9, 15, 17, 63, 64, 65, 130} if length > 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("block_size", [1, 4, 16, 256])
def test_decode_at_block_edges(kind: Any, dtype: torch.dtype, block_size: int) -> None:
    check(make_case([(length, 1) for length in edges(block_size)], block_size, dtype=dtype), kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("group", "kv_heads", "dim"),
    [(1, 1, 5), (1, 3, 64), (7, 1, 64), (4, 2, 16), (3, 5, 16), (9, 1, 33), (130, 1, 32)],
)
def test_heads_of_any_number(kind: Any, dtype: torch.dtype, group: int, kv_heads: int, dim: int) -> None:
    check(make_case([(5, 1), (40, 1), (1, 1), (70, 7)], 4, group, kv_heads, dim, dtype), kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dim", [32, 64, 80, 96, 128, 192, 256])
def test_heads_of_any_dimension(kind: Any, dtype: torch.dtype, dim: int) -> None:
    case = make_case([(40, 1), (65, 1), (70, 2), (100, 45)], 16, 3, 1, dim, dtype)
    case.scale = dim**-0.5
    check(case, kind)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("block_size", [1, 3, 16, 256])
@pytest.mark.parametrize(("group", "kv_heads"), [(1, 2), (3, 1), (12, 1)])
def test_full_grid(kind: Any, dtype: torch.dtype, block_size: int, group: int, kv_heads: int) -> None:
    rows = [(length, count) for length in edges(block_size) for count in (1, 3, 44) if count <= length]
    for dim in (32, 64, 80, 96, 128, 192, 256):
        for window in (0, 1, 64):
            case = make_case(rows, block_size, group, kv_heads, dim, dtype, seed=dim + window)
            case.scale = dim**-0.5
            check(case, kind, window)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_prefill_chunks_beside_decodes(kind: Any, block_size: int) -> None:
    rows = [(9, 9), (20, 1), (17, 6), (33, 33), (8, 4), (50, 5), (1, 1), (30, 2)]
    for dtype in (torch.float32, torch.bfloat16):
        check(make_case(rows, block_size, dtype=dtype), kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", [1, 3, 16, 33, 64, 65, 1000])
def test_sliding_window(kind: Any, window: int) -> None:
    rows = [(45, 1), (40, 12), (3, 3), (2, 1), (70, 2), (64, 64), (150, 1), (160, 90)]
    check(make_case(rows, 4), kind, window)


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


def test_a_prompt_in_pieces_is_the_prompt_in_one() -> None:
    """To the last bit, whatever the pieces, as long as each has rows enough to share tiles."""
    case = make_case([(150, 150)], 4)
    for window in (0, 40):
        whole = case.run(NumbaAttention(), window)
        case.key_cache[:], case.value_cache[:] = float("nan"), float("nan")
        for begin, end in ((0, 33), (33, 40), (40, 107), (107, 150)):
            assert (end - begin) * 3 > FEW_ROWS
            got = piece(case, 0, begin, end).run(NumbaAttention(), window)
            assert (got == whole[begin:end]).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_alone_gives_what_it_gives_in_company(dtype: torch.dtype) -> None:
    case = make_case([(9, 9), (70, 1), (17, 6), (150, 133), (8, 4), (1, 1), (130, 2)], 4, dtype=dtype)
    for window in (0, 40):
        together = case.run(NumbaAttention(), window)
        for row, count in enumerate(case.step.counts):
            first = case.step.starts[row]
            alone = piece(case, row, 0, int(count)).run(NumbaAttention(), window)
            assert (alone == together[first : first + count]).all()


def piece(case: Case, row: int, begin: int, end: int) -> Case:
    """Tokens begin .. end - 1 of those that one row has in the step, over the same caches."""
    step = case.step
    first = int(step.starts[row])
    span = slice(first + begin, first + end)
    length = step.lengths[row] - step.counts[row] + end
    one = PackedStep(
        slots=step.slots[span],
        tables=step.tables[row : row + 1],
        lengths=np.array([length], np.int32),
        starts=np.array([0, end - begin]),
        block_size=step.block_size,
    )
    return replace(
        case, step=one, query=case.query[:, span], key=case.key[:, span], value=case.value[:, span]
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_query_feels_a_later_token(dtype: torch.dtype) -> None:
    """Not even a NaN, in the same tile, block and group of rows."""
    case = make_case([(66, 66), (40, 2)], 4, dtype=dtype)
    clean = case.run(NumbaAttention())
    broken = [7, 30, 65, 67]
    case.key[:, broken], case.value[:, broken] = float("nan"), float("nan")
    got = case.run(NumbaAttention())
    assert (got[:7] == clean[:7]).all() and np.isnan(got[7:66]).all()
    assert (got[66] == clean[66]).all() and np.isnan(got[67]).all()


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


def in_a_child(code: str, **environment: str) -> str:
    """What a new process prints."""
    inherited = {name: value for name, value in os.environ.items() if name != "NUMBA_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=inherited | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_threads_of_torch_stay_as_they_are() -> None:
    code = """
import torch
torch.set_num_threads(2)
from kvtop.kernels.cpu.compile import compile_kernel
compile_kernel(torch.float32)
print(torch.get_num_threads())
"""
    assert in_a_child(code, OMP_NUM_THREADS="2", MKL_NUM_THREADS="2") == "2"


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_compiled_and_loaded_code_compute_the_same_bits(dtype: str, tmp_path: Path) -> None:
    code = f"""
import hashlib, torch
from kvtop.kernels.cpu.attention import NumbaAttention
from tests.kernels.cases import make_case
case = make_case([(9, 9), (70, 1), (150, 133), (130, 2)], 4, dtype=torch.{dtype})
print(hashlib.sha256(case.run(NumbaAttention()).tobytes()).hexdigest())
"""
    cold, warm = (in_a_child(code, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert list(tmp_path.rglob("*.nbi"))
    assert cold == warm
