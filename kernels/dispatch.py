"""Which attention runs: decided by device, type and what is installed."""

from __future__ import annotations

import importlib.util
from typing import Protocol

import torch

from kvtop.kernels.packed import PackedStep


class Attention(Protocol):
    """Writes a layer's K/V into the paged cache and attends through the block tables."""

    name: str

    def begin(self, step: PackedStep, device: torch.device) -> None:
        """Prepare for the layers of `step`. Changes this object only."""
        ...

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
        """Shapes as in `kvtop.kernels.gather_sdpa.GatherAttention`. Changes the caches."""
        ...


def choose(device: torch.device, dtype: torch.dtype) -> tuple[Attention, str]:
    """The attention for K/V of `dtype` on `device`, and what to call it on the screen.

    Where the Numba kernel would serve but cannot be loaded, the name says so and why.
    """
    from kvtop.kernels.gather_sdpa import GatherAttention

    if device.type != "cpu" or dtype not in (torch.float32, torch.bfloat16):
        return GatherAttention(), GatherAttention.name
    if importlib.util.find_spec("numba") is None:
        return GatherAttention(), f"{GatherAttention.name} (numba is not installed)"
    try:
        from kvtop.kernels.cpu.attention import NumbaAttention
    except ImportError as error:
        return GatherAttention(), f"{GatherAttention.name} (numba does not load: {error})"
    return NumbaAttention(), NumbaAttention.name
