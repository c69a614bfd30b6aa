"""The tree of cached prefixes, kept up from event to event so that showing it costs no walk of the pool."""

from __future__ import annotations

from bisect import bisect_left, insort

from kvtop.memory import events as ev
from kvtop.timeline.snapshot import PrefixNode
from kvtop.timeline.state import MemoryState

MOST_NODES = 4096
"""Nodes of the tree that a snapshot carries."""


class PrefixForest:
    """Which cached device blocks follow which, as the fold `state` knows them.

    Siblings stand by block id, so that nothing jumps from frame to frame. Where several blocks hold the same
    chain, what follows hangs below the one that was cached first. What follows an evicted block becomes a
    root, and goes back below it when that chain is cached again.
    """

    def __init__(self, state: MemoryState) -> None:
        self.state = state
        self.size = 0
        """Cached blocks in all."""
        self._holders: dict[int, list[int]] = {}
        """Hash -> the blocks that are cached under it, oldest first."""
        self._following: dict[int, list[int]] = {}
        """Hash of a chain (0 for the empty one) -> the blocks that follow it, by id."""
        self._orphaned: set[int] = set()
        """Those hashes that nothing holds any more."""
        self._nodes: dict[int, PrefixNode] = {}
        self._order: list[int] | None = None
        self._shown: tuple[PrefixNode, ...] = ()
        self._moment: tuple[int, int] | None = None

    def cached(self, event: ev.Cached) -> None:
        """Take blocks in."""
        for block, hash_, parent in zip(event.blocks, event.hashes, event.parents, strict=True):
            if parent and parent not in self._holders:
                self._orphaned.add(parent)
            self._orphaned.discard(hash_)
            self._holders.setdefault(hash_, []).append(block)
            insort(self._following.setdefault(parent, []), block)
        self.size += len(event.blocks)
        self._order = None

    def evicted(self, event: ev.Evicted) -> None:
        """Take blocks out. Call it before the fold forgets their hashes."""
        pool = self.state.device
        for block in event.blocks:
            hash_, parent = pool.hashes[block], pool.parents[block]
            holders, siblings = self._holders[hash_], self._following[parent]
            holders.remove(block)
            if not holders:
                del self._holders[hash_]
                if hash_ in self._following:
                    self._orphaned.add(hash_)
            del siblings[bisect_left(siblings, block)]
            if not siblings:
                del self._following[parent]
                self._orphaned.discard(parent)
            self._nodes.pop(block, None)
        self.size -= len(event.blocks)
        self._order = None

    def holder(self, hash_: int) -> int | None:
        """The block that is cached under a hash, the oldest if there are several. Changes nothing."""
        holders = self._holders.get(hash_)
        return holders[0] if holders else None

    def nodes(self, most: int = MOST_NODES) -> tuple[PrefixNode, ...]:
        """The first `most` nodes, depth first, parents before children. Keeps them for the next call."""
        moment = self.state.step, self.state.order
        if moment != self._moment or len(self._shown) < min(most, self.size):
            if self._order is None or len(self._order) < min(most, self.size):
                self._order = self._walk(most)
            self._shown, self._moment = tuple(map(self._node, self._order)), moment
        return self._shown[:most]

    def _walk(self, most: int) -> list[int]:
        """Blocks in the order of the tree."""
        hashes, holders, following = self.state.device.hashes, self._holders, self._following
        roots = [*following.get(0, ())]
        for parent in self._orphaned:
            roots += following[parent]
        roots.sort(reverse=True)
        order: list[int] = []
        while roots and len(order) < most:
            block = roots.pop()
            order.append(block)
            below = following.get(hashes[block])
            if below and holders[hashes[block]][0] == block:
                roots += below[::-1]
        return order

    def _node(self, block: int) -> PrefixNode:
        """The node of a block: the one that was shown last if nothing about it has changed."""
        state = self.state
        references, touched = state.device.ref_counts[block], state.device.touched[block]
        hits = state.hits.get(block, 0)
        node = self._nodes.get(block)
        if node is None or (node.ref_count, node.hits, node.touched) != (references, hits, touched):
            contents = state.contents(block)
            assert contents is not None
            tokens, depth = contents
            node = self._nodes[block] = PrefixNode(
                block=block,
                hash=state.device.hashes[block],
                parent=state.device.parents[block] or None,
                depth=depth,
                ref_count=references,
                hits=hits,
                token_ids=tuple(tokens[depth * state.block_size : (depth + 1) * state.block_size]),
                touched=touched,
            )
        return node
