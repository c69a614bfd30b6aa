"""Exactly which block is taken next: ids, not counts."""

from __future__ import annotations

import pytest

from kvtop.memory import events as ev
from kvtop.memory.free_queue import FreeQueue


def test_blocks_are_taken_in_ascending_order_at_first(four):
    assert four.queue() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert list(four.admit(four.table(range(9))).blocks) == [0, 1, 2]
    assert list(four.admit(four.table(range(20, 24))).blocks) == [3]
    assert four.queue() == [4, 5, 6, 7]


def test_unhashed_blocks_go_to_the_front_last_block_first(books):
    it = books(6, 4, prefix_caching=False)
    a, b = it.admitted(range(8)), it.admitted(range(50, 58))
    it.free(a)
    assert it.queue() == [1, 0, 4, 5]
    it.free(b)
    assert it.queue() == [3, 2, 1, 0, 4, 5]
    assert list(it.admit(it.table(range(10))).blocks) == [3, 2, 1]


def test_hashed_blocks_go_to_the_back_last_block_first(four):
    a = four.admitted(range(8))
    four.free(a)
    assert four.queue() == [2, 3, 4, 5, 6, 7, 1, 0]


def test_a_half_full_last_block_goes_to_the_front_and_the_full_ones_to_the_back(four):
    a = four.admitted(range(10))
    four.free(a)
    assert four.queue() == [2, 3, 4, 5, 6, 7, 1, 0]
    freed = four.of(ev.Freed)
    assert [(event.blocks, event.end) for event in freed] == [
        ((2,), ev.QueueEnd.FRONT),
        ((1, 0), ev.QueueEnd.BACK),
    ]


def test_least_recently_freed_is_evicted_first_and_a_chain_from_its_tail(four):
    old, new = four.admitted(range(12)), four.admitted(range(50, 58))
    four.free(old)
    four.free(new)
    assert four.queue() == [5, 6, 7, 2, 1, 0, 4, 3]
    four.admit(four.table(range(90, 107)))
    assert four.of(ev.Evicted)[-1].blocks == (2, 1)
    # What is left of the old chain is still found: its head.
    assert [node.blocks for node in four.manager.cache.find(range(12))] == [[0]]
    assert len(four.manager.cache.find([*range(50, 58), 1])) == 2


def test_a_touched_block_leaves_the_middle_of_the_queue(four):
    for start in (0, 20, 40):
        four.free(four.admitted(range(start, start + 4)))
    # Each went to the back in turn; block 1 now stands between 0 and 2.
    assert four.queue() == [3, 4, 5, 6, 7, 0, 1, 2]
    four.admit(four.table([20, 21, 22, 23, 99]))
    assert four.queue() == [4, 5, 6, 7, 0, 2]


def test_a_block_used_again_is_evicted_last(four):
    a, b = four.admitted(range(4)), four.admitted(range(20, 24))
    four.free(a)
    four.free(b)
    again = four.admit(four.table([*range(4), 5]))
    four.free(again)
    assert four.queue()[-2:] == [1, 0]


def test_copy_on_write_takes_the_front_block_and_the_last_writer_none(four):
    parent = four.admitted([1, 2, 3, 4, 5, 6])
    four.manager.advance(parent, 0, (7,))
    children = [four.fork(parent, branch) for branch in (1, 2)]
    assert four.queue() == [2, 3, 4, 5, 6, 7]
    assert four.append(parent) == (1, 2)
    assert four.append(children[0]) == (1, 3)
    assert four.append(children[1]) is None
    assert [list(table.blocks) for table in (parent, *children)] == [[0, 2], [0, 3], [0, 1]]
    assert four.queue() == [4, 5, 6, 7]
    assert four.manager.cow_copies == 2


def test_swapping_takes_host_blocks_in_table_order_and_frees_in_reverse(books):
    it = books(6, 4, host_blocks=6, prefix_caching=False)
    table = it.admitted(range(10))
    assert it.swap_out(table) == [(0, 0), (1, 1), (2, 2)]
    assert it.queue() == [2, 1, 0, 3, 4, 5]
    assert it.swap_in(table) == [(0, 2), (1, 1), (2, 0)]
    assert list(table.blocks) == [2, 1, 0]
    assert list(it.host_pool.free_queue) == [2, 1, 0, 3, 4, 5]
    it.check_contents()


def test_the_hit_of_two_equal_blocks_is_the_older_one(four):
    tables = [four.admit(four.table([1, 2, 3, 4, 9])) for _ in range(2)]
    for table in tables:
        four.store(table, 5)
    assert [list(table.blocks) for table in tables] == [[0, 1], [2, 3]]
    assert list(four.admit(four.table([1, 2, 3, 4, 5])).blocks) == [0, 4]


def test_the_queue_alone():
    queue = FreeQueue(6)
    assert queue.pop_front(5) == [0, 1, 2, 3, 4]
    queue.push_front([4, 0])
    queue.push_back([2, 1])
    queue.push_back([3])
    assert (list(queue), list(queue.eviction_order()), len(queue)) == ([4, 0, 5, 2, 1, 3], [2, 1, 3], 6)
    queue.remove(1)
    assert (list(queue), len(queue)) == ([4, 0, 5, 2, 3], 5)
    assert queue.pop_front(1) == [4]
    assert queue.pop_front(3) == [0, 5, 2]
    assert (list(queue), len(queue)) == ([3], 1)
    queue.push_back([1])
    assert queue.pop_front(1) == [3]
    queue.remove(1)
    assert (list(queue), len(queue), queue.pop_front(0)) == ([], 0, [])
    queue.push_back([3, 1])
    queue.push_front([])
    assert list(queue) == [3, 1]


@pytest.mark.parametrize("capacity", [0, 1])
def test_the_smallest_queues(capacity):
    queue = FreeQueue(capacity)
    assert list(queue) == list(range(capacity))
    assert queue.pop_front(capacity) == list(range(capacity))
    queue.push_back(list(range(capacity)))
    assert list(queue) == list(range(capacity))
