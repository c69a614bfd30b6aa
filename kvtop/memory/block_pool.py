"""A fixed number of equal blocks: who is free, who is referenced how often, who is cached.

Columns, not objects: every property of a block is an entry in an array indexed by block id, which NumPy
views without a copy. All blocks are usable; there is no null block. Each call checks first and changes
afterwards, so one that raises leaves everything as it was.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kvtop.memory.errors import DoubleFreeError, OutOfBlocksError
from kvtop.memory.events import EventBus, Evicted, Freed, QueueEnd, Tier, sequence_name
from kvtop.memory.free_queue import FreeQueue
from kvtop.memory.prefix_cache import PrefixCache, PrefixNode

MANY = 256
"""So many blocks in one call are counted on whole arrays; below, that is the slower way."""


def _zeros(code: str, count: int) -> array[int]:
    return array(code, bytes(array(code).itemsize * count))


class Watcher(Protocol):
    """Whoever wants to know what becomes of cached blocks."""

    def taken(self, blocks: Sequence[int]) -> None:
        """Cached blocks left the free queue: they are referenced again."""
        ...

    def freed(self, blocks: Sequence[int]) -> None:
        """Cached blocks joined the free queue."""
        ...

    def evicted(self, blocks: Sequence[int]) -> None:
        """Blocks are cached no longer."""
        ...


class BlockPool:
    """`num_blocks` blocks of `block_size` token slots in one tier of memory.

    `cache` is the prefix cache that freed blocks stay findable in, or None for a pool without one (host
    memory). Publishes `Evicted` and `Freed`; what involves a sequence is the cache manager's to publish.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        *,
        tier: Tier = Tier.DEVICE,
        cache: PrefixCache | None = None,
        bus: EventBus | None = None,
    ) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.tier = tier
        self.cache = cache
        self.bus = bus or EventBus()
        self.free_queue = FreeQueue(num_blocks)
        self.ref_counts = _zeros("i", num_blocks)
        """int32: table entries that point at the block."""
        self._references: NDArray[np.int32] = np.frombuffer(self.ref_counts, dtype=np.int32)
        self.hashes = _zeros("q", num_blocks)
        """int64: hash under which the block is cached; 0 for none."""
        self.shared_blocks = 0
        """Blocks with a reference count above 1."""
        self.evictions = 0
        self.watcher: Watcher | None = None

    @property
    def available_blocks(self) -> int:
        """Blocks that can be allocated now: free ones and cached ones."""
        return len(self.free_queue)

    @property
    def cached_blocks(self) -> int:
        """Blocks with reference count 0 and a hash: eviction candidates."""
        return self.free_queue.cached

    @property
    def used_blocks(self) -> int:
        """Blocks with a reference count above 0."""
        return self.num_blocks - len(self.free_queue)

    def allocate(self, count: int) -> list[int]:
        """Take `count` blocks from the front of the free queue, each with one reference and nothing in it.

        Cached ones among them are evicted. Raises OutOfBlocksError, having changed nothing, when fewer are
        available.
        """
        empty = len(self.free_queue.stack)
        if count > empty + self.free_queue.cached:
            raise OutOfBlocksError(
                f"{count} blocks asked for, {len(self.free_queue)} of {self.num_blocks} available "
                f"in the {self.tier.value} pool at step {self.bus.step}"
            )
        blocks = self.free_queue.pop_front(count)
        if count > empty:
            self._evict(blocks[empty:])
        references = self.ref_counts
        for block in blocks:
            references[block] = 1
        return blocks

    def share(self, blocks: Sequence[int]) -> None:
        """Add a reference to each of `blocks`; a cached one leaves the free queue, wherever it stands.

        Raises OutOfBlocksError, having changed nothing, for a block that is free and holds nothing.
        """
        if len(blocks) >= MANY and len(set(blocks)) == len(blocks):
            taken = self._share_many(blocks)
        else:
            taken = self._share_few(blocks)
        if taken and self.watcher is not None:
            self.watcher.taken(taken)

    def _share_few(self, blocks: Sequence[int]) -> list[int]:
        for block in blocks:
            if not self.ref_counts[block] and not self.hashes[block]:
                raise self._nothing_to_share(block)
        taken: list[int] = []
        for block in blocks:
            count = self.ref_counts[block]
            if count == 0:
                self.free_queue.remove(block)
                taken.append(block)
            elif count == 1:
                self.shared_blocks += 1
            self.ref_counts[block] = count + 1
        return taken

    def _share_many(self, blocks: Sequence[int]) -> list[int]:
        """The same for many different blocks, on whole arrays."""
        chosen = np.array(blocks, dtype=np.intp)
        counts = self._references[chosen]
        taken: list[int] = chosen[counts == 0].tolist()
        for block in taken:
            if not self.hashes[block]:
                raise self._nothing_to_share(block)
        for block in taken:
            self.free_queue.remove(block)
        self.shared_blocks += int(np.count_nonzero(counts == 1))
        self._references[chosen] = counts + 1
        return taken

    def release(self, blocks: Sequence[int], sequence: int) -> None:
        """Take one reference from each of `blocks`; those that reach 0 join the free queue in this order.

        Give a table's blocks last first, so that a chain's tail is evicted before its head. Blocks without a
        hash go to the front of the queue (they hold nothing worth keeping), hashed ones to the back (LRU).
        Raises DoubleFreeError, having changed nothing, for a block without a reference left.
        """
        if len(blocks) >= MANY and len(set(blocks)) == len(blocks):
            freed = self._release_many(blocks, sequence)
        else:
            freed = self._release_few(blocks, sequence)
        if freed:
            self._free(freed)

    def _release_few(self, blocks: Sequence[int], sequence: int) -> list[int]:
        references = self.ref_counts
        shared = self.shared_blocks
        freed: list[int] = []
        rest = iter(blocks)
        for block in rest:
            count = references[block] - 1
            if count < 0:
                self._take_back(blocks[: len(blocks) - len(list(rest)) - 1])
                raise self._double_free(block, sequence)
            references[block] = count
            if count == 0:
                freed.append(block)
            elif count == 1:
                shared -= 1
        self.shared_blocks = shared
        return freed

    def _release_many(self, blocks: Sequence[int], sequence: int) -> list[int]:
        """The same for many different blocks, on whole arrays."""
        chosen = np.array(blocks, dtype=np.intp)
        counts = self._references[chosen] - 1
        for block in chosen[counts < 0].tolist():
            raise self._double_free(block, sequence)
        self._references[chosen] = counts
        self.shared_blocks -= int(np.count_nonzero(counts == 1))
        freed: list[int] = chosen[counts == 0].tolist()
        return freed

    def insert_in_cache(self, block: int, parent: PrefixNode, tokens: Sequence[int]) -> PrefixNode:
        """Make a full block findable by its tokens. Raises AttributeError on a pool without a cache."""
        assert self.cache is not None
        node = self.cache.insert(block, parent, tokens)
        self.hashes[block] = node.hash
        return node

    def _nothing_to_share(self, block: int) -> OutOfBlocksError:
        return OutOfBlocksError(f"block {block} is free and holds nothing to share at step {self.bus.step}")

    def _take_back(self, blocks: Sequence[int]) -> None:
        """Undo a release that turned out to be wrong half-way."""
        for block in blocks:
            self.ref_counts[block] += 1

    def _free(self, blocks: list[int]) -> None:
        """Queue blocks that nobody references any more."""
        hashes, worthless, findable = self.hashes, blocks, None
        if self.cache is not None and any(map(hashes.__getitem__, blocks)):
            worthless = [block for block in blocks if not hashes[block]]
            findable = [block for block in blocks if hashes[block]]
        if worthless:
            self.free_queue.push_front(worthless)
            if self.bus.active:
                self.bus.emit(Freed, tuple(worthless), QueueEnd.FRONT, self.tier)
        if findable:
            self.free_queue.push_back(findable)
            if self.watcher is not None:
                self.watcher.freed(findable)
            if self.bus.active:
                self.bus.emit(Freed, tuple(findable), QueueEnd.BACK, self.tier)

    def _evict(self, blocks: list[int]) -> None:
        assert self.cache is not None
        for block in blocks:
            self.cache.remove(block)
            self.hashes[block] = 0
        self.evictions += len(blocks)
        if self.watcher is not None:
            self.watcher.evicted(blocks)
        if self.bus.active:
            self.bus.emit(Evicted, tuple(blocks))

    def check_release(self, blocks: Sequence[int], sequence: int) -> None:
        """Raise DoubleFreeError if `release` would. Changes nothing."""
        references = self.ref_counts
        if len(set(blocks)) == len(blocks) and all(map(references.__getitem__, blocks)):
            return
        for position, block in enumerate(blocks):
            if references[block] < blocks[: position + 1].count(block):
                raise self._double_free(block, sequence)

    def _double_free(self, block: int, sequence: int) -> DoubleFreeError:
        return DoubleFreeError(
            f"block {block} of the {self.tier.value} pool freed once too often by sequence "
            f"{sequence_name(sequence)} at step {self.bus.step}: count {self.ref_counts[block]}"
        )
