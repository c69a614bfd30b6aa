"""A fixed number of equal blocks: who is free, who is referenced how often, who is cached.

Columns, not objects: every property of a block is an entry in an array indexed by block id, which NumPy
views without a copy. All blocks are usable; there is no null block. Each call checks first and changes
afterwards, so one that raises leaves everything as it was.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from kvtop.memory.errors import DoubleFreeError, OutOfBlocksError
from kvtop.memory.events import EventBus, Evicted, Freed, QueueEnd, Tier, sequence_name
from kvtop.memory.free_queue import FreeQueue
from kvtop.memory.prefix_cache import PrefixCache, PrefixNode


def _zeros(code: str, count: int) -> array[int]:
    return array(code, bytes(array(code).itemsize * count))


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
        self.hashes = _zeros("q", num_blocks)
        """int64: hash under which the block is cached; 0 for none."""
        self.fills = _zeros("i", num_blocks)
        """int32: filled token slots."""
        self.touched = _zeros("i", num_blocks)
        """int32: step of the last allocation, share, release or free."""
        self.cached_blocks = 0
        """Blocks with reference count 0 and a hash: eviction candidates."""
        self.shared_blocks = 0
        """Blocks with a reference count above 1."""
        self.stored_tokens = 0
        """Filled slots of used blocks, each physical slot once."""
        self.evictions = 0

    @property
    def available_blocks(self) -> int:
        """Blocks that can be allocated now: free ones and cached ones."""
        return len(self.free_queue)

    @property
    def used_blocks(self) -> int:
        """Blocks with a reference count above 0."""
        return self.num_blocks - len(self.free_queue)

    def allocate(self, count: int) -> list[int]:
        """Take `count` blocks from the front of the free queue, each with one reference and nothing in it.

        Cached ones among them are evicted. Raises OutOfBlocksError, having changed nothing, when fewer are
        available.
        """
        if count > len(self.free_queue):
            raise OutOfBlocksError(
                f"{count} blocks asked for, {len(self.free_queue)} of {self.num_blocks} available "
                f"in the {self.tier.value} pool at step {self.bus.step}"
            )
        blocks = self.free_queue.peek(count)
        if self.cached_blocks:
            self._evict([block for block in blocks if self.hashes[block]])
        self.free_queue.drop_front(blocks)
        step, references, fills, touched = self.bus.step, self.ref_counts, self.fills, self.touched
        for block in blocks:
            references[block] = 1
            fills[block] = 0
            touched[block] = step
        return blocks

    def share(self, blocks: Sequence[int]) -> None:
        """Add a reference to each of `blocks`; a cached one leaves the free queue, wherever it stands.

        Raises OutOfBlocksError, having changed nothing, for a block that is free and holds nothing.
        """
        for block in blocks:
            if not self.ref_counts[block] and not self.hashes[block]:
                raise OutOfBlocksError(
                    f"block {block} is free and holds nothing to share at step {self.bus.step}"
                )
        step = self.bus.step
        for block in blocks:
            count = self.ref_counts[block]
            if count == 0:
                self.free_queue.remove(block)
                self.cached_blocks -= 1
                self.stored_tokens += self.fills[block]
            elif count == 1:
                self.shared_blocks += 1
            self.ref_counts[block] = count + 1
            self.touched[block] = step

    def release(self, blocks: Sequence[int], sequence: int) -> None:
        """Take one reference from each of `blocks`; those that reach 0 join the free queue in this order.

        Give a table's blocks last first, so that a chain's tail is evicted before its head. Blocks without a
        hash go to the front of the queue (they hold nothing worth keeping), hashed ones to the back (LRU).
        Raises DoubleFreeError, having changed nothing, for a block without a reference left.
        """
        self.check_release(blocks, sequence)
        step, references, touched = self.bus.step, self.ref_counts, self.touched
        worthless: list[int] = []
        findable: list[int] = []
        for block in blocks:
            count = references[block] - 1
            references[block] = count
            touched[block] = step
            if count == 0:
                self.stored_tokens -= self.fills[block]
                if self.hashes[block]:
                    findable.append(block)
                else:
                    self.fills[block] = 0
                    worthless.append(block)
            elif count == 1:
                self.shared_blocks -= 1
        if worthless:
            self.free_queue.push_front(worthless)
            self._publish_freed(worthless, QueueEnd.FRONT)
        if findable:
            self.cached_blocks += len(findable)
            self.free_queue.push_back(findable)
            self._publish_freed(findable, QueueEnd.BACK)

    def fill(self, block: int, slots: int) -> None:
        """Set how many slots of a used block are filled."""
        self.stored_tokens += slots - self.fills[block]
        self.fills[block] = slots

    def insert_in_cache(self, block: int, parent: PrefixNode, tokens: Sequence[int]) -> PrefixNode:
        """Make a full block findable by its tokens. Raises AttributeError on a pool without a cache."""
        assert self.cache is not None
        node = self.cache.insert(block, parent, tokens)
        self.hashes[block] = node.hash
        return node

    def _evict(self, blocks: list[int]) -> None:
        if not blocks:
            return
        assert self.cache is not None
        for block in blocks:
            self.cache.remove(block)
            self.hashes[block] = 0
        self.cached_blocks -= len(blocks)
        self.evictions += len(blocks)
        if self.bus.active:
            self.bus.emit(Evicted, tuple(blocks))

    def check_release(self, blocks: Sequence[int], sequence: int) -> None:
        """Raise DoubleFreeError if `release` would. Changes nothing."""
        references = self.ref_counts
        if len(set(blocks)) == len(blocks) and all(references[block] > 0 for block in blocks):
            return
        for position, block in enumerate(blocks):
            if references[block] < blocks[: position + 1].count(block):
                raise DoubleFreeError(
                    f"block {block} of the {self.tier.value} pool freed once too often by sequence "
                    f"{sequence_name(sequence)} at step {self.bus.step}: count {self.ref_counts[block]}"
                )

    def _publish_freed(self, blocks: list[int], end: QueueEnd) -> None:
        if self.bus.active:
            self.bus.emit(Freed, tuple(blocks), end, self.tier)
