"""The attention kernels against their definition in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from kvtop.kernels import reference
from kvtop.kernels.cpu.attention import SHORT_ROW, NumbaAttention
from kvtop.kernels.gather_sdpa import GatherAttention
from kvtop.kernels.packed import PackedStep
from kvtop.kernels.upload import upload

KINDS = [NumbaAttention, GatherAttention]
CPU = torch.device("cpu")
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 8e-3}


@dataclass
class Case:
    """Rows of some lengths over scattered blocks; every slot that must not be read holds NaN."""

    step: PackedStep
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    key_cache: torch.Tensor
    value_cache: torch.Tensor
    scale: float

    def run(self, attention: Any, window: int = 0) -> np.ndarray:
        """What a kernel makes of it, as float64. Changes the caches."""
        attention.begin(self.step, upload(attention.metadata(self.step), CPU))
        out = attention(
            self.query, self.key, self.value, self.key_cache, self.value_cache, self.scale, window
        )
        return out.double().numpy()

    def expected(self, window: int = 0) -> np.ndarray:
        """The definition, over the caches as `run` left them."""
        caches = self.key_cache.double().numpy(), self.value_cache.double().numpy()
        query = self.query.double().numpy()
        pairs = zip(self.step.token_rows(), self.step.token_positions(), strict=True)
        return np.stack(
            [
                reference.attend(
                    query[:, t], *caches, self.step.tables[row], int(position), self.scale, window
                )
                for t, (row, position) in enumerate(pairs)
            ]
        )


def make_case(
    rows: Sequence[tuple[int, int]],
    block_size: int = 4,
    group: int = 3,
    kv_heads: int = 2,
    dim: int = 16,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    packed_heads: bool = True,
) -> Case:
    """`rows` holds (stored tokens after the step, tokens in the step) of each row.

    packed_heads: tensors as models hand them over, `[T, heads, dim]` in memory, seen as `[heads, T, dim]`.
    """
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).to(dtype)

    blocks = [-(-length // block_size) for length, _ in rows]
    order = np.random.default_rng(seed).permutation(sum(blocks) + 5)
    tables = np.zeros((len(rows), max(blocks)), np.int32)
    starts = np.cumsum([0, *(count for _, count in rows)])
    key_cache = torch.full((len(order), kv_heads, block_size, dim), float("nan"), dtype=dtype)
    value_cache = key_cache.clone()
    slots = []
    taken = 0
    for i, (length, count) in enumerate(rows):
        tables[i, : blocks[i]] = order[taken : taken + blocks[i]]
        taken += blocks[i]
        positions = np.arange(length)
        places = tables[i, positions // block_size], positions % block_size
        old = slice(0, length - count)
        key_cache[places[0][old], :, places[1][old]] = random(length - count, kv_heads, dim)
        value_cache[places[0][old], :, places[1][old]] = random(length - count, kv_heads, dim)
        slots.extend((places[0] * block_size + places[1])[length - count :])
    lengths = np.array([length for length, _ in rows], np.int32)
    step = PackedStep(np.array(slots, np.int64), tables, lengths, starts.astype(np.int64), block_size)

    def tensor(heads: int) -> torch.Tensor:
        made = random(int(starts[-1]), heads, dim).transpose(0, 1)
        return made if packed_heads else made.contiguous()

    query, key, value = tensor(kv_heads * group), tensor(kv_heads), tensor(kv_heads)
    return Case(step, query, key, value, key_cache, value_cache, 0.3)


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
    rows = [(9, 9), (20, 1), (17, 6), (33, 33), (8, SHORT_ROW), (50, SHORT_ROW + 1), (1, 1), (30, 2)]
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
