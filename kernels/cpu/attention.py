"""Attention on a CPU: one call of the Numba kernel a layer."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch

from kvtop.kernels.cpu.paged_attention import workspace, write_and_attend
from kvtop.kernels.packed import Array, PackedStep

_LIKE = {torch.float32: np.float32(0), torch.bfloat16: np.uint16(0)}


class NumbaAttention:
    """K/V written, and decode and prefill done, by one kernel. float32 and bfloat16, on one thread."""

    name = "numba paged decode + prefill"

    def __init__(self) -> None:
        self._kernel = write_and_attend()
        self._workspaces: dict[tuple[int, int], tuple[Array, tuple[int, ...]]] = {}

    def metadata(self, step: PackedStep) -> dict[str, Array]:
        """Nothing: the kernel reads the step's own arrays."""
        return {}

    def begin(self, step: PackedStep, uploaded: Mapping[str, torch.Tensor]) -> None:
        """Prepare for the layers of `step`. `uploaded` is not looked at."""
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
        """Write this layer's K/V, then attend; shapes as in `Attention`. Changes the caches."""
        heads, tokens, dim = query.shape
        _, kv_heads, block_size, _ = key_cache.shape
        dtype = key_cache.dtype
        query, key, value = _dense(query, dtype), _dense(key, dtype), _dense(value, dtype)
        out = torch.empty(tokens, heads, dim, dtype=dtype)
        q_head, q_token, _ = query.stride()
        k_head, k_token, _ = key.stride()
        v_head, v_token, _ = value.stride()
        group = heads // kv_heads
        step = self._step
        self._kernel(
            _LIKE[dtype],
            (
                out.data_ptr(),
                query.data_ptr(),
                key.data_ptr(),
                value.data_ptr(),
                key_cache.data_ptr(),
                value_cache.data_ptr(),
            ),
            (q_token, q_head, k_token, k_head, v_token, v_head),
            (group, kv_heads, block_size, dim, dtype.itemsize),
            self._workspace(group, dim),
            step.slots,
            step.tables,
            step.lengths,
            step.starts,
            np.float32(scale * math.log2(math.e)),
            window,
        )
        return out

    def _workspace(self, group: int, dim: int) -> tuple[int, ...]:
        """Addresses of the kernel's workspace for heads of this shape, made when first asked for."""
        known = self._workspaces.get((group, dim))
        if known is None:
            offsets, size = workspace(group, dim)
            # Zeros: what nothing was written to is multiplied all the same, and denormal numbers are slow.
            memory = np.zeros(size + 63, np.uint8)
            first = -(-memory.ctypes.data // 64) * 64
            known = self._workspaces[group, dim] = memory, tuple(first + offset for offset in offsets)
        return known[1]


def _dense(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The tensor in the cache's type, its last dimension contiguous: what the kernel can read."""
    if tensor.dtype is not dtype:
        tensor = tensor.to(dtype)
    return tensor if tensor.stride(2) == 1 else tensor.contiguous()
