"""What the observer adds to the fold: trace, flashes, reads, preemptions and the tree of prefixes."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from kvtop.engine.runner import CacheReads
from kvtop.memory import events as ev
from kvtop.memory.events import PreemptionMode, sequence_id
from kvtop.timeline.observer import Observer
from kvtop.timeline.snapshot import FlashKind, Source
from kvtop.workload.request import Request

BLOCKS, BLOCK_SIZE, HOST = 14, 4, 6
SOURCE = Source("live", "none", None, None, None, BLOCK_SIZE, None, None, "test", 1, "swap", 8)


def observed(recorded):
    """An observer of a run that has not begun."""
    observer = Observer(BLOCKS, BLOCK_SIZE, HOST)
    recorded.manager.bus.subscribe(observer.hear)
    return observer


def seen(observer, **wishes):
    return observer.snapshot(SOURCE, **wishes)


def request(number, prompt, new=8, **fields):
    return Request(id=number, prompt_token_ids=tuple(prompt), max_new_tokens=new, seed=number, **fields)


@pytest.fixture
def stepped(events):
    """The run in which everything happened, told to an observer, with a snapshot after every step."""
    observer, snapshots = Observer(BLOCKS, BLOCK_SIZE, HOST), []
    for event in events:
        observer.hear(event)
        if isinstance(event, ev.StepEnded):
            snapshots.append(seen(observer, prefixes=True))
    return snapshots


# -- trace and flashes ------------------------------------------------------------------------------------


def test_the_trace_has_everything_but_advances_and_beginnings(events):
    observer = Observer(BLOCKS, BLOCK_SIZE, HOST)
    for event in events:
        observer.hear(event)
    expected = [event for event in events if not isinstance(event, ev.Advanced | ev.StepBegan)]
    assert seen(observer).trace == tuple(expected)


def test_the_trace_keeps_the_newest():
    observer = Observer(BLOCKS, BLOCK_SIZE, HOST)
    for step in range(1, 1300):
        observer.hear(ev.StepBegan(step, 0))
        observer.hear(ev.StepEnded(step, 1, 0, 0, 0.0, 0.0, 0.0))
    trace = seen(observer).trace
    assert len(trace) == 1024 and trace[-1].step == 1299 and trace[0].step == 1299 - 1023


def test_copies_evictions_and_preemptions_flash(events):
    observer = Observer(BLOCKS, BLOCK_SIZE, HOST)
    for event in events:
        observer.hear(event)
        if isinstance(event, ev.Preempted):
            assert seen(observer).flashes[-1].kind is FlashKind.PREEMPTED
        elif isinstance(event, ev.Copied):
            assert seen(observer).flashes[-1].blocks == (event.destination,)
            assert seen(observer).flashes[-1].kind is FlashKind.COPIED
        elif isinstance(event, ev.Evicted):
            assert seen(observer).flashes[-1].blocks == event.blocks
            assert seen(observer).flashes[-1].kind is FlashKind.EVICTED
    flashes = seen(observer).flashes
    assert [flash.serial for flash in flashes] == list(range(1, len(flashes) + 1))
    kinds = Counter(type(event) for event in events)
    assert Counter(flash.kind for flash in flashes) == {
        FlashKind.COPIED: kinds[ev.Copied],
        FlashKind.EVICTED: kinds[ev.Evicted],
        FlashKind.PREEMPTED: kinds[ev.Preempted],
    }


@pytest.mark.parametrize("mode", [PreemptionMode.SWAP, PreemptionMode.RECOMPUTE])
def test_a_preempted_group_flashes_with_every_block_it_gave_up(recorded, mode):
    observer = observed(recorded)
    recorded.engine.add(request(1, range(9), n=2))
    for _ in range(3):
        recorded.engine.step()
    rows = seen(observer).sequences
    held = {int(block) for row in rows for block in row.table}
    assert len(rows) == 2 and len(held) < sum(row.blocks for row in rows), "some must be shared"
    assert recorded.scheduler.preempt(1, mode) is mode
    flash = seen(observer).flashes[-1]
    assert flash.kind is FlashKind.PREEMPTED
    assert set(flash.blocks) == held and len(flash.blocks) == len(held)


@pytest.mark.parametrize("mode", [PreemptionMode.SWAP, PreemptionMode.RECOMPUTE])
def test_what_others_still_hold_does_not_flash_with_a_preemption(recorded, mode):
    observer = observed(recorded)
    for number in (1, 2):
        recorded.engine.add(request(number, range(9)))
        for _ in range(2):
            recorded.engine.step()
    tables = [{int(block) for block in row.table} for row in seen(observer).sequences]
    assert len(tables) == 2 and tables[0] & tables[1], "a prefix must be shared"
    assert recorded.scheduler.preempt(2, mode) is mode
    assert set(seen(observer).flashes[-1].blocks) == tables[1] - tables[0]
    # Later events of the survivor add nothing, whoever's the blocks were.
    recorded.scheduler.preempt(1, PreemptionMode.RECOMPUTE)
    first, second = seen(observer).flashes[-2:]
    assert set(first.blocks) == tables[1] - tables[0]
    assert set(second.blocks) == tables[0]


def test_flashes_keep_the_newest_and_their_numbers():
    observer = Observer(BLOCKS, BLOCK_SIZE, HOST)
    observer._note(ev.Copied(1, 0, 3, 4, 0, 0))
    for step in range(300):
        observer._note(ev.Copied(step, 0, 3, 5, 0, 0))
    flashes = seen(observer).flashes
    assert len(flashes) == 256 and flashes[-1].serial == 301 and flashes[0].serial == 301 - 255


# -- reads ------------------------------------------------------------------------------------------------


def test_reads_are_the_rows_that_the_runner_computed(recorded):
    observer, run, rows, compared = observed(recorded), recorded.engine.runner.run, [], 0

    def noting(plan):
        rows.clear()
        for row in plan.rows:
            stored = row.start + len(row.token_ids)
            rows.append((row.sequence, stored, list(row.table[: -(-stored // BLOCK_SIZE)])))
        return run(plan)

    def compare(event):
        nonlocal compared
        if isinstance(event, ev.StepEnded):
            reads = seen(observer).reads
            assert [(read.sequence, read.tokens, read.table.tolist()) for read in reads] == rows
            assert [read.name for read in reads] == [ev.sequence_name(read.sequence) for read in reads]
            compared += len(reads)
            rows.clear()

    recorded.engine.runner.run = noting
    recorded.manager.bus.subscribe(compare)
    recorded.everything()
    assert compared > 50


def test_a_sequence_that_ended_in_the_step_is_among_the_reads(recorded):
    observer = observed(recorded)
    recorded.engine.add(request(1, range(9), new=2))
    recorded.engine.step()
    first = seen(observer)
    assert [(read.name, read.tokens) for read in first.reads] == [("1", 9)]
    assert first.reads[0].table.tolist() == first.sequences[0].table.tolist()
    recorded.engine.step()
    last = seen(observer)
    assert last.sequences == () and last.counters.used_blocks == 0
    assert [(read.name, read.tokens) for read in last.reads] == [("1", 10)]
    assert last.reads[0].table.tolist() == first.reads[0].table.tolist()
    recorded.engine.step()
    assert seen(observer).reads == () and len(first.reads) == 1


def test_a_chunk_reads_only_what_is_stored(recorded):
    observer = observed(recorded)
    recorded.engine.add(request(1, range(20), new=2))
    recorded.engine.step()
    (read,) = seen(observer).reads
    assert read.tokens == 16 and len(read.table) == 4 and seen(observer).sequences[0].blocks == 5
    with pytest.raises(ValueError, match="read-only"):
        read.table[0] = 3


def test_reads_stay_between_steps_and_keep_their_tables(recorded):
    observer = observed(recorded)
    recorded.engine.add(request(1, range(9)))
    recorded.engine.step()
    before = seen(observer).reads
    tables = [read.table.copy() for read in before]
    recorded.scheduler.preempt(1, PreemptionMode.SWAP)
    after = seen(observer).reads
    assert after is before and [read.name for read in after] == ["1"]
    assert all(np.array_equal(read.table, table) for read, table in zip(after, tables, strict=True))


def test_bytes_read_are_what_the_runner_says(recorded, monkeypatch):
    observer = observed(recorded)
    recorded.engine.add(request(1, range(9)))
    recorded.engine.add(request(2, range(30, 35)))
    recorded.engine.step()
    assert sum(read.tokens for read in seen(observer).reads) == 14
    assert observer.figures().kv_bytes_read is None
    monkeypatch.setattr(recorded.engine.runner, "reads", CacheReads(14 * 256, 4, 2))
    recorded.engine.step()
    assert observer.figures().kv_bytes_read == 14 * 256
    ended = seen(observer).trace[-1]
    assert (ended.kv_blocks_read, ended.kv_runs_read) == (4, 2)


# -- preemptions ------------------------------------------------------------------------------------------


def test_a_preemption_says_what_it_took_and_when_it_was_over(recorded):
    observer = observed(recorded)
    recorded.engine.add(request(1, range(9), new=30, n=2))
    for _ in range(3):
        recorded.engine.step()
    one = sequence_id(1, 1)
    row = next(row for row in seen(observer).sequences if row.id == one)
    recorded.scheduler.preempt(1, PreemptionMode.RECOMPUTE, "7 needed 2 more blocks")
    (there,) = seen(observer, sequence=one).sequence_detail.preemptions
    assert (there.step, there.mode, there.why) == (3, "recompute", "7 needed 2 more blocks")
    assert (there.blocks, there.tokens, there.resumed) == (row.blocks, row.stored_tokens, None)
    recorded.engine.step()
    recorded.engine.step()
    (there,) = seen(observer, sequence=one).sequence_detail.preemptions
    assert there.resumed == 5, "nothing is admitted in the step after a preemption"
    recorded.scheduler.preempt(1, PreemptionMode.SWAP)
    both = seen(observer, sequence=one).sequence_detail.preemptions
    assert [p.mode for p in both] == ["recompute", "swap"] and [p.resumed for p in both] == [5, None]
    recorded.engine.step()
    recorded.engine.step()
    child = recorded.scheduler.fork(one).id
    assert seen(observer, sequence=child).sequence_detail.preemptions == ()
    assert len(seen(observer, sequence=one).sequence_detail.preemptions) == 2


def test_only_the_newest_preemptions_are_kept(recorded):
    observer = observed(recorded)
    recorded.engine.add(request(1, range(4), new=8))
    for _ in range(40):
        recorded.engine.step()
        if recorded.scheduler.running:
            recorded.scheduler.preempt(1, PreemptionMode.SWAP)
        if recorded.engine.done:
            break
    kept = seen(observer, sequence=sequence_id(1)).sequence_detail
    assert kept is None or len(kept.preemptions) <= 32


# -- prefixes ---------------------------------------------------------------------------------------------


def test_the_tree_is_left_out_unless_asked_for(recorded):
    observer = observed(recorded)
    recorded.engine.add(request(1, range(12)))
    recorded.engine.step()
    snapshot = seen(observer)
    assert snapshot.prefixes is None and snapshot.prefixes_left_out == 0
    assert len(seen(observer, prefixes=True).prefixes) == 3


def test_the_tree_is_the_cached_blocks_with_parents_first(events):
    observer, deep = Observer(BLOCKS, BLOCK_SIZE, HOST), 0
    for event in events:
        observer.hear(event)
        snapshot, device = seen(observer, prefixes=True), observer.state.device
        nodes = snapshot.prefixes
        assert sorted(node.block for node in nodes) == [b for b, hash_ in enumerate(device.hashes) if hash_]
        known = {node.hash for node in nodes}
        before = set()
        for node in nodes:
            assert node.hash == device.hashes[node.block] and node.parent == (
                device.parents[node.block] or None
            )
            assert node.parent not in known or node.parent in before
            assert node.ref_count == device.ref_counts[node.block]
            assert node.touched == device.touched[node.block] and len(node.token_ids) == BLOCK_SIZE
            assert (node.depth == 0) == (node.parent is None)
            deep = max(deep, node.depth)
            before.add(node.hash)
    assert deep >= 3, "the run must have something to order"


def test_siblings_keep_their_places(stepped):
    compared = 0
    for earlier, later in pairwise(stepped):
        places = {(node.block, node.hash): place for place, node in enumerate(earlier.prefixes)}
        kept = [places[key] for node in later.prefixes if (key := (node.block, node.hash)) in places]
        if len(kept) == len(places):  # nothing was evicted, so nothing has become a root
            assert kept == sorted(kept)
            compared += len(kept) > 2
    assert compared > 5


def test_nodes_that_did_not_change_are_the_same_objects(recorded):
    observer = observed(recorded)
    recorded.engine.add(request(1, range(8), new=20))
    recorded.engine.step()
    first = seen(observer, prefixes=True).prefixes
    assert seen(observer, prefixes=True).prefixes is first
    recorded.engine.add(request(2, [*range(4), 50, 51], new=20))
    recorded.engine.step()
    second = {node.block: node for node in seen(observer, prefixes=True).prefixes}
    assert [node.depth for node in first if second[node.block] is not node] == [0]
    assert second[first[0].block].ref_count == 2 and second[first[0].block].hits == 1


def test_hits_count_until_the_block_is_evicted(recorded):
    observer = observed(recorded)

    def hits():
        return {node.depth: node.hits for node in seen(observer, prefixes=True).prefixes if node.block < 2}

    recorded.engine.add(request(1, range(8), new=1))
    recorded.engine.step()
    assert hits() == {0: 0, 1: 0}
    for number in (2, 3):
        recorded.engine.add(request(number, [*range(8), number], new=1))
        recorded.engine.step()
    assert hits() == {0: 2, 1: 2}
    recorded.engine.add(request(4, [*range(4), 99, 98], new=1))
    recorded.engine.step()
    assert hits() == {0: 3, 1: 2}
    before = observer.state.totals.evictions
    recorded.engine.add(request(5, range(100, 152), new=4))  # 14 blocks: the whole pool
    while not recorded.engine.done:
        recorded.engine.step()
    assert observer.state.totals.evictions > before and not observer.state.hits
    recorded.engine.add(request(6, range(8), new=1))
    recorded.engine.step()
    fresh = [node for node in seen(observer, prefixes=True).prefixes if node.token_ids == (0, 1, 2, 3)]
    assert [node.hits for node in fresh] == [0]


def test_what_follows_an_evicted_block_is_a_root_until_it_is_cached_again():
    observer, one, two = Observer(BLOCKS, BLOCK_SIZE, HOST), sequence_id(1), sequence_id(2)
    hear = observer.hear
    hear(ev.Arrived(1, 0, 1, tuple(range(8)), 4, 1, 1, ""))
    hear(ev.Arrived(1, 1, 2, tuple(range(8)), 4, 1, 1, ""))
    hear(ev.Allocated(1, 2, (0, 1), one, 0))
    hear(ev.Cached(1, 3, (0, 1), one, 0, (70, 71), (0, 70)))
    hear(ev.Allocated(1, 4, (2,), two, 0))
    hear(ev.Cached(1, 5, (2,), two, 0, (70,), (0,)))

    def tree():
        return [(node.block, node.parent, node.depth) for node in seen(observer, prefixes=True).prefixes]

    assert tree() == [(0, None, 0), (1, 70, 1), (2, None, 0)]
    hear(ev.Evicted(2, 0, (0,)))
    assert tree() == [(2, None, 0), (1, 70, 1)], "the other block that holds the chain takes its place"
    hear(ev.Evicted(2, 1, (2,)))
    assert tree() == [(1, 70, 1)]
    hear(ev.Cached(2, 2, (2,), two, 0, (70,), (0,)))
    assert tree() == [(2, None, 0), (1, 70, 1)]


def test_siblings_stand_by_block_id_and_a_block_cached_anew_is_a_new_node():
    observer, one = Observer(BLOCKS, BLOCK_SIZE, HOST), sequence_id(1)
    observer.hear(ev.Arrived(1, 0, 1, tuple(range(8)), 4, 1, 1, ""))
    observer.hear(ev.Allocated(1, 1, (0, 1, 2, 3), one, 0))
    observer.hear(ev.Shared(1, 2, (1,), one, 4))  # it holds nothing that can be found: no hit
    for order, (block, hash_, parent) in enumerate([(0, 70, 0), (3, 71, 70), (1, 72, 70), (2, 73, 70)]):
        observer.hear(ev.Cached(1, 3 + order, (block,), one, bool(parent), (hash_,), (parent,)))
    nodes = seen(observer, prefixes=True).prefixes
    assert [(node.block, node.hash) for node in nodes] == [(0, 70), (1, 72), (2, 73), (3, 71)]
    assert [node.hits for node in nodes] == [0, 0, 0, 0]
    observer.hear(ev.Evicted(1, 7, (2,)))
    observer.hear(ev.Cached(1, 8, (2,), one, 1, (74,), (70,)))
    assert [node.hash for node in seen(observer, prefixes=True).prefixes] == [70, 72, 74, 71]


def test_nodes_beyond_the_most_are_counted(recorded, monkeypatch):
    observer = observed(recorded)
    recorded.engine.add(request(1, range(16)))
    recorded.engine.step()
    whole = seen(observer, prefixes=True).prefixes
    forest = observer._forest
    assert forest.size == len(whole) == 4
    assert forest.nodes(2) == whole[:2] and forest.nodes(4) == whole


# -- blocks -----------------------------------------------------------------------------------------------


def test_a_block_knows_the_block_before_it(recorded):
    observer = observed(recorded)
    recorded.engine.add(request(1, range(12)))
    recorded.engine.step()
    first, second = (seen(observer, block=block).block_detail for block in (0, 1))
    assert (first.parent_hash, first.parent_block) == (None, None) and first.hash
    assert (second.parent_hash, second.parent_block) == (first.hash, 0)
    assert seen(observer, block=9).block_detail.parent_block is None


def test_a_fork_is_part_of_the_life_of_every_block_it_shares(recorded):
    observer = observed(recorded)
    recorded.engine.add(request(1, range(9)))
    recorded.engine.add(request(2, range(30, 39)))
    for _ in range(3):
        recorded.engine.step()
    recorded.scheduler.fork(sequence_id(2))
    held = next(row.table.tolist() for row in seen(observer).sequences if row.name == "2.1")
    told = [block for block in range(BLOCKS) if any("forked" in line for line in life(observer, block))]
    assert told == sorted(held)
    assert life(observer, held[0])[-1] == "3 shared with 2.1, forked from 2"


def life(observer, block):
    return seen(observer, block=block).block_detail.life


def test_a_block_remembers_its_last_events(events):
    observer = Observer(BLOCKS, BLOCK_SIZE, HOST)
    for event in events:
        observer.hear(event)
    stories = [life(observer, block) for block in range(BLOCKS)]
    assert max(map(len, stories)) == 8
    for story in stories:
        steps = [int(line.split()[0]) for line in story]
        assert steps == sorted(steps)
