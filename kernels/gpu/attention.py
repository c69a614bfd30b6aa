"""The Triton kernels as a step's attention: store, then decode rows of one token and prefill the others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from kvtop.kernels.gpu.configs import decode_config
from kvtop.kernels.gpu.decode_plan import DecodePlan, plan_decode
from kvtop.kernels.gpu.paged_decode import BACKEND, paged_decode
from kvtop.kernels.gpu.paged_prefill import paged_prefill, prefill_tiles, queries_per_tile
from kvtop.kernels.gpu.store import store
from kvtop.kernels.packed import Array, PackedStep
from kvtop.kernels.protocol import HeadShape

INTERPRETED_PROCESSORS = 4
"""Processors to plan for where there is no GPU: enough that contexts are split in the interpreter too."""


class TritonAttention:
    """Implements `kvtop.kernels.protocol.Attention` on CUDA, and on a CPU under Triton's interpreter."""

    name = "triton split-context decode + paged prefill"

    def __init__(self, device: torch.device, heads: HeadShape, dtype: torch.dtype) -> None:
        self._heads = heads
        self._tile = decode_config(heads.dim, heads.group, dtype.itemsize, BACKEND).tile
        self._queries = queries_per_tile(heads.dim, heads.group, dtype.itemsize)
        self._processors = INTERPRETED_PROCESSORS
        if device.type == "cuda":
            self._processors = torch.cuda.get_device_properties(device).multi_processor_count

    def metadata(self, step: PackedStep) -> dict[str, Array]:
        """Slots, tables, and which rows decode. Changes nothing."""
        counts = step.counts
        rows = np.flatnonzero(counts == 1)
        return {
            "triton.slots": step.slots,
            "triton.tables": step.tables,
            "triton.lengths": step.lengths,
            "triton.starts": step.starts,
            "triton.rows": rows.astype(np.int32),
            "triton.tokens": step.starts[rows].astype(np.int32),
            "triton.tiles": prefill_tiles(np.where(counts == 1, 0, counts), self._queries),
        }

    def begin(self, step: PackedStep, uploaded: Mapping[str, torch.Tensor]) -> None:
        """Prepare for the layers of `step`; how far decode is split is planned when a window is first met."""
        self._on_device = {name.removeprefix("triton."): tensor for name, tensor in uploaded.items()}
        self._decoding_lengths = step.lengths[step.counts == 1]
        self._plans: dict[int, DecodePlan] = {}

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
        on = self._on_device
        query, key, value = (_dense(tensor).transpose(0, 1) for tensor in (query, key, value))
        store(key, value, key_cache, value_cache, on["slots"])
        out = torch.empty_like(query, memory_format=torch.contiguous_format)
        read = key_cache, value_cache, on["tables"], on["lengths"]
        if len(self._decoding_lengths):
            tokens, rows, plan = on["tokens"], on["rows"], self._plan(window)
            paged_decode(query, *read, scale, window=window, tokens=tokens, rows=rows, out=out, plan=plan)
        if len(on["tiles"]):
            paged_prefill(query, *read, on["starts"], on["tiles"], scale, window=window, out=out)
        return out

    def _plan(self, window: int) -> DecodePlan:
        plan = self._plans.get(window)
        if plan is None:
            kv_heads = self._heads.kv_heads
            plan = plan_decode(self._decoding_lengths, kv_heads, self._processors, self._tile, window)
            self._plans[window] = plan
        return plan


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, its last dimension contiguous."""
    return tensor if tensor.stride(2) == 1 else tensor.contiguous()
