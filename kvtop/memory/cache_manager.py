"""Block tables for sequences: admit, append with copy-on-write, advance, fork, free, swap.

The scheduler asks `plan_admission`, `append_cost` and `can_swap_out` (which change nothing) before it
calls the verbs; a verb that raises has changed nothing either. Each verb publishes what it did as events,
so that folding them gives the pools' arrays (invariant I9).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from kvtop.memory.block_pool import BlockPool
from kvtop.memory.block_table import BlockTable
from kvtop.memory.errors import AllocatorError, OutOfBlocksError
from kvtop.memory.events import (
    Admitted,
    Advanced,
    Allocated,
    Cached,
    Copied,
    Event,
    EventBus,
    Forked,
    Released,
    Shared,
    SwappedIn,
    SwappedOut,
    Tier,
    request_of,
)
from kvtop.memory.planning import Admission, Placement, Planner
from kvtop.memory.prefix_cache import HashFunction, PrefixCache, PrefixNode, chain_hash
from kvtop.memory.sizing import blocks_for_tokens
from kvtop.memory.swap import distinct_blocks, move_tables


class CacheManager:
    """The device pool, the host pool, the prefix cache and every block table.

    `host_blocks` may be 0: then nothing can be swapped out. `prefix_caching=False` never finds a prefix,
    and frees everything to the front of the queue.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        *,
        host_blocks: int = 0,
        prefix_caching: bool = True,
        hash_function: HashFunction = chain_hash,
        bus: EventBus | None = None,
    ) -> None:
        self.block_size = block_size
        self.bus = bus or EventBus()
        self.cache = PrefixCache(block_size, hash_function) if prefix_caching else None
        self.pool = BlockPool(num_blocks, block_size, cache=self.cache, bus=self.bus)
        self.host_pool = BlockPool(host_blocks, block_size, tier=Tier.HOST, bus=self.bus)
        self._planner = Planner(self.pool)
        self.tables: dict[int, BlockTable] = {}
        """Sequence id -> table, for every sequence that holds blocks (on the device or on the host)."""
        self._waiters: dict[int, dict[int, tuple[int, BlockTable]]] = {}
        """Sequence -> the siblings that wait for it: sequence -> place in the group, table."""
        self._awaited: dict[int, int] = {}
        """Block -> how many siblings hold it and wait until it is filled."""
        self.cow_copies = 0
        self.prefix_queries = 0
        """Prompt tokens looked up at first admissions."""
        self.prefix_hits = 0
        """Of those, the ones found."""

    def stored_tokens(self, tier: Tier = Tier.DEVICE) -> int:
        """Filled slots of the used blocks of a tier, each physical slot once. Changes nothing.

        All blocks are full but the last ones of each table, so only those are looked at.
        """
        size = self.block_size
        partial: dict[int, int] = {}
        for table in self.tables.values():
            if table.tier is tier:
                # What a sibling computes for it is counted with the sibling.
                own = max(table.stored, table.awaited)
                for logical in range(own // size, len(table.blocks)):
                    block, slots = table.blocks[logical], max(0, table.stored - logical * size)
                    partial[block] = max(partial.get(block, 0), slots)
        pool = self.pool if tier is Tier.DEVICE else self.host_pool
        return pool.used_blocks * size - sum(size - slots for slots in partial.values())

    # -- admission ------------------------------------------------------------------------------------

    def plan_admission(self, tables: Sequence[BlockTable]) -> Admission:
        """How the sequences of a group would be placed: prefix hits first, then blocks of siblings with the
        same beginning, then fresh blocks up to ceil(tokens / block size). Changes no block.

        Asked again for the same group, it costs as much as has changed since.
        """
        return self._planner.plan(tables)

    def admit(self, admission: Admission, *, first: bool) -> None:
        """Give a planned group its blocks. Hits are taken before anything is allocated, so that a group can
        never evict what it is about to read.

        `first` is False for a group that had been preempted; its hits do not count in the hit rate. Raises,
        having changed nothing, OutOfBlocksError when the plan needs more than is available, and
        AllocatorError for a sequence that has blocks already.
        """
        for placement in admission.placements:
            if placement.table.blocks:
                raise AllocatorError(f"{placement.table.name} has blocks already")
        if admission.blocks_needed > self.pool.available_blocks:
            raise OutOfBlocksError(
                f"{admission.blocks_needed} blocks needed, {self.pool.available_blocks} available"
            )
        self._planner.forget()
        for placement in admission.placements:
            self._place_hits(placement, first)
        for place, placement in enumerate(admission.placements):
            self._place_rest(place, placement)
        for placement in admission.placements:
            self._wake_waiters(placement.table)

    def _place_hits(self, placement: Placement, first: bool) -> None:
        table, hits = placement.table, placement.hits
        self.tables[table.sequence] = table
        if placement.source is not None:
            hits = hits[: len(placement.source.chain)]
        hit_tokens = len(hits) * self.block_size
        table.stored = hit_tokens
        if first:
            self.prefix_queries += len(table.tokens)
            self.prefix_hits += hit_tokens
        if self.bus.active:
            self.bus.emit(
                Admitted, request_of(table.sequence), table.sequence, len(table.tokens), hit_tokens, first
            )
        if placement.source is None:
            table.chain = list(hits)
            self._share(table, [node.blocks[0] for node in hits])

    def _place_rest(self, place: int, placement: Placement) -> None:
        table, source = placement.table, placement.source
        if source is not None:
            self._share(table, source.blocks[: placement.inherited])
            table.source = source
            table.awaited = placement.inherited * self.block_size
            self._waiters.setdefault(source.sequence, {})[table.sequence] = place, table
            for block in table.blocks:
                self._awaited[block] = self._awaited.get(block, 0) + 1
        self._extend(table, placement.fresh)

    def _share(self, table: BlockTable, blocks: Sequence[int]) -> None:
        if not blocks:
            return
        self.pool.share(blocks)
        if self.bus.active:
            self.bus.emit(Shared, tuple(blocks), table.sequence, len(table.blocks))
        table.blocks.extend(blocks)

    def _extend(self, table: BlockTable, count: int) -> None:
        if count <= 0:
            return
        blocks = self.pool.allocate(count)
        if self.bus.active:
            self.bus.emit(Allocated, tuple(blocks), table.sequence, len(table.blocks))
        table.blocks.extend(blocks)

    # -- growth ---------------------------------------------------------------------------------------

    def append_cost(self, writes: Iterable[tuple[BlockTable, int]]) -> int:
        """Blocks needed so that each table can store that many more tokens in one step: blocks that the
        tokens start, and copies of shared blocks. Of a block that all its holders write, the last writes in
        place. Changes nothing."""
        needed = 0
        copies: dict[int, int] = {}
        size, references = self.block_size, self.pool.ref_counts
        for table, count in writes:  # every running sequence, in every step: calls are spelt out here
            blocks, stored = table.blocks, table.stored
            fresh = -(-(stored + count) // size) - len(blocks)
            if fresh > 0:
                needed += fresh
            logical = stored // size
            if logical < len(blocks) and references[blocks[logical]] > 1:
                block = blocks[logical]
                copies[block] = min(copies.get(block, 0) + 1, self._holders(block) - 1)
        return needed + sum(copies.values())

    def append(self, table: BlockTable, count: int) -> tuple[int, int] | None:
        """Make the slots of the next `count` tokens writable. A new block only when a token to be stored
        starts one; a shared block that would be written is exchanged for a copy, returned as (source,
        destination): the caller copies its contents before the write.

        Raises OutOfBlocksError, having changed nothing, when `append_cost` is not available, and
        AllocatorError for tokens the sequence does not have, while it is swapped out, or while a sibling
        computes for it.
        """
        if table.tier is not Tier.DEVICE:
            raise AllocatorError(f"{table.name} is not on the device")
        if table.source is not None:
            raise AllocatorError(f"{table.name} waits for {table.source.name}")
        if count > table.pending:
            raise AllocatorError(f"{table.name} has {table.pending} tokens to store, not {count}")
        block = self._written_block(table)
        copies = block is not None and self.pool.ref_counts[block] > 1 and self._holders(block) > 1
        fresh = max(0, blocks_for_tokens(table.stored + count, self.block_size) - len(table.blocks))
        if fresh + copies > self.pool.available_blocks:
            raise OutOfBlocksError(
                f"{table.name} needs {fresh + copies} blocks, {self.pool.available_blocks} are available"
            )
        copy = self._copy_on_write(table, block) if copies and block is not None else None
        self._extend(table, fresh)
        return copy

    def advance(self, table: BlockTable, count: int, token_ids: Sequence[int] = ()) -> None:
        """Record that K/V of the next `count` tokens is stored, and append generated `token_ids`.

        Blocks that became full are cached, and siblings waiting for them go on. Raises AllocatorError,
        having changed nothing, when the slots were never made.
        """
        stored = table.stored + count
        if stored > len(table.tokens) or stored > len(table.blocks) * self.block_size:
            raise AllocatorError(
                f"{table.name} cannot store {stored} tokens: it has {len(table.tokens)} and "
                f"{len(table.blocks)} blocks of {self.block_size}"
            )
        table.stored = stored
        table.tokens.extend(token_ids)
        if self.bus.active:
            self.bus.emit(Advanced, table.sequence, tuple(token_ids), stored)
        if count and self.cache is not None and stored // self.block_size > len(table.chain):
            self._cache_full_blocks(table)
        if self._waiters:
            self._wake_waiters(table)

    def _written_block(self, table: BlockTable) -> int | None:
        """The block that the next token goes to, or None when it starts a new one."""
        logical = table.stored // self.block_size
        return table.blocks[logical] if logical < len(table.blocks) else None

    def _holders(self, block: int) -> int:
        """References to a block that is written next, without those of siblings that wait for the write."""
        return self.pool.ref_counts[block] - self._awaited.get(block, 0)

    def _copy_on_write(self, table: BlockTable, source: int) -> tuple[int, int]:
        logical = table.stored // self.block_size
        (destination,) = self.pool.allocate(1)
        table.blocks[logical] = destination
        self.cow_copies += 1
        if self.bus.active:
            self.bus.emit(Copied, source, destination, table.sequence, logical)
        self.pool.release([source], table.sequence)
        return source, destination

    def _cache_full_blocks(self, table: BlockTable) -> None:
        assert self.cache is not None
        size, chain, cached = self.block_size, table.chain, []
        first = len(chain)
        for logical in range(first, table.stored // size):
            block = table.blocks[logical]
            node = self.cache.node_of(block)
            if node is None:
                parent = chain[-1] if chain else self.cache.root()
                tokens = table.tokens[logical * size : (logical + 1) * size]
                node = self.pool.insert_in_cache(block, parent, tokens)
                cached.append((block, logical, node))
            chain.append(node)
        if cached and self.bus.active:
            self._publish_cached(table, cached)

    def _publish_cached(self, table: BlockTable, cached: list[tuple[int, int, PrefixNode]]) -> None:
        # New entries of one table are consecutive: shared, already cached blocks only stand before them.
        self.bus.emit(
            Cached,
            tuple(block for block, _, _ in cached),
            table.sequence,
            cached[0][1],
            tuple(node.hash for _, _, node in cached),
            tuple(node.parent_hash for _, _, node in cached),
        )

    def _wake_waiters(self, source: BlockTable) -> None:
        """Let siblings whose beginning a sequence has now stored go on from there, and those who wait for
        them, in the order of the group."""
        ready = self._ready(source)
        while ready:
            _, table = heappop(ready)
            assert table.source is not None
            chain, stored = table.source.chain, table.awaited
            self._forget_waiter(table)
            table.stored = stored
            table.chain = chain[: stored // self.block_size]
            if self.bus.active:
                self.bus.emit(Advanced, table.sequence, (), table.stored)
            for waiter in self._ready(table):
                heappush(ready, waiter)

    def _ready(self, source: BlockTable) -> list[tuple[int, BlockTable]]:
        """Those who wait for a sequence that has stored what they wait for, by place in the group."""
        if source.source is not None:
            return []
        waiters = self._waiters.get(source.sequence, {}).values()
        return sorted(waiter for waiter in waiters if source.stored >= waiter[1].awaited)

    def _forget_waiter(self, table: BlockTable) -> None:
        if table.source is None:
            return
        for block in table.blocks[: table.awaited // self.block_size]:
            self._awaited[block] -= 1
            if not self._awaited[block]:
                del self._awaited[block]
        waiters = self._waiters[table.source.sequence]
        del waiters[table.sequence]
        if not waiters:
            del self._waiters[table.source.sequence]
        table.source, table.awaited = None, 0

    # -- sharing and leaving --------------------------------------------------------------------------

    def fork(self, parent: BlockTable, child: BlockTable) -> None:
        """Let `child` (a new, empty table with the parent's tokens) share every block of `parent`.

        Raises AllocatorError, having changed nothing, while the parent is prefilling or off the device, or
        while a sibling waits for what it computes.
        """
        if parent.tier is not Tier.DEVICE or not parent.blocks or parent.pending > 1:
            raise AllocatorError(f"{parent.name} cannot be forked: it is not decoding on the device")
        if child.sequence in self.tables:
            raise AllocatorError(f"{child.name} exists already")
        for _, waiter in self._waiters.get(parent.sequence, {}).values():
            # The parent would go on in a copy, and the sibling keep the block that nobody fills.
            raise AllocatorError(f"{parent.name} cannot be forked: {waiter.name} waits for it")
        self.pool.share(parent.blocks)
        child.blocks = array("i", parent.blocks)
        child.stored = parent.stored
        child.chain = list(parent.chain)
        self.tables[child.sequence] = child
        if self.bus.active:
            self.bus.emit(Forked, parent.sequence, child.sequence)

    def free(self, table: BlockTable) -> None:
        """Give back every block of a sequence, last first. A table without blocks is left as it is.

        Raises DoubleFreeError, having changed nothing, if the pool's counts do not cover the table.
        """
        if not table.blocks:
            return
        pool = self.pool if table.tier is Tier.DEVICE else self.host_pool
        self._release(table, pool)
        self.tables.pop(table.sequence, None)
        self._forget_waiter(table)
        table.blocks = array("i")
        table.stored = 0
        table.chain = []
        table.tier = Tier.DEVICE

    def _release(self, table: BlockTable, pool: BlockPool) -> None:
        blocks = table.blocks[::-1]
        pool.check_release(blocks, table.sequence)
        if self.bus.active:
            self.bus.emit(Released, tuple(blocks), table.sequence, table.tier)
        pool.release(blocks, table.sequence)

    # -- swapping -------------------------------------------------------------------------------------

    def can_swap_out(self, tables: Sequence[BlockTable]) -> bool:
        """Whether the host pool holds a whole group, and none of it waits for a sibling. Changes nothing."""
        waits = any(table.source is not None for table in tables)
        return not waits and len(distinct_blocks(tables)) <= self.host_pool.available_blocks

    def swap_out(self, tables: Sequence[BlockTable]) -> list[tuple[int, int]]:
        """Move a whole group to the host pool; a block that its sequences share stays one block.

        Returns (device block, host block) for each, to be copied. Raises OutOfBlocksError, having changed
        nothing, when `can_swap_out` is False.
        """
        if not self.can_swap_out(tables):
            raise OutOfBlocksError(
                f"{tables[0].name} cannot be swapped out: the host pool is full, or it waits for a sibling"
            )
        return self._swap(tables, self.pool, self.host_pool, SwappedOut)

    def swap_in_cost(self, tables: Sequence[BlockTable]) -> int:
        """Device blocks that a swapped group needs. Changes nothing."""
        return len(distinct_blocks(tables))

    def swap_in(self, tables: Sequence[BlockTable]) -> list[tuple[int, int]]:
        """Move a whole group back to the device, sharing kept; its full blocks are cached again.

        Returns (host block, device block) for each, to be copied. Raises OutOfBlocksError, having changed
        nothing, when the device pool is too full.
        """
        pairs = self._swap(tables, self.host_pool, self.pool, SwappedIn)
        if self.cache is not None:
            for table in tables:
                self._cache_full_blocks(table)
        return pairs

    def _swap(
        self, tables: Sequence[BlockTable], origin: BlockPool, target: BlockPool, kind: type[Event]
    ) -> list[tuple[int, int]]:
        for table in tables:
            if table.tier is not origin.tier:
                raise AllocatorError(f"{table.name} is not in the {origin.tier.value} pool")

        def publish(mapping: dict[int, int]) -> None:
            if self.bus.active:
                sequences = tuple(table.sequence for table in tables)
                self.bus.emit(kind, sequences, tuple(mapping), tuple(mapping.values()))

        return list(move_tables(tables, origin, target, publish).items())
