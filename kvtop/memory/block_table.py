"""A sequence's page table: which physical block holds which of its tokens."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from kvtop.memory.events import Tier, sequence_name
from kvtop.memory.prefix_cache import PrefixNode


@dataclass(slots=True, eq=False)
class BlockTable:
    """Logical block i is `blocks[i]`; it holds tokens `i * block_size` and on, up to `stored` in all.

    Only the cache manager changes it. An empty table belongs to a sequence that waits.
    """

    sequence: int
    tokens: array[int]
    """int32 token ids of the sequence: the prompt, then what was generated."""
    blocks: array[int] = field(default_factory=lambda: array("i"))
    """int32 physical block ids, in the pool of `tier`."""
    stored: int = 0
    """Tokens whose K/V the blocks hold."""
    tier: Tier = Tier.DEVICE
    chain: list[PrefixNode] = field(default_factory=list)
    """Prefix-cache nodes of its full blocks, as far as they are cached."""
    source: BlockTable | None = None
    """A sibling that is computing the first `awaited` tokens for both (a group that is being recomputed)."""
    awaited: int = 0

    @property
    def name(self) -> str:
        """The sequence's name for people."""
        return sequence_name(self.sequence)

    @property
    def pending(self) -> int:
        """Tokens whose K/V is still to be computed; 1 while decoding."""
        return len(self.tokens) - self.stored
