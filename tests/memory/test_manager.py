"""The cache manager's smaller promises: prices, counters, groups placed together, sizes."""

from __future__ import annotations

import pytest

from kvtop.memory import events as ev
from kvtop.memory.cache_manager import CacheManager
from kvtop.memory.errors import AllocatorError, OutOfBlocksError
from kvtop.memory.sizing import blocks_for_budget, blocks_for_tokens, bytes_per_token

A, B, C = [1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]


def test_a_prefill_in_chunks_publishes_no_empty_facts(four):
    table = four.admit(four.table(range(14)))
    for _ in range(7):
        four.store(table, 2)
    assert [event.blocks for event in four.of(ev.Allocated)] == [(0, 1, 2, 3)]
    assert [event.stored for event in four.of(ev.Advanced)] == [2, 4, 6, 8, 10, 12, 14]
    assert [(e.blocks, e.logical) for e in four.of(ev.Cached)] == [((0,), 0), ((1,), 1), ((2,), 2)]


def test_the_price_of_a_step_is_what_its_appends_take(books):
    it = books(12, 4)
    parent = it.admitted([*A, 5, 6])
    it.manager.advance(parent, 0, (7,))
    tables = [parent, *(it.fork(parent, branch) for branch in (1, 2))]
    alone = it.admitted(C)
    it.manager.advance(alone, 0, (1,))
    writes = [(table, 1) for table in (*tables, alone)]
    assert it.manager.append_cost(writes) == 2 + 1
    # Only one of three holders writes: it cannot do so in place. All of them: the last one can.
    assert [it.manager.append_cost(writes[:count]) for count in (1, 2, 3)] == [1, 2, 2]
    before = it.pool.available_blocks
    for table, count in writes:
        it.append(table, count)
    assert before - it.pool.available_blocks == 3


def test_an_almost_empty_queue_serves_exactly_the_copies_that_are_needed(books):
    it = books(4, 4)
    parent = it.admitted([*A, 5, 6])
    it.manager.advance(parent, 0, (7,))
    tables = [parent, *(it.fork(parent, branch) for branch in (1, 2))]
    assert it.pool.available_blocks == 2 == it.manager.append_cost([(table, 1) for table in tables])
    copies = [it.append(table) for table in tables]
    assert copies == [(1, 2), (1, 3), None] and it.pool.available_blocks == 0
    for number, table in enumerate(tables):
        it.write(table, 1, (20 + number,))
    it.check_contents()
    assert it.manager.append_cost([(tables[0], 1)]) == 0


def test_one_block_short_the_second_writer_is_refused_and_the_first_keeps_its_copy(books):
    it = books(3, 4)
    parent = it.admitted([*A, 5, 6])
    it.manager.advance(parent, 0, (7,))
    children = [it.fork(parent, branch) for branch in (1, 2)]
    assert it.append(parent) == (1, 2)
    before = it.columns()
    with pytest.raises(OutOfBlocksError, match=r"1\.1 needs 1 blocks, 0 are available"):
        it.append(children[0])
    assert it.columns() == before
    it.free(children[1])
    assert it.append(children[0]) is None


def test_the_last_holder_writes_in_place_after_the_others_left(four):
    parent = four.admitted([*A, 5, 6])
    four.manager.advance(parent, 0, (7,))
    child = four.fork(parent, 1)
    four.free(parent)
    assert four.append(child) is None and four.manager.cow_copies == 0
    four.write(child, 1)
    four.check_contents()


def test_a_fork_at_a_blocks_end_copies_nothing(four):
    parent = four.admitted(A)
    four.manager.advance(parent, 0, (7,))
    child = four.fork(parent, 1)
    assert four.decode(parent, 8) is None and four.decode(child, 9) is None
    assert list(parent.blocks) == [0, 1] and list(child.blocks) == [0, 2]
    four.check_contents()


def test_a_group_is_placed_with_its_common_beginning_once(books):
    it = books(16, 4, prefix_caching=False)
    tables = [it.table([*A, *B, *C[:2], branch], 1, branch) for branch in (1, 2, 3)]
    plan = it.manager.plan_admission(tables)
    assert plan.blocks_needed == 3 + 1 + 1
    assert [(p.inherited, p.fresh) for p in plan.placements] == [(0, 3), (2, 1), (2, 1)]
    events = len(it.events)
    for table in tables[1:]:
        it.checker.state.requests[1].sequences[table.sequence] = type(
            it.checker.state.sequence(tables[0].sequence)
        )(table.sequence, table.tokens[:], len(table.tokens))
    it.admit(*tables, first=False)
    assert it.kinds(events) == ["Admitted"] * 3 + ["Allocated", "Shared", "Allocated", "Shared", "Allocated"]
    assert [it.counts(table) for table in tables] == [[3, 3, 1]] * 3
    first, second, third = tables
    assert second.source is first and third.source is first and second.awaited == 8
    it.store(first, 7)
    assert second.source is first and second.stored == 0
    it.store(first, 1)
    assert second.source is third.source is None and second.stored == third.stored == 8
    for table in tables:
        it.store(table, 3)
    it.check_contents()


