"""Attention on a CPU: the Numba kernel for rows that decode, gather and SDPA for longer ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from kvtop.kernels.cpu.paged_decode import workspace_size, write_and_decode
from kvtop.kernels.gather_sdpa import GatherAttention
from kvtop.kernels.packed import Array, PackedStep

SHORT_ROW = 4
"""Rows of at most this many tokens go through the decode kernel, each token as a query of its own: below
that, gathering the blocks and calling SDPA costs more than reading them again."""

_LIKE = {torch.float32: np.float32(0), torch.bfloat16: np.uint16(0)}


class NumbaAttention(GatherAttention):
    """As `GatherAttention`, with the K/V writes and the short rows done by Numba. float32 and bfloat16."""

    name = "numba paged decode + sdpa prefill"

    def __init__(self) -> None:
        self._workspace = np.empty(0, np.float32)
        self._workspace_address = 0

    def metadata(self, step: PackedStep) -> dict[str, Array]:
        """Nothing: the kernel reads the step's own arrays."""
        return {}

    def begin(self, step: PackedStep, uploaded: Mapping[str, torch.Tensor]) -> None:
        """Prepare for the layers of `step`. `uploaded` is not looked at."""
        self._step = step
        self._device = torch.device("cpu")
        self._masks = {}
        self._tables = torch.from_numpy(step.tables.astype(np.int64))
        counts = step.counts
        short = counts <= SHORT_ROW
        self._chunks = [int(row) for row in np.flatnonzero(~short)]
        if self._chunks:
            rows = step.token_rows()
            self._queries = np.flatnonzero(short[rows])
            self._rows = rows[self._queries]
            self._seen = step.token_positions()[self._queries] + 1
        elif len(step.slots) == len(step.lengths):
            self._queries = self._rows = np.arange(len(step.lengths))
            self._seen = step.lengths.astype(np.int64)
        else:
            self._queries = np.arange(len(step.slots))
            self._rows = step.token_rows()
            self._seen = step.token_positions() + 1

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
        """Write this layer's K/V, then attend; shapes as in `GatherAttention`. Changes the caches."""
        heads, tokens, dim = query.shape
        _, kv_heads, block_size, _ = key_cache.shape
        dtype = key_cache.dtype
        query, key, value = _dense(query, dtype), _dense(key, dtype), _dense(value, dtype)
        out = torch.empty(tokens, heads, dim, dtype=dtype)
        q_head, q_token, _ = query.stride()
        k_head, k_token, _ = key.stride()
        v_head, v_token, _ = value.stride()
        group = heads // kv_heads
        if workspace_size(group, dim) > self._workspace.size:
            self._workspace = np.empty(workspace_size(group, dim), np.float32)
            self._workspace_address = self._workspace.ctypes.data
        write_and_decode(dim)(
            self._workspace_address,
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
            (group, kv_heads, block_size),
            self._step.slots,
            self._queries,
            self._rows,
            self._seen,
            self._step.tables,
            np.float32(scale),
            window,
        )
        for row in self._chunks:
            self.attend_chunk(row, out, query, key_cache, value_cache, scale, window)
        return out


def _dense(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The tensor in the cache's type, its last dimension contiguous: what the kernel can read."""
    if tensor.dtype is not dtype:
        tensor = tensor.to(dtype)
    return tensor if tensor.stride(2) == 1 else tensor.contiguous()
