"""Scenarios drawn from what broke in other engines, block size 4: 1 to 6 and 8, which need no scheduler.

The others (7, 9 to 12) are in `tests/scheduling/test_scenarios.py`; their numbers are the same list's.
"""

from __future__ import annotations

import pytest

from kvtop.memory import events as ev
from kvtop.memory.errors import AllocatorError, DoubleFreeError, OutOfBlocksError

A, B, C, D = [1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]


@pytest.mark.parametrize("caching", [True, False])
def test_01_double_free_in_one_call(books, caching):
    it = books(8, 4, prefix_caching=caching)
    it.bus.begin_step(7)
    it.admitted(A + B)
    before = it.columns()
    with pytest.raises(
        DoubleFreeError, match=r"block 1 of the device pool .* by sequence 1\.2 at step 7: count 1"
    ):
        it.call(it.pool.release, [1, 1], ev.sequence_id(1, 2))
    assert it.columns() == before


def test_01_double_free_in_two_calls(four):
    table = four.admitted(A + B)
    blocks = list(table.blocks)
    four.free(table)
    four.bus.begin_step(9)
    before = four.columns()
    with pytest.raises(DoubleFreeError, match=r"block 1 of the device pool .* sequence 1 at step 9: count 0"):
        four.call(four.pool.release, blocks[::-1], table.sequence)
    assert four.columns() == before
    # The pool goes on as if nothing had happened.
    four.admitted(C)
    four.check_contents()


def test_01_double_free_of_a_shared_block_is_found_at_the_third_release(four):
    parent = four.admitted(A)
    four.fork(parent, 1)
    before = four.columns()
    with pytest.raises(DoubleFreeError, match=r"block 0 .* count 2"):
        four.call(four.pool.release, [0, 0, 0], parent.sequence)
    assert four.columns() == before


def test_01_double_free_behind_good_blocks_changes_none_of_them(four):
    a, b = four.admitted(A + B), four.admitted(C)
    four.free(b)
    before = four.columns()
    with pytest.raises(DoubleFreeError, match="block 2 "):
        four.call(four.pool.release, [1, 0, 2], a.sequence)
    assert four.columns() == before


def test_02_evict_under_a_reader(books):
    it = books(5, 4)
    it.free(it.admitted(A + B))
    holders = [it.admitted([50 + i]) for i in range(2)]
    # b0 and b1 are cached, one more is free; the newcomer hits both and needs two new ones.
    assert (it.pool.cached_blocks, it.pool.available_blocks) == (2, 3)
    newcomer = it.table([*A, *B, *C, 1])
    plan = it.manager.plan_admission([newcomer])
    assert plan.blocks_needed == 4
    before, heard = it.columns(), len(it.events)
    with pytest.raises(OutOfBlocksError, match="4 blocks needed, 3 available"):
        it.call(it.manager.admit, plan, first=True)
    assert it.columns() == before and it.of(ev.Evicted) == []
    it.free(holders.pop())
    heard = len(it.events)
    it.admit(newcomer)
    assert it.kinds(heard) == ["Admitted", "Shared", "Allocated"]
    shared, allocated = it.events[heard + 1 :]
    assert (shared.blocks, allocated.blocks) == ((0, 1), (3, 4))
    assert newcomer.stored == 8 and it.of(ev.Evicted) == []
    it.check_contents()


def test_02_hit_blocks_at_the_very_front_are_touched_before_new_ones_are_popped(books):
    it = books(4, 4)
    it.free(it.admitted(A + B))
    keeper = it.admitted([77, 78])
    other = it.admitted([88, 89])
    assert it.queue() == [1, 0]
    it.free(other)
    it.free(keeper)
    assert it.queue() == [2, 3, 1, 0]
    table = it.admit(it.table([*A, *B, *C, 1]))
    assert list(table.blocks) == [0, 1, 2, 3] and it.of(ev.Evicted) == []


@pytest.mark.parametrize(("prompt", "blocks"), [(7, 2), (8, 2), (9, 3)])
def test_03_boundaries_at_admission(four, prompt, blocks):
    table = four.admitted(range(prompt))
    assert len(table.blocks) == blocks


@pytest.mark.parametrize(
    ("prompt", "growth"), [(7, [2, 3, 3, 3, 3, 4]), (8, [3, 3, 3, 3, 4]), (9, [3, 3, 3, 4])]
)
def test_03_boundaries_a_block_comes_with_the_token_that_starts_it(books, prompt, growth):
    it = books(8, 4)
    table = it.admitted(range(prompt))
    it.manager.advance(table, 0, (100,))
    lengths = []
    for token in range(len(growth)):
        it.append(table)
        lengths.append(len(table.blocks))
        it.write(table, 1, (200 + token,))
    assert lengths == growth
    it.check_contents()


@pytest.mark.parametrize("k", [1, 2, 3])
def test_03_boundaries_a_repeated_prompt_of_4k_hits_all_but_its_last_block(four, k):
    prompt = list(range(4 * k))
    four.free(four.admitted(prompt))
    again = four.table(prompt)
    four.admit(again)
    # The last block is computed again, for the logits of its last token.
    assert again.stored == 4 * (k - 1) and again.pending == 4
    assert four.of(ev.Admitted)[-1].prefix_hit_tokens == 4 * (k - 1)
    assert (four.manager.prefix_queries, four.manager.prefix_hits) == (8 * k, 4 * (k - 1))
    four.store(again, 4)
    four.check_contents()


