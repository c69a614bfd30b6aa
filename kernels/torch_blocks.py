"""Moving blocks in plain torch: copy-on-write and swapping wherever no kernel of ours serves."""

from __future__ import annotations

import torch

from kvtop.kernels.protocol import Pairs


class TorchMover:
    """Implements `kvtop.kernels.protocol.BlockMover`, on any device; everything is on the current stream."""

    name = "torch"

    def copy(self, kv: torch.Tensor, pairs: Pairs) -> None:
        """Copy (source, destination). Changes the destinations."""
        _move(kv, kv, pairs)

    def swap_out(self, device_kv: torch.Tensor, host_kv: torch.Tensor, pairs: Pairs) -> None:
        """Copy (device block, host block). Changes the host blocks."""
        _move(device_kv, host_kv, pairs)

    def swap_in(self, host_kv: torch.Tensor, device_kv: torch.Tensor, pairs: Pairs) -> None:
        """Copy (host block, device block). Changes the device blocks."""
        _move(host_kv, device_kv, pairs)

    def settle(self) -> None:
        """Nothing is under way elsewhere."""


def _move(source: torch.Tensor, target: torch.Tensor, pairs: Pairs) -> None:
    """Blocks of all layers. Each is a few contiguous runs, so one call a block costs little."""
    for from_block, to_block in pairs:
        target[:, :, to_block].copy_(source[:, :, from_block])
