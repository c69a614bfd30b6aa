"""The definition of paged attention as an implementation that a run can be made on: slow, for comparison."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from kvtop.kernels.packed import Array, PackedStep
from kvtop.kernels.reference import attend


class ReferenceAttention:
    """`kvtop.kernels.reference` for every token of a step, in float64 on the CPU, whatever the device."""

    name = "reference (float64)"

    def metadata(self, step: PackedStep) -> dict[str, Array]:
        """It reads the step's own arrays. Changes nothing."""
        return {}

    def begin(self, step: PackedStep, uploaded: Mapping[str, torch.Tensor]) -> None:
        """Keep the step for its layers."""
        self._step = step

    def __call__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        scale: float,
        window: int,
    ) -> torch.Tensor:
        """Shapes as in `kvtop.kernels.protocol.Attention`. Changes the caches."""
        step, size = self._step, self._step.block_size
        slots = torch.from_numpy(step.slots).to(key_cache.device)
        blocks, offsets = slots // size, slots % size
        key_cache[blocks, :, offsets] = key.transpose(0, 1).to(key_cache.dtype)
        value_cache[blocks, :, offsets] = value.transpose(0, 1).to(value_cache.dtype)
        queries = query.detach().double().cpu().numpy()
        out = np.empty((queries.shape[1], queries.shape[0], queries.shape[2]))
        for row, length in enumerate(step.lengths):
            used = step.tables[row, : -(-int(length) // size)]
            at = torch.from_numpy(used.astype(np.int64)).to(key_cache.device)
            keys, values = (cache[at].detach().double().cpu().numpy() for cache in (key_cache, value_cache))
            table = np.arange(len(used))
            begin, end = int(step.starts[row]), int(step.starts[row + 1])
            for token in range(begin, end):
                position = int(length) - (end - token)
                out[token] = attend(queries[:, token], keys, values, table, position, scale, window)
        return torch.from_numpy(out).to(query)
