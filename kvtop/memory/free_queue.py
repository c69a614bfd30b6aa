"""The queue of free blocks: those that hold nothing in front, cached ones behind, least recently freed first.

The front is a stack in an array, so that taking and giving back many blocks copies a slice. The back is a
doubly linked list laid out in two arrays, because a prefix hit takes its block out of the middle (not a
deque), and because a million list nodes would cost 118 MiB (not objects). One sentinel, at index
`capacity`, closes the list into a ring, so no call asks whether it stands at an end (the idea of vLLM's
FreeKVCacheBlockQueue, which keeps both kinds in one list, in the same order).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import numpy as np

ABSENT = -1
"""Link of a block that is not cached in the queue."""


class FreeQueue:
    """Block ids 0 to `capacity - 1`, all empty and queued in ascending order at first.

    Taking a block from the front or out of the middle, or adding one, is O(1). The caller answers for which
    blocks are queued and which are cached.
    """

    __slots__ = ("cached", "capacity", "next", "prev", "stack")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.cached = 0
        """How many cached blocks are queued."""
        self.stack: array[int] = array("i", np.arange(capacity - 1, -1, -1, dtype=np.int32).tobytes())
        """int32: blocks that hold nothing; the last one is the front of the queue."""
        links = np.full(capacity + 1, ABSENT, dtype=np.int32)
        links[capacity] = capacity
        self.next: array[int] = array("i", links.tobytes())
        """int32[capacity + 1]: the cached block behind, the sentinel last; `ABSENT` if not cached here."""
        self.prev: array[int] = array("i", links.tobytes())
        """int32[capacity + 1]: the cached block before."""

    def __len__(self) -> int:
        return len(self.stack) + self.cached

    def __iter__(self) -> Iterator[int]:
        """Front to back. Do not change the queue meanwhile."""
        yield from reversed(self.stack)
        yield from self.eviction_order()

    def eviction_order(self) -> Iterator[int]:
        """The cached blocks, the one to be evicted next first."""
        block = self.next[self.capacity]
        while block != self.capacity:
            yield block
            block = self.next[block]

    def pop_front(self, count: int) -> list[int]:
        """Take the first `count` blocks out, empty ones before cached ones. There must be as many."""
        stack = self.stack
        if count == 1 and stack:
            return [stack.pop()]
        kept = max(0, len(stack) - count)
        blocks = stack[kept:].tolist()
        blocks.reverse()
        del stack[kept:]
        if len(blocks) < count:
            self._pop_cached(blocks, count - len(blocks))
        return blocks

    def _pop_cached(self, blocks: list[int], count: int) -> None:
        following, before, end = self.next, self.prev, self.capacity
        block = following[end]
        for _ in range(count):
            blocks.append(block)
            after = following[block]
            following[block] = before[block] = ABSENT
            block = after
        following[end] = block
        before[block] = end
        self.cached -= count

    def remove(self, block: int) -> None:
        """Take a cached block out, wherever it stands."""
        following, before = self.next, self.prev
        after, ahead = following[block], before[block]
        following[ahead] = after
        before[after] = ahead
        following[block] = before[block] = ABSENT
        self.cached -= 1

    def push_front(self, blocks: Sequence[int]) -> None:
        """Put empty `blocks` before all others, in this order: `blocks[0]` will be taken first."""
        if len(blocks) == 1:
            self.stack.append(blocks[0])
        else:
            self.stack.fromlist(list(reversed(blocks)))

    def push_back(self, blocks: Sequence[int]) -> None:
        """Put cached `blocks` behind all others, in this order: the last one will be taken last."""
        following, before, end = self.next, self.prev, self.capacity
        ahead = before[end]
        for block in blocks:
            following[ahead] = block
            before[block] = ahead
            ahead = block
        following[ahead] = end
        before[end] = ahead
        self.cached += len(blocks)
