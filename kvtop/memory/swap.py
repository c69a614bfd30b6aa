"""Moving a whole group between the device pool and the host pool, with what its sequences share."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from kvtop.memory.block_pool import BlockPool
from kvtop.memory.block_table import BlockTable


def distinct_blocks(tables: Sequence[BlockTable]) -> list[int]:
    """The blocks of a group, each once, in table order. Changes nothing."""
    return list(dict.fromkeys(block for table in tables for block in table.blocks))


def move_tables(
    tables: Sequence[BlockTable],
    origin: BlockPool,
    target: BlockPool,
    publish: Callable[[dict[int, int]], None],
) -> dict[int, int]:
    """Move every table entry from `origin` to a fresh block of `target`; three shared blocks stay three.

    Calls `publish` with the map, old block to new, once the new ones are taken and before the old ones are
    given back, so that events come in that order. Raises OutOfBlocksError, having changed nothing, when
    `target` is too full.
    """
    distinct = distinct_blocks(tables)
    mapping = dict(zip(distinct, target.allocate(len(distinct)), strict=True))
    publish(mapping)
    moved = [array("i", [mapping[block] for block in table.blocks]) for table in tables]
    seen: set[int] = set()
    for blocks in moved:
        # A fresh block comes with one reference: that of the first table that holds it.
        target.share([block for block in blocks if block in seen])
        seen.update(blocks)
    for table, blocks in zip(tables, moved, strict=True):
        origin.release(table.blocks[::-1], table.sequence)
        table.blocks = blocks
        table.tier = target.tier
        table.chain = []
    return mapping
