"""How a waiting group would be placed: the cached blocks that it begins with, and what its sequences share.

A group waits for many steps, and in most of them nothing that concerns it changes. So its beginnings are
looked up once and kept up to date while it is the next in line: the pool tells which cached blocks are taken,
freed and evicted, and a look at the first block that was not cached tells whether the chain goes on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kvtop.memory.block_pool import BlockPool
from kvtop.memory.block_table import BlockTable
from kvtop.memory.prefix_cache import PrefixCache, PrefixNode
from kvtop.memory.sizing import blocks_for_tokens


class Placement(NamedTuple):
    """How one sequence of a group would get its blocks."""

    table: BlockTable
    hits: Sequence[PrefixNode]
    """Cached full blocks that its tokens begin with."""
    source: BlockTable | None
    """An earlier sibling that shares, and computes, its first `inherited` blocks."""
    inherited: int
    fresh: int
    """Blocks to allocate."""


class Admission(NamedTuple):
    """A plan for a whole group; valid until the memory changes."""

    placements: tuple[Placement, ...]
    blocks_needed: int
    """Blocks that leave the free queue: fresh ones, and hits that nobody references now."""


class Planner:
    """Plans the admission of one group at a time, and watches the pool for it until another is planned."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._beginnings: list[_Beginning] = []
        self._plan = Admission((), 0)
        self._stale = True

    def plan(self, tables: Sequence[BlockTable]) -> Admission:
        """The plan for a group. Changes nothing but what is remembered of the group.

        The first time it costs as much as the group has tokens, later as much as has changed since.
        """
        if not self._knows(tables):
            self._begin(tables)
        cache = self._pool.cache
        if cache is not None:
            for beginning in self._beginnings:
                self._stale |= beginning.extend(cache, self._pool)
        if self._stale:
            self._plan = self._placed()
            self._stale = False
        return self._plan

    def forget(self) -> None:
        """Watch no longer: the group is being admitted."""
        self._beginnings = []
        self._pool.watcher = None

    # -- what the pool tells ------------------------------------------------------------------------------

    def taken(self, blocks: Iterable[int]) -> None:
        """Cached blocks are referenced again."""
        for beginning in self._beginnings:
            if not beginning.idle.isdisjoint(blocks):
                beginning.idle.difference_update(blocks)
                self._stale = True

    def freed(self, blocks: Iterable[int]) -> None:
        """Cached blocks are referenced no longer."""
        for beginning in self._beginnings:
            if not beginning.places.keys().isdisjoint(blocks):
                beginning.idle.update(beginning.places.keys() & blocks)
                self._stale = True

    def evicted(self, blocks: Iterable[int]) -> None:
        """Blocks are cached no longer."""
        for beginning in self._beginnings:
            for block in blocks:
                self._stale |= beginning.cut(block)

    # -- planning -----------------------------------------------------------------------------------------

    def _knows(self, tables: Sequence[BlockTable]) -> bool:
        known = self._beginnings
        return len(known) == len(tables) and all(
            beginning.table is table and beginning.length == len(table.tokens)
            for beginning, table in zip(known, tables, strict=True)
        )

    def _begin(self, tables: Sequence[BlockTable]) -> None:
        self._beginnings = []
        hashes: dict[int, array[int]] = {}
        for table, (source, inherited) in zip(
            tables, common_beginnings(tables, self._pool.block_size), strict=True
        ):
            beginning = _Beginning(table, source, inherited)
            if source is not None:
                beginning.hashes = hashes[source.sequence][:inherited]
            if self._pool.cache is not None:
                beginning.extend(self._pool.cache, self._pool)
            hashes[table.sequence] = beginning.hashes
            self._beginnings.append(beginning)
        self._pool.watcher = self
        self._stale = True

    def _placed(self) -> Admission:
        placements: list[Placement] = []
        idle: list[set[int]] = []
        for beginning in self._beginnings:
            hits, source, inherited = beginning.chain, beginning.source, beginning.inherited
            if inherited <= len(hits):
                source, inherited = None, 0
                idle.append(beginning.idle)
            have = max(len(hits), inherited)
            fresh = blocks_for_tokens(beginning.length, self._pool.block_size) - have
            placements.append(Placement(beginning.table, hits, source, inherited, fresh))
        idle_hits = len(idle[0]) if len(idle) == 1 else len(set[int]().union(*idle))
        return Admission(tuple(placements), idle_hits + sum(placement.fresh for placement in placements))


class _Beginning:
    """The longest chain of cached full blocks that a sequence's tokens begin with."""

    __slots__ = ("chain", "hashes", "idle", "inherited", "length", "places", "source", "table")

    def __init__(self, table: BlockTable, source: BlockTable | None, inherited: int) -> None:
        self.table = table
        self.length = len(table.tokens)
        self.source = source
        """The sibling with the longest common beginning, of `inherited` full blocks."""
        self.inherited = inherited
        self.hashes: array[int] = array("q")
        """Of its full blocks, as far as they were asked for: they never change."""
        self.chain: list[PrefixNode] = []
        self.places: dict[int, int] = {}
        """Block -> its place in the chain, in the order of the chain."""
        self.idle: set[int] = set()
        """Those of the blocks that nobody references."""

    def extend(self, cache: PrefixCache, pool: BlockPool) -> bool:
        """Follow the chain as far as it is cached. Returns whether it has grown."""
        before = len(self.chain)
        cache.follow(self.chain, self.hashes, self.table.tokens)
        for place in range(before, len(self.chain)):
            block = self.chain[place].blocks[0]
            self.places[block] = place
            if not pool.ref_counts[block]:
                self.idle.add(block)
        return len(self.chain) > before

    def cut(self, block: int) -> bool:
        """End the chain before `block`. Returns whether that was in it."""
        place = self.places.get(block)
        if place is None:
            return False
        del self.chain[place:]
        while len(self.places) > place:
            self.idle.discard(self.places.popitem()[0])
        return True


def common_beginnings(tables: Sequence[BlockTable], block_size: int) -> list[tuple[BlockTable | None, int]]:
    """For each sequence the earlier one with the longest common beginning (the first of several), and its
    length in full blocks. Never all tokens of a sequence: at least one is left to compute. Changes nothing.

    The sequences are followed through a tree of their blocks, so the cost is the number of their blocks.
    """
    if len(tables) == 1:
        return [(None, 0)]
    followers: dict[tuple[int, bytes], int] = {}
    first: list[BlockTable | None] = [None]
    """Of each node of the tree, the first sequence that came by; the root is node 0."""
    found = []
    for table in tables:
        source, common, node = None, 0, 0
        content, width = table.tokens.tobytes(), block_size * table.tokens.itemsize
        for logical in range(len(table.tokens) // block_size):
            step = (node, content[logical * width : (logical + 1) * width])
            known = followers.get(step)
            if known is None:
                known = followers[step] = len(first)
                first.append(table)
            elif (logical + 1) * block_size < len(table.tokens):
                source, common = first[known], logical + 1
            node = known
        found.append((source, common))
    return found