@pytest.mark.parametrize(("prompt", "hits"), [(7, 4), (9, 8), (11, 8)])
def test_03_boundaries_hits_are_whole_blocks(four, prompt, hits):
    four.free(four.admitted(range(prompt)))
    assert four.admit(four.table(range(prompt))).stored == hits


def test_04_stale_hash(books):
    it = books(2, 4)
    it.free(it.admitted(A))
    it.free(it.admitted([*B, *C]))
    kinds = it.kinds()
    assert it.of(ev.Evicted)[0].blocks == (0,)
    assert kinds.index("Evicted") == kinds.index("Allocated", kinds.index("Freed")) - 1
    assert it.manager.cache.find([*A, 1]) == []
    again = it.admit(it.table([*A, 1]))
    assert again.stored == 0 and it.manager.prefix_hits == 0
    it.store(again, 5)
    it.check_contents()


def test_05_equal_prompts_in_one_step(books):
    it = books(5, 4)
    first, second = (it.admit(it.table([*A, 1])) for _ in range(2))
    # Both are computed: neither block is full while the other is planned.
    assert first.stored == second.stored == 0
    it.store(first, 5)
    it.store(second, 5)
    (one, copy) = first.blocks[0], second.blocks[0]
    assert one != copy and it.pool.hashes[one] == it.pool.hashes[copy] != 0
    it.free(first)
    it.free(second)
    filler = it.admitted([*range(60, 76)])
    assert it.of(ev.Evicted)[-1].blocks == (one,)
    # One copy is gone, the hit is not.
    hit = it.manager.cache.find([*A, 1])
    assert [node.blocks for node in hit] == [[copy]]
    it.free(filler)
    it.admitted(range(80, 99))
    assert it.manager.cache.find([*A, 1]) == []


@pytest.mark.parametrize("hash_", [1, -5])
def test_06_hash_collision(books, hash_):
    it = books(12, 4, hash_function=lambda parent, content: hash_)
    it.free(it.admitted(A + B))
    other = it.admit(it.table([*C, *D, 1]))
    assert other.stored == 0, "another prompt's K/V"
    it.store(other, 9)
    # The same tokens behind another beginning are another block, too.
    crossed = it.admit(it.table([*A, *D, 1]))
    assert crossed.stored == 4
    it.store(crossed, 5)
    it.check_contents()
    # And the right ones are still found among their namesakes, also when some are evicted.
    assert len(it.manager.cache.find([*A, *B, 1])) == len(it.manager.cache.find([*C, *D, 1])) == 2
    it.free(other)
    it.free(crossed)
    it.admitted(range(100, 148 - 8))
    it.check_contents()


def test_08_swap_keeps_sharing(books):
    it = books(8, 4, host_blocks=4)
    parent = it.admitted([*A, *B, 9, 10])
    child = it.fork(parent, 1)
    assert list(parent.blocks) == list(child.blocks) == [0, 1, 2]
    pairs = it.swap_out(parent, child)
    assert pairs == [(0, 0), (1, 1), (2, 2)]
    assert it.of(ev.SwappedOut)[0].sequences == (parent.sequence, child.sequence)
    assert (it.pool.used_blocks, it.host_pool.used_blocks) == (0, 3)
    assert it.counts(parent) == it.counts(child) == [2, 2, 2]
    assert it.manager.stored_tokens(ev.Tier.HOST) == 10 and it.host_pool.shared_blocks == 3
    it.check_contents()
    # Everything on the device is overwritten meanwhile.
    it.free(it.admitted(range(100, 132)))
    assert len(it.swap_in(parent, child)) == 3
    assert (it.pool.used_blocks, it.host_pool.used_blocks) == (3, 0)
    assert it.counts(parent) == it.counts(child) == [2, 2, 2]
    assert list(parent.blocks) == list(child.blocks)
    it.check_contents()
    # Both go on, the first with a copy.
    for number, table in enumerate((parent, child)):
        it.manager.advance(table, 0, (20 + number,))
    assert it.decode(parent, 30) is not None and it.decode(child, 31) is None
    it.check_contents()


def test_08_swap_to_a_full_host_is_refused_with_nothing_changed(books):
    it = books(8, 4, host_blocks=2)
    table = it.admitted([*A, *B, 9])
    assert not it.manager.can_swap_out([table])
    before = it.columns()
    with pytest.raises(OutOfBlocksError, match="1 cannot be swapped out"):
        it.call(it.manager.swap_out, [table])
    assert it.columns() == before


def test_refused_calls_change_nothing(four):
    table = four.admitted([*A, *B])
    waiting = four.table([1, 2])
    before = four.columns()
    for verb, arguments in [
        (four.manager.append, (table, 1)),
        (four.manager.advance, (table, 1)),
        (four.manager.fork, (waiting, four.table([1, 2], 2, 1))),
        (four.manager.fork, (table, table)),
        (four.pool.allocate, (7,)),
        (four.pool.share, ([0, 5],)),
    ]:
        with pytest.raises(AllocatorError):
            four.call(verb, *arguments)
        assert four.columns() == before


def test_freeing_a_sequence_twice_does_nothing_more(four):
    table = four.admitted(A)
    four.free(table)
    before, heard = four.columns(), len(four.events)
    four.free(table)
    assert four.columns() == before and len(four.events) == heard
