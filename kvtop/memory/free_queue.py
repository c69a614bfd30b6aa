"""The queue of free blocks: a doubly linked list laid out in two arrays.

Not a deque, because a prefix hit takes its block out of the middle; not one object a block, because a
million of them cost 118 MiB. One sentinel, at index `capacity`, closes the list into a ring, so no call
needs to ask whether it stands at an end (the idea of vLLM's FreeKVCacheBlockQueue).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import numpy as np

ABSENT = -1
"""Link of a block that is not in the queue."""


class FreeQueue:
    """Block ids 0 to `capacity - 1`, all queued in ascending order at first. Every call but iteration is O(1)
    a block. The caller answers for what is in the queue: `remove` of an absent block is its error."""

    __slots__ = ("capacity", "length", "next", "prev")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.length = capacity
        ring = np.arange(capacity + 1, dtype=np.int32)
        self.next: array[int] = array("i", np.roll(ring, -1).tobytes())
        """int32[capacity + 1]: the block behind, the sentinel last; `ABSENT` when not queued."""
        self.prev: array[int] = array("i", np.roll(ring, 1).tobytes())
        """int32[capacity + 1]: the block before."""

    def __len__(self) -> int:
        return self.length

    def __contains__(self, block: int) -> bool:
        return self.next[block] != ABSENT

    def __iter__(self) -> Iterator[int]:
        """Front to back. Do not change the queue meanwhile."""
        block = self.next[self.capacity]
        while block != self.capacity:
            yield block
            block = self.next[block]

    def peek(self, count: int) -> list[int]:
        """The first `count` blocks, fewer if there are not as many. Changes nothing."""
        blocks: list[int] = []
        following, block, end = self.next, self.next[self.capacity], self.capacity
        while block != end and len(blocks) < count:
            blocks.append(block)
            block = following[block]
        return blocks

    def drop_front(self, blocks: Sequence[int]) -> None:
        """Take out the first blocks, which `peek` just named."""
        if not blocks:
            return
        following, before, end = self.next, self.prev, self.capacity
        after = following[blocks[-1]]
        for block in blocks:
            following[block] = before[block] = ABSENT
        following[end] = after
        before[after] = end
        self.length -= len(blocks)

    def remove(self, block: int) -> None:
        """Take a block out, wherever it stands."""
        following, before = self.next, self.prev
        after, ahead = following[block], before[block]
        following[ahead] = after
        before[after] = ahead
        following[block] = before[block] = ABSENT
        self.length -= 1

    def push_front(self, blocks: Sequence[int]) -> None:
        """Put `blocks` before all others, in this order: `blocks[0]` will be taken first."""
        self._insert(blocks, self.capacity)

    def push_back(self, blocks: Sequence[int]) -> None:
        """Put `blocks` behind all others, in this order: the last one will be taken last."""
        self._insert(blocks, self.prev[self.capacity])

    def _insert(self, blocks: Sequence[int], ahead: int) -> None:
        following, before = self.next, self.prev
        after = following[ahead]
        for block in blocks:
            following[ahead] = block
            before[block] = ahead
            ahead = block
        following[ahead] = after
        before[after] = ahead
        self.length += len(blocks)
