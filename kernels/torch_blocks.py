"""Moving blocks in plain torch: copy-on-write and swapping wherever no kernel of ours serves."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from kvtop.kernels.packed import Array
from kvtop.kernels.protocol import Moves, Pairs


class TorchMover:
    """Implements `kvtop.kernels.protocol.BlockMover`, on any device; everything is on the current stream."""

    def metadata(self, moves: Moves) -> dict[str, Array]:
        """Nothing: the copies are called one by one. Changes nothing."""
        return {}

    def run(
        self,
        device_kv: torch.Tensor,
        host_kv: torch.Tensor,
        moves: Moves,
        uploaded: Mapping[str, torch.Tensor],
    ) -> None:
        """Move, one pair after the other. Changes both pools."""
        _move(device_kv, host_kv, moves.swaps_out)
        _move(host_kv, device_kv, moves.swaps_in)
        _move(device_kv, device_kv, moves.copies)

    def settle(self) -> None:
        """Nothing is under way elsewhere."""


def _move(source: torch.Tensor, target: torch.Tensor, pairs: Pairs) -> None:
    """Blocks of all layers. Each is a few contiguous runs, so one call a block costs little."""
    for from_block, to_block in pairs:
        target[:, :, to_block].copy_(source[:, :, from_block])
