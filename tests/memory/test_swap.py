"""Swapping groups whose blocks others share, or half of the group; what comes back, and what stays."""

from __future__ import annotations

import pytest

from kvtop.memory import events as ev
from kvtop.memory.errors import AllocatorError, OutOfBlocksError

A, B = [1, 2, 3, 4], [5, 6, 7, 8]


def test_a_prefix_shared_with_another_request_stays_for_the_other(books):
    it = books(10, 4, host_blocks=10)
    other = it.admitted([*A, *B, 50])
    table = it.admitted([*A, *B, 60, 61])
    assert it.counts(table) == [2, 2, 1]
    it.swap_out(table)
    assert it.counts(other) == [1, 1, 1] and it.pool.used_blocks == 3
    assert it.host_pool.used_blocks == 3, "the host holds a copy of all three"
    it.check_contents()
    it.swap_in(table)
    # Equal blocks are not merged: the group came back with its own.
    assert set(table.blocks).isdisjoint(other.blocks)
    assert it.pool.hashes[table.blocks[0]] == it.pool.hashes[other.blocks[0]] != 0
    it.free(other)
    it.free(table)
    assert it.pool.available_blocks == 10
    it.check_contents()


def test_siblings_that_share_a_part_share_the_same_part_again(books):
    it = books(10, 4, host_blocks=10)
    parent = it.admitted([*A, 5, 6])
    it.manager.advance(parent, 0, (7,))
    child = it.fork(parent, 1)
    it.manager.advance(child, 0, ())
    for step in range(4):
        it.decode(parent, 20 + step)
        it.decode(child, 30 + step)
    shared = [it.counts(table) for table in (parent, child)]
    assert shared == [[2, 1, 1], [2, 1, 1]]
    assert len(it.swap_out(parent, child)) == 5
    it.free(it.admitted(range(100, 140)))
    it.swap_in(parent, child)
    assert [it.counts(table) for table in (parent, child)] == shared
    cached = [it.pool.hashes[block] != 0 for block in parent.blocks]
    assert cached == [True, True, False]
    it.check_contents()


def test_full_blocks_can_be_hit_again_after_the_round_trip(books):
    it = books(6, 4, host_blocks=6)
    table = it.admitted([*A, *B, 9])
    it.swap_out(table)
    it.free(it.admitted(range(100, 124)))
    assert it.manager.cache.find([*A, *B, 9]) == []
    it.swap_in(table)
    assert [node.blocks for node in it.manager.cache.find([*A, *B, 9])] == [
        [table.blocks[0]],
        [table.blocks[1]],
    ]


def test_a_half_prefilled_sequence_comes_back_half_prefilled(books):
    it = books(6, 4, host_blocks=6)
    table = it.admit(it.table(range(10)))
    it.store(table, 5)
    it.swap_out(table)
    it.swap_in(table)
    assert (table.stored, len(table.blocks)) == (5, 3)
    it.store(table, 5)
    it.check_contents()


def test_freed_on_the_host(books):
    it = books(4, 4, host_blocks=8)
    table = it.admitted(range(16))
    it.swap_out(table)
    it.free(table)
    assert it.host_pool.used_blocks == 0 and table.tier is ev.Tier.DEVICE
    assert list(it.host_pool.free_queue) == [3, 2, 1, 0, 4, 5, 6, 7]


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_a_host_pool_larger_than_the_device_pool_is_checked_too(books, blocks):
    it = books(blocks, 4, host_blocks=9)
    filler = it.admitted([7])
    it.swap_out(filler)
    table = it.admitted(range(4 * blocks))
    it.swap_out(table)
    assert max(table.blocks) >= blocks
    it.free(table)
    it.free(filler)
    assert it.host_pool.available_blocks == 9


def test_what_is_on_the_host_neither_grows_nor_forks(books):
    it = books(4, 4, host_blocks=4)
    table = it.admitted(range(4))
    it.manager.advance(table, 0, (9,))
    it.swap_out(table)
    before = it.columns()
    with pytest.raises(AllocatorError, match="not decoding on the device"):
        it.fork(table, 1)
    with pytest.raises(AllocatorError, match="1 is not on the device"):
        it.append(table)
    with pytest.raises(AllocatorError, match="1 is not in the device pool"):
        it.swap_out(table)
    assert it.columns() == before


def test_what_is_on_the_device_is_neither_admitted_nor_swapped_in_again(books):
    it = books(8, 4, host_blocks=8)
    table = it.admitted(range(4))
    plan = it.manager.plan_admission([table])
    before = it.columns()
    with pytest.raises(AllocatorError, match="1 has blocks already"):
        it.call(it.manager.admit, plan, first=True)
    with pytest.raises(AllocatorError, match="1 is not in the host pool"):
        it.swap_in(table)
    assert it.columns() == before


def test_swapping_in_when_the_device_is_full_changes_nothing(books):
    it = books(3, 4, host_blocks=3)
    table = it.admitted(range(12))
    it.swap_out(table)
    other = it.admitted([90])
    assert it.manager.swap_in_cost([table]) == 3
    before = it.columns()
    with pytest.raises(OutOfBlocksError, match="3 blocks asked for, 2 of 3 available"):
        it.swap_in(table)
    assert it.columns() == before
    it.free(other)
    it.swap_in(table)
    it.check_contents()
