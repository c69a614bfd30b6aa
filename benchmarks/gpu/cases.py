"""Sequences over a scattered paged cache on any device, and what attention over them must give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from kvtop.kernels.packed import PackedStep

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
TOLERANCE = {"fp32": 1e-5, "fp16": 2e-3, "bf16": 1.2e-2}
"""Of a token's largest output: its rounding and that of the weights. The interpreter rounds towards zero."""

_QUERIES = 256
"""Queries that the definition computes at a time: their scores are float64."""


@dataclass(frozen=True)
class Case:
    """Rows of a step whose K/V is stored; every slot that must not be read holds NaN."""

    step: PackedStep
    query: torch.Tensor
    """`[T, query heads, dim]`."""
    key: torch.Tensor
    """`[T, kv heads, dim]`: what the step's slots hold."""
    value: torch.Tensor
    key_cache: torch.Tensor
    """`[blocks, kv heads, block size, dim]`."""
    value_cache: torch.Tensor
    tables: torch.Tensor
    lengths: torch.Tensor
    starts: torch.Tensor
    """The step's, on the device."""
    scale: float
    window: int

    def expected(self) -> torch.Tensor:
        """`[T, query heads, dim]` float64."""
        parts = []
        for row, length in enumerate(self.step.lengths.tolist()):
            begin, end = int(self.step.starts[row]), int(self.step.starts[row + 1])
            caches = self.key_cache, self.value_cache
            query, table = self.query[begin:end], self.tables[row]
            parts.append(attend(query, *caches, table, length, self.scale, self.window))
        return torch.cat(parts)


def attend(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    table: torch.Tensor,
    length: int,
    scale: float,
    window: int = 0,
) -> torch.Tensor:
    """`kvtop.kernels.reference.attend` for the last queries of one sequence at once, on the device.

    query: `[n, query heads, dim]`, of positions `length - n .. length - 1`; caches: `[blocks, kv heads,
    block size, dim]`; table: block ids. Float64 throughout. Returns `[n, query heads, dim]`.
    """
    count, heads, dim = query.shape
    if count > _QUERIES:
        cut = count - _QUERIES
        early = attend(query[:cut], key_cache, value_cache, table, length - _QUERIES, scale, window)
        return torch.cat([early, attend(query[cut:], key_cache, value_cache, table, length, scale, window)])
    _, kv_heads, block_size, _ = key_cache.shape
    first = max(0, length - count - window + 1) if window else 0
    position = torch.arange(first, length, device=query.device)
    block, offset = table[position // block_size].long(), position % block_size
    keys, values = key_cache[block, :, offset].double(), value_cache[block, :, offset].double()
    grouped = query.double().view(count, kv_heads, heads // kv_heads, dim)
    scores = torch.einsum("nhgd,lhd->hgnl", grouped, keys) * scale
    asking = torch.arange(length - count, length, device=query.device)[:, None]
    seen = position <= asking
    if window:
        seen &= position > asking - window
    weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
    return torch.einsum("hgnl,lhd->nhgd", weights, values).reshape(count, heads, dim)


def make_case(
    rows: Sequence[tuple[int, int]],
    device: torch.device,
    dtype: torch.dtype,
    *,
    block_size: int = 16,
    group: int = 4,
    kv_heads: int = 2,
    dim: int = 64,
    window: int = 0,
    shared: bool = True,
    pool: int | None = None,
    seed: int = 0,
) -> Case:
    """rows: (stored tokens after the step, tokens in the step) of each.

    shared: rows after the first read its first whole blocks, as many as both had before the step. pool:
    blocks of the caches, of which the last are used; None takes a few more than needed.
    """
    generator = torch.Generator(device).manual_seed(seed)
    step, used = _layout(rows, block_size, shared, pool, seed)
    blocks = pool or int(used.max()) + 3
    shape = blocks, kv_heads, block_size, dim
    if pool is None:
        caches = [torch.full(shape, float("nan"), dtype=dtype, device=device) for _ in range(2)]
    else:  # too large to be filled
        caches = [torch.empty(shape, dtype=dtype, device=device) for _ in range(2)]
    visible = torch.from_numpy(_visible(step, window)).to(device)
    block, offset = visible // block_size, visible % block_size
    for cache in caches:
        cache[block, :, offset] = torch.randn(
            len(visible), kv_heads, dim, generator=generator, device=device, dtype=dtype
        )
    slots = torch.from_numpy(step.slots).to(device)
    key, value = (cache[slots // block_size, :, slots % block_size].clone() for cache in caches)
    tokens = int(step.starts[-1])
    query = torch.randn(tokens, kv_heads * group, dim, generator=generator, device=device, dtype=dtype)
    tables, lengths, starts = (
        torch.from_numpy(array).to(device) for array in (step.tables, step.lengths, step.starts)
    )
    stored = key, value, caches[0], caches[1]
    return Case(step, query, *stored, tables, lengths, starts, dim**-0.5, window)


def _layout(
    rows: Sequence[tuple[int, int]], block_size: int, shared: bool, pool: int | None, seed: int
) -> tuple[PackedStep, np.ndarray]:
    """The step over scattered blocks, and all blocks that its tables name."""
    needed = [-(-length // block_size) for length, _ in rows]
    used = np.random.default_rng(seed).permutation(sum(needed) + 2) + (pool - sum(needed) - 2 if pool else 0)
    tables = np.zeros((len(rows), max(needed) + 1), np.int32)
    slots, taken = [], 0
    whole = (rows[0][0] - rows[0][1]) // block_size
    for i, (length, count) in enumerate(rows):
        common = min(whole, (length - count) // block_size) if shared and i else 0
        tables[i, :common] = tables[0, :common]
        tables[i, common : needed[i]] = used[taken : taken + needed[i] - common]
        taken += needed[i] - common
        position = np.arange(length - count, length)
        slots.append(tables[i, position // block_size].astype(np.int64) * block_size + position % block_size)
    counts = [count for _, count in rows]
    lengths = np.array([length for length, _ in rows], np.int32)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return PackedStep(np.concatenate(slots), tables, lengths, starts, block_size), used


def _visible(step: PackedStep, window: int) -> np.ndarray:
    """Slots that some query of the step sees."""
    size, slots = step.block_size, []
    for row, length in enumerate(step.lengths.tolist()):
        count = int(step.counts[row])
        position = np.arange(max(0, length - count - window + 1) if window else 0, length)
        slots.append(step.tables[row, position // size].astype(np.int64) * size + position % size)
    return np.unique(np.concatenate(slots))


def difference(got: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest error of `[T, heads, dim]`, in parts of the same token's largest output: those of a long
    context are small. Infinite where `got` is not finite."""
    got = got.double()
    if not bool(got.isfinite().all()):
        return float("inf")
    largest = expected.abs().flatten(1).amax(1)
    return float(((got - expected).abs().flatten(1).amax(1) / largest).max())
