"""The checker finds what is wrong: each invariant broken once by hand, in a run that was right."""

from __future__ import annotations

import pytest

from kvtop.memory.cache_manager import CacheManager
from kvtop.memory.errors import InvariantError
from kvtop.memory.events import Advanced, PreemptionMode, Tier, sequence_id
from kvtop.memory.invariants import (
    ProgressWatch,
    check_lengths,
    check_queues,
    check_writable,
)
from kvtop.scheduling.config import SchedulerConfig
from kvtop.scheduling.scheduler import Scheduler
from kvtop.scheduling.sequence import Sampled
from kvtop.timeline.checking import Checker
from kvtop.workload.request import Request


@pytest.fixture
def run(recorded):
    """Three groups in the middle of their lives, everything in order, the checker's books too."""
    for number, fields in enumerate(({"n": 2}, {}, {}), 1):
        prompt = tuple(range(9)) if number < 3 else (5, 6)
        recorded.engine.add(
            Request(id=number, prompt_token_ids=prompt, max_new_tokens=20, seed=number, **fields)
        )
        recorded.engine.step()
        recorded.checker.step_ended()
    return recorded


def broken(run, match):
    with pytest.raises(InvariantError, match=match):
        run.checker.step_ended()


def test_I1_a_counter_that_lies(run):
    run.manager.pool.free_queue.cached -= 1
    broken(run, "I1: the device pool queues 8 blocks but counts 7")


def test_I1_columns_and_counters_agree(run):
    run.manager.pool.shared_blocks += 1
    broken(run, "I1: the device pool counts .* shared blocks")


def test_I2_a_reference_nobody_holds(run):
    run.manager.pool.ref_counts[0] += 1
    broken(run, "I[12]: ")


def test_I2_a_negative_count(run):
    run.manager.pool.ref_counts[13] = -1
    broken(run, "I2: block 13 of the device pool has reference count -1")


def test_I3_free_but_not_queued(run):
    queue = run.manager.pool.free_queue
    queue.pop_front(1)
    broken(run, "I3: .* has reference count 0 and is not queued")


def test_I3_queued_but_used(run):
    run.manager.pool.free_queue.push_back([run.manager.tables[sequence_id(2)].blocks[0]])
    broken(run, "I3: .* is queued")


def test_I4_a_hash_of_other_tokens(run):
    table = run.manager.tables[sequence_id(2)]
    table.tokens[0] += 1
    broken(run, "I4: block .* is cached as other tokens than 2 holds")


def test_I4_a_hash_that_the_cache_does_not_know(run):
    run.manager.pool.hashes[run.manager.tables[sequence_id(3)].blocks[0]] = 77
    broken(run, "I4: block .* has hash 4d, the prefix cache disagrees")


def test_I4_a_cached_block_that_is_not_full(run):
    fills, hashes = run.checker.state.device.fills, run.manager.pool.hashes
    cached = next(block for block, hash_ in enumerate(hashes) if hash_)
    fills[cached] -= 1
    broken(run, f"I4: block {cached} is cached with 3 of 4 slots")


def test_I5_writing_what_another_reads(run):
    table, other = (run.manager.tables[sequence_id(1, branch)] for branch in (1, 2))
    table.blocks[-1] = other.blocks[-1]
    run.manager.pool.ref_counts[other.blocks[-1]] += 1
    table.tokens.append(1)
    with pytest.raises(InvariantError, match=r"I5: 1\.1 writes block \d+, which 1\.2 reads"):
        check_writable(run.manager, table, 1)


def test_I5_writing_a_cached_block(run):
    table = run.manager.tables[sequence_id(2)]
    table.stored = 7
    with pytest.raises(InvariantError, match="I5: 2 writes block .* which is cached"):
        check_writable(run.manager, table, 1)


def test_I6_a_block_too_many(run):
    table = run.manager.tables[sequence_id(3)]
    with pytest.raises(InvariantError, match="I6: 3 has 1 blocks for 2 tokens, not 5"):
        check_lengths([table], {table.sequence: 20}, 4)
    run.manager._extend(table, 1)
    broken(run, "I6: 3 has 2 blocks")


def test_I7_in_two_queues_or_none(run):
    run.scheduler.waiting.append(run.scheduler.running[0])
    broken(run, "I7: request 1 is running but queued as")
    check_queues({"running": [1]}, {1: "running"})
    for queues, live in (({}, {1: "running"}), ({"running": [1]}, {}), ({"waiting": [1]}, {1: "running"})):
        with pytest.raises(InvariantError, match="I7"):
            check_queues(queues, live)


def test_I8_nothing_moves(run):
    run.scheduler.schedule()
    run.scheduler.update = lambda schedule, sampled: None
    with pytest.raises(InvariantError, match=r"I8: no progress since step \d+; live requests: 1, 2, 3"):
        for step in range(4, 400):
            run.manager.bus.begin_step(step)
            run.checker.step_ended()


