"""Rows of sequences over a scattered paged cache, and what attention over them must give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kvtop.kernels import reference
from kvtop.kernels.packed import PackedStep
from kvtop.kernels.upload import upload

CPU = torch.device("cpu")


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

    def store(self) -> None:
        """Write the step's keys and values into the caches by slot."""
        places = np.divmod(self.step.slots, self.step.block_size)
        self.key_cache[places[0], :, places[1]] = self.key.transpose(0, 1)
        self.value_cache[places[0], :, places[1]] = self.value.transpose(0, 1)

    def expected(self, window: int = 0) -> np.ndarray:
        """The definition, over the caches as `run` or `store` left them."""
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
