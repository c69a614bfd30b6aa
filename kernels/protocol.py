"""What the engine asks of an implementation of the kernels: attention over paged K/V, and moving blocks.

A layer's cache is head-major, `[blocks, kv heads, block size, dim]`, one tensor for keys and one for values;
the whole pool is one tensor `[layers, 2, blocks, kv heads, block size, dim]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import NamedTuple, Protocol

import torch

from kvtop.kernels.packed import Array, PackedStep

Pairs = Seq[tuple[int, int]]


class HeadShape(NamedTuple):
    """The heads of an attention layer."""

    kv_heads: int
    group: int
    """Query heads that share a KV head."""
    dim: int


class Attention(Protocol):
    """Writes a layer's K/V into the paged cache and attends through the block tables."""

    name: str
    """What the screens call it."""

    def metadata(self, step: PackedStep) -> dict[str, Array]:
        """What the kernels read from the device's memory: part of the step's one upload. Changes nothing."""
        ...

    def begin(self, step: PackedStep, uploaded: Mapping[str, torch.Tensor]) -> None:
        """Prepare for the layers of `step`. `uploaded` holds what `metadata` gave, on the device."""
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
        """Write this layer's K/V by slot, then attend. Changes the caches.

        query: `[query heads, T, dim]`; key, value: `[kv heads, T, dim]`; caches: `[blocks, kv heads,
        block size, dim]`. Scores are multiplied by `scale`. window: a query sees its last `window` tokens
        only, its own included; 0 means all. Returns `[T, query heads, dim]`.
        """
        ...


class Moves(NamedTuple):
    """What a step does to whole blocks, in this order: swaps out, swaps in, copies."""

    swaps_out: Pairs = ()
    """(device block, host block)."""
    swaps_in: Pairs = ()
    """(host block, device block)."""
    copies: Pairs = ()
    """Copy-on-write: (source, destination) within the device pool."""


class BlockMover(Protocol):
    """Moves whole blocks, all layers of K and V at once, as if one pair after the other."""

    def metadata(self, moves: Moves) -> dict[str, Array]:
        """What the kernels read from the device's memory: part of the step's one upload. Changes nothing."""
        ...

    def run(
        self,
        device_kv: torch.Tensor,
        host_kv: torch.Tensor,
        moves: Moves,
        uploaded: Mapping[str, torch.Tensor],
    ) -> None:
        """Move. `uploaded` holds what `metadata` gave, on the device. Changes both pools.

        Swaps may still be under way when it returns: `settle` comes before anything else that touches them.
        """
        ...

    def settle(self) -> None:
        """Order what is launched from now on after all that was moved so far. Does not wait for it."""
        ...