def test_I8_a_long_prompt_is_progress_though_no_token_comes(recorded):
    """A prompt that takes more steps than the patience, in a pool large enough for it."""
    manager = CacheManager(80, 4)
    scheduler = Scheduler(manager, SchedulerConfig(max_sequences=2, token_budget=2))
    checker = Checker(manager, scheduler)
    manager.bus.subscribe(checker.hear)
    scheduler.add(Request(id=1, prompt_token_ids=tuple(range(300)), max_new_tokens=1))
    for step in range(1, 151):
        manager.bus.begin_step(step)
        schedule = scheduler.schedule()
        scheduler.update(schedule, [Sampled((1,) if entry.samples else ()) for entry in schedule.entries])
        checker.step_ended()
    assert scheduler.idle


def test_I8_holding_patience():
    watch = ProgressWatch(5)
    for step in range(5):
        watch.step_ended(step, 3, [1])
    with pytest.raises(InvariantError):
        watch.step_ended(5, 3, [1])
    watch = ProgressWatch(5)
    for step in range(50):
        watch.step_ended(step, 3, [])


@pytest.mark.parametrize("column", ["ref_counts", "hashes"])
def test_I9_a_change_without_an_event(run, column):
    """The checker compares what the events touched: the block that a sequence just wrote to among it."""
    run.engine.step()
    folded = run.checker.state.device
    block = run.manager.tables[sequence_id(3)].blocks[-1]
    getattr(folded, column)[block] += 1
    broken(run, f"I9: {column} of block {block} of the device pool")


def test_I9_blocks_of_a_fork_are_touched(run):
    run.scheduler.fork(sequence_id(3))
    block = run.manager.tables[sequence_id(3)].blocks[0]
    run.checker.state.device.ref_counts[block] -= 1
    broken(run, f"I9: ref_counts of block {block}")


def test_I9_tables(run):
    run.checker.state.sequence(sequence_id(2)).table[0] += 1
    broken(run, "I9: 2 holds ")
    run.checker.state.sequence(sequence_id(2)).table[0] -= 1
    run.checker.hear(Advanced(3, 99, sequence_id(2), (7,), run.manager.tables[sequence_id(2)].stored))
    broken(run, "I9: 2 holds ")


def test_I9_an_event_that_does_not_follow(run):
    with pytest.raises(InvariantError, match="I9: .* does not follow from the events before it"):
        run.checker.hear(Advanced(3, 99, sequence_id(9), (), 3))


def test_a_swapped_group_is_compared_in_the_host_pool(run):
    run.scheduler.preempt(2, PreemptionMode.SWAP)
    table = run.manager.tables[sequence_id(2)]
    assert table.tier is Tier.HOST
    run.checker.state.host.fills[table.blocks[0]] -= 1
    broken(run, "I9: the tables hold .* tokens in the host pool, the events say ")


def test_a_host_pool_larger_than_the_device_pool():
    """Block ids of the host beyond those of the device are compared with the host's columns."""
    manager = CacheManager(4, 4, host_blocks=40)
    scheduler = Scheduler(manager, SchedulerConfig(watermark=0))
    checker = Checker(manager, scheduler)
    manager.bus.subscribe(checker.hear)
    for number in (1, 2, 3):
        group = scheduler.add(Request(id=number, prompt_token_ids=tuple(range(11)), max_new_tokens=9))
        # Each is admitted by hand, since the one before it, swapped out, would be resumed first.
        manager.admit(manager.plan_admission(group.tables), first=True)
        manager.swap_out(group.tables)
        checker.after_call()
    assert max(block for table in manager.tables.values() for block in table.blocks) == 8
    for number in (1, 2, 3):
        scheduler.abort(number)
        checker.after_call()
    assert manager.host_pool.used_blocks == 0


def test_I6_a_fork_of_one_that_was_admitted_beyond_what_it_stores():
    """It holds at a block's end with the block for its next token already there, and is forked."""
    manager = CacheManager(16, 1)
    scheduler = Scheduler(manager, SchedulerConfig(watermark=0, holding_requests=2))
    checker = Checker(manager, scheduler)
    manager.bus.subscribe(checker.hear)
    scheduler.add(Request(id=1, prompt_token_ids=(1, 2, 3), max_new_tokens=9, hold_at_stored=4))

    def step(number):
        manager.bus.begin_step(number)
        schedule = scheduler.schedule()
        scheduler.update(schedule, [Sampled((1,) if entry.samples else ()) for entry in schedule.entries])
        checker.step_ended()

    for number in range(1, 4):
        step(number)
    scheduler.preempt(1, PreemptionMode.RECOMPUTE)
    for number in range(4, 7):
        step(number)
    parent = scheduler.running[0].tables[0]
    assert (parent.stored, len(parent.blocks)) == (4, 5)
    scheduler.fork(parent.sequence)
    step(7)
