"""The K/V tensors of the device pool and the host pool."""

from __future__ import annotations

from typing import NamedTuple

import torch

from kvtop.kernels.protocol import HeadShape
from kvtop.memory.sizing import bytes_per_token


class KVShape(NamedTuple):
    """What a model's attention stores for each token, and reads: the same in every layer but for windows."""

    layers: int
    kv_heads: int
    group: int
    """Query heads that share a KV head."""
    head_dim: int
    dtype: torch.dtype
    windows: tuple[int, ...]
    """Per layer: how many of a sequence's last tokens a query sees; 0 means all."""

    @property
    def heads(self) -> HeadShape:
        """As the kernels want to know them."""
        return HeadShape(self.kv_heads, self.group, self.head_dim)

    @property
    def bytes_per_token(self) -> int:
        """K and V over all layers, in bytes."""
        return bytes_per_token(self.layers, self.kv_heads, self.head_dim, self.dtype.itemsize)


class KVPool:
    """Blocks of K and V on the device and in host memory.

    Each pool is one tensor `[layers, 2, blocks, kv heads, block size, head dim]`: what one head of one
    block holds is contiguous, which is what the kernels read, and a block is copied over all layers at
    once. The memory is not cleared: slots are written before they are read.
    """

    def __init__(
        self, shape: KVShape, blocks: int, block_size: int, host_blocks: int, device: torch.device
    ) -> None:
        self.block_size = block_size
        inner = (shape.kv_heads, block_size, shape.head_dim)
        self.device_kv = torch.empty(shape.layers, 2, blocks, *inner, dtype=shape.dtype, device=device)
        self.host_kv = torch.empty(
            shape.layers, 2, host_blocks, *inner, dtype=shape.dtype, pin_memory=device.type == "cuda"
        )
        self.keys = [self.device_kv[layer, 0] for layer in range(shape.layers)]
        self.values = [self.device_kv[layer, 1] for layer in range(shape.layers)]