def test_a_sibling_of_a_sibling_waits_for_the_one_it_shares_most_with(books):
    it = books(16, 2, prefix_caching=False)
    texts = [[1, 2, 3, 4, 9], [1, 2, 5, 6, 7, 9], [1, 2, 5, 6, 7, 8, 9]]
    tables = [it.table(tokens, 1, branch) for branch, tokens in enumerate(texts, 1)]
    for table in tables[1:]:
        it.checker.state.requests[1].sequences[table.sequence] = type(
            it.checker.state.sequence(tables[0].sequence)
        )(table.sequence, table.tokens[:], len(table.tokens))
    it.admit(*tables, first=False)
    first, second, third = tables
    assert (second.source, second.awaited) == (first, 2) and (third.source, third.awaited) == (second, 4)
    it.store(first, 2)
    assert second.source is None and second.stored == 2 and third.source is second
    assert it.append(second, 1) is None, "the third waits for this write: no copy"
    it.write(second, 1)
    assert third.stored == 0
    it.store(second, 1)
    assert third.source is None and third.stored == 4
    it.store(third, 3)
    it.store(second, 2)
    it.store(first, 3)
    it.check_contents()


def test_hits_count_once_for_the_first_admission(four):
    four.free(four.admitted([*A, *B, 9]))
    table = four.admit(four.table([*A, *B, 10]))
    assert (four.manager.prefix_queries, four.manager.prefix_hits) == (18, 8)
    four.free(table)
    four.admit(table, first=False)
    assert table.stored == 8 and (four.manager.prefix_queries, four.manager.prefix_hits) == (18, 8)


def test_without_prefix_caching_nothing_is_found_or_kept(books):
    it = books(6, 4, prefix_caching=False)
    it.free(it.admitted([*A, *B, 9]))
    again = it.admit(it.table([*A, *B, 9]))
    assert again.stored == 0 and it.of(ev.Cached) == [] and it.pool.cached_blocks == 0
    assert it.of(ev.Evicted) == []


def test_more_tokens_than_there_are_cannot_be_stored(four):
    table = four.admitted(A)
    for verb in (four.manager.append, four.manager.advance):
        with pytest.raises(AllocatorError):
            four.call(verb, table, 1)
    other = four.table([1, 2])
    with pytest.raises(AllocatorError, match="2 cannot store 2 tokens: it has 2 and 0 blocks of 4"):
        four.call(four.manager.advance, other, 2)


def test_a_pool_of_one_block(books):
    it = books(1, 4, host_blocks=1)
    table = it.admitted([1, 2])
    with pytest.raises(OutOfBlocksError):
        it.admit(it.table([3]))
    it.swap_out(table)
    other = it.admitted([3, 4, 5, 6])
    it.free(other)
    it.swap_in(table)
    assert it.of(ev.Evicted)[0].blocks == (0,)
    it.check_contents()


def test_without_a_host_pool_nothing_can_be_swapped_out(books):
    it = books(2, 4)
    assert not it.manager.can_swap_out([it.admitted([1])])


def test_sizes():
    assert [blocks_for_tokens(tokens, 4) for tokens in (0, 1, 4, 5, 8)] == [0, 1, 1, 2, 2]
    # Llama 2 7B in fp16: half a MiB a token, 8 MiB a block of 16.
    assert bytes_per_token(32, 32, 128, 2) == 524_288
    assert blocks_for_budget(2**30, 16 * 524_288) == 128
    with pytest.raises(ValueError, match="5 bytes do not hold one block of 6 bytes"):
        blocks_for_budget(5, 6)


def test_a_million_blocks_are_columns_not_objects():
    manager = CacheManager(1_000_000, 16)
    pool = manager.pool
    for column in (pool.ref_counts, pool.hashes):
        assert len(column) == 1_000_000 and column.itemsize <= 8
    assert pool.allocate(3) == [0, 1, 2] and pool.available_blocks == 999_997


def test_a_sequence_that_a_sibling_waits_for_is_not_forked(books):
    """Its next write would go to a copy, and the sibling be left with the block that was not written."""
    it = books(8, 2, prefix_caching=False)
    first = it.admitted([1, 2, 3], 1, 1)
    second = it.fork(first, 2)
    for table in (first, second):
        it.call(it.manager.advance, table, 0, (4,))
    it.decode(second, 5)
    for table in (second, first):
        it.free(table)
    it.admit(first, second, first=False)
    assert second.source is first and second.awaited == 4
    it.store(first, 3)
    before = it.columns()
    with pytest.raises(AllocatorError, match=r"1\.1 cannot be forked: 1\.2 waits for it"):
        it.fork(first, 3)
    assert it.columns() == before
    it.store(first, 1, (9,))
    assert second.source is None and second.stored == 4
    it.check_contents()
    it.fork(first, 3)
    it.check_contents()
