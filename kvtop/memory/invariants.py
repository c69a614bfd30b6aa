"""What must hold of the memory's books: I1 to I7, and I9 over arrays; I8 watches progress over steps.

Each function raises InvariantError with the invariant's name and the block, sequence or request that
breaks it. All are linear in what they look at, so a check after every call costs as much as the pool is
large: `check_manager` of 512 blocks takes about half a millisecond.

| | statement | verified by |
| --- | --- | --- |
| I1 | free + used = all blocks, and the queue's length is its walk | `check_pool` |
| I2 | a block's reference count is the number of table entries that point at it | `check_tables` |
| I3 | a block is in the free queue exactly when its reference count is 0 | `check_pool` |
| I4 | a hash names a full block that holds those tokens; nothing is queued twice | `check_cache` |
| I5 | a block being written has no hash, and nobody else who has stored anything in it | `check_writable` |
| I6 | at a step's end a table has ceil(max(stored, admitted) / block size) entries | `check_lengths` |
| I7 | at a step's end a request is in exactly one queue, in the state of that queue | `check_queues` |
| I8 | within K steps some request gains a token, ends, or is rejected | `ProgressWatch` |
| I9 | events folded from the start give the pools' arrays, bit for bit | `check_columns` |
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from kvtop.memory.block_pool import BlockPool
from kvtop.memory.block_table import BlockTable
from kvtop.memory.cache_manager import CacheManager
from kvtop.memory.errors import InvariantError
from kvtop.memory.events import Tier
from kvtop.memory.free_queue import FreeQueue
from kvtop.memory.sizing import blocks_for_tokens


class Columns(Protocol):
    """Anything that has a pool's arrays: the pool itself, or the fold of its events."""

    free_queue: FreeQueue
    ref_counts: array[int]
    hashes: array[int]


def check_manager(manager: CacheManager) -> None:
    """I1 to I4 for both pools and every table. Changes nothing."""
    for pool in (manager.pool, manager.host_pool):
        check_pool(pool)
    check_tables(manager)
    check_cache(manager)


def check_pool(pool: BlockPool) -> None:
    """I1 and I3, and the counters that the pool keeps along the way."""
    walked = list(pool.free_queue)
    name = f"the {pool.tier.value} pool"
    if len(walked) != len(pool.free_queue):
        raise InvariantError(f"I1: {name} queues {len(walked)} blocks but counts {len(pool.free_queue)}")
    if len(set(walked)) != len(walked):
        raise InvariantError(f"I4: {name} queues a block twice")
    queued = set(walked)
    for block, count in enumerate(pool.ref_counts):
        if count < 0:
            raise InvariantError(f"I2: block {block} of {name} has reference count {count}")
        if (count == 0) != (block in queued):
            where = "is" if block in queued else "is not"
            raise InvariantError(
                f"I3: block {block} of {name} has reference count {count} and {where} queued"
            )
    used = [block for block, count in enumerate(pool.ref_counts) if count]
    _agree(name, "used blocks", pool.used_blocks, len(used))
    _agree(name, "shared blocks", pool.shared_blocks, sum(pool.ref_counts[block] > 1 for block in used))
    _agree(name, "cached blocks", pool.cached_blocks, sum(bool(pool.hashes[block]) for block in walked))
    for place, block in enumerate(walked):
        if bool(pool.hashes[block]) != (place >= len(pool.free_queue.stack)):
            what = "a cached" if pool.hashes[block] else "an empty"
            raise InvariantError(f"I4: {name} queues block {block}, {what} one, among the others")


def _agree(name: str, what: str, counted: int, actual: int) -> None:
    if counted != actual:
        raise InvariantError(f"I1: {name} counts {counted} {what}, its columns say {actual}")


def check_tables(manager: CacheManager) -> None:
    """I2: reference counts are table entries, on the device and on the host alike."""
    for pool in (manager.pool, manager.host_pool):
        entries: Counter[int] = Counter()
        for table in manager.tables.values():
            if table.tier is pool.tier:
                entries.update(table.blocks)
        for block, count in enumerate(pool.ref_counts):
            if entries[block] != count:
                raise InvariantError(
                    f"I2: block {block} of the {pool.tier.value} pool has reference count {count}, "
                    f"but {entries[block]} table entries point at it"
                )


def check_cache(manager: CacheManager) -> None:
    """I4: a hash names a full block, under the tokens that the tables say it holds."""
    pool, cache = manager.pool, manager.cache
    for block, hash_ in enumerate(pool.hashes):
        node = cache.node_of(block) if cache is not None else None
        if bool(hash_) != (node is not None) or (node is not None and node.hash != hash_):
            raise InvariantError(f"I4: block {block} has hash {hash_:x}, the prefix cache disagrees")
    if cache is None:
        return
    size = manager.block_size
    for table in manager.tables.values():
        if table.tier is not Tier.DEVICE:
            continue
        for logical in range(table.stored // size):
            node = cache.node_of(table.blocks[logical])
            held = table.tokens[logical * size : (logical + 1) * size].tobytes()
            if node is not None and node.content != held:
                raise InvariantError(
                    f"I4: block {table.blocks[logical]} is cached as other tokens than {table.name} holds"
                )


def check_writable(manager: CacheManager, table: BlockTable, count: int) -> None:
    """I5, between `append` and `advance`: the slots of the next `count` tokens are the sequence's own.

    Siblings of a group that is being recomputed may hold the block already; they have stored nothing in it
    and wait until it is full.
    """
    size, pool = manager.block_size, manager.pool
    for logical in range(table.stored // size, blocks_for_tokens(table.stored + count, size)):
        block = table.blocks[logical]
        if pool.hashes[block]:
            raise InvariantError(f"I5: {table.name} writes block {block}, which is cached")
        if pool.ref_counts[block] == 1:
            continue
        for other in manager.tables.values():
            if other is table or other.tier is not Tier.DEVICE or other.source is not None:
                continue
            if block in other.blocks:
                raise InvariantError(f"I5: {table.name} writes block {block}, which {other.name} reads")


def check_lengths(tables: Iterable[BlockTable], admitted: Mapping[int, int], block_size: int) -> None:
    """I6, at a step's end. `admitted` maps a sequence to the tokens it was last admitted with."""
    for table in tables:
        wanted = blocks_for_tokens(max(table.stored, admitted.get(table.sequence, 0)), block_size)
        if len(table.blocks) != wanted:
            raise InvariantError(
                f"I6: {table.name} has {len(table.blocks)} blocks for {table.stored} tokens, not {wanted}"
            )


def check_queues(queues: Mapping[str, Sequence[int]], live: Mapping[int, str]) -> None:
    """I7, at a step's end. `queues` names each queue's requests, `live` each live request's state."""
    places: dict[int, list[str]] = {request: [] for request in live}
    for queue, requests in queues.items():
        for request in requests:
            places.setdefault(request, []).append(queue)
    for request, queued in places.items():
        if request not in live:
            raise InvariantError(f"I7: request {request} has ended but is queued as {queued[0]}")
        if queued != [live[request]]:
            raise InvariantError(
                f"I7: request {request} is {live[request]} but queued as {queued or 'nothing'}"
            )


def check_columns(pool: Columns, folded: Columns, tier: Tier, blocks: Iterable[int] | None = None) -> None:
    """I9: the fold's columns equal the pool's. With `blocks`, only theirs; else all, bit for bit."""
    columns = ("ref_counts", "hashes")
    pairs = [(name, getattr(pool, name), getattr(folded, name)) for name in columns]
    pairs += [
        (f"queue {link}", getattr(pool.free_queue, link), getattr(folded.free_queue, link)) for link in _LINKS
    ]
    if pool.free_queue.stack != folded.free_queue.stack:
        raise InvariantError(
            f"I9: the empty blocks of the {tier.value} pool are not queued as the events say"
        )
    for name, ours, theirs in pairs:
        if blocks is None and ours == theirs:
            continue
        for block in blocks if blocks is not None else range(len(ours)):
            if ours[block] != theirs[block]:
                raise InvariantError(
                    f"I9: {name} of block {block} of the {tier.value} pool is {ours[block]}, "
                    f"the events say {theirs[block]}"
                )


_LINKS = ("next", "prev")


class ProgressWatch:
    """I8: raises when for `patience` steps no request has gained a token, ended or been rejected."""

    def __init__(self, patience: int = 64) -> None:
        self.patience = patience
        self._progress = -1
        self._since = 0

    def step_ended(self, step: int, progress: int, live: Sequence[int]) -> None:
        """`progress` counts tokens and ends since the start; `live` lists live requests."""
        if progress != self._progress or not live:
            self._progress, self._since = progress, step
        elif step - self._since >= self.patience:
            names = ", ".join(str(request) for request in live[:8])
            raise InvariantError(f"I8: no progress since step {self._since}; live requests: {names}")
