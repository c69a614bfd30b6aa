"""Scenarios drawn from what broke in other engines, block size 4: 7 and 9 to 12, which need a scheduler.

The others are in `tests/memory/test_scenarios.py`; their numbers are the same list's.
"""

from __future__ import annotations

import pytest

from kvtop.memory import events as ev
from kvtop.memory.events import FinishReason, PreemptionMode
from kvtop.scheduling.sequence import GroupState

BOTH = [PreemptionMode.SWAP, PreemptionMode.RECOMPUTE]


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("prompt", [7, 8, 9])
def test_07_n_3_preempted_by_recompute(run, prompt, caching):
    quiet = run(64)
    quiet.add(prompt, new=9, n=3)
    expected = quiet.run()
    assert len(expected) == 3
    it = run(64, prefix_caching=caching)
    group = it.add(prompt, new=9, n=3)
    for _ in range(4):
        it.step()
    full = prompt // 4
    assert [it.manager.pool.ref_counts[b] for b in group.tables[0].blocks[:full]] == [3] * full
    it.scheduler.preempt(1, PreemptionMode.RECOMPUTE)
    it.checker.after_call()
    assert it.manager.pool.used_blocks == 0, "the group goes whole"
    it.step()
    it.step()
    assert group.state is GroupState.RUNNING
    tables = group.tables
    assert {tuple(table.blocks[:full]) for table in tables} == {tuple(tables[0].blocks[:full])}
    assert [it.manager.pool.ref_counts[b] for b in tables[0].blocks[:full]] == [3] * full
    assert it.run() == expected


def test_09_copy_on_write_with_the_pool_full(run):
    """Two samples share a half full block, nothing is free: the newest goes, then one copies, one writes."""
    it = run(4, prefix_caching=False)
    it.add(6, new=6, n=2)
    it.add(7, new=6)
    it.step()
    first, second = it.scheduler.running
    assert it.manager.pool.available_blocks == 0
    heard = len(it.events)
    schedule = it.step()
    assert it.running() == [1] and it.preempted() == [2]
    kinds = it.kinds(heard)
    assert kinds.index("Preempted") < kinds.index("Copied"), "published only once it is certain"
    assert len(schedule.copies) == len(it.of(ev.Copied)) == 1
    copier, writer = first.tables
    assert copier.blocks[1] != writer.blocks[1] and writer.blocks[1] == schedule.copies[0][0]
    assert {entry.group for entry in schedule.entries} == {first} and second.preemptions == 1
    it.run()


@pytest.mark.parametrize("mode", BOTH)
def test_09_no_copy_is_left_for_a_group_preempted_in_the_same_step(run, mode):
    it = run(4, host_blocks=8, preemption=mode, prefix_caching=False)
    it.add(7, new=6)
    it.add(6, new=6, n=2)
    it.step()
    assert it.manager.pool.available_blocks == 0
    it.step()
    schedule = it.step()
    assert it.preempted() == [2] and schedule.copies == [] and it.of(ev.Copied) == []
    it.run()
    # Swapped, the two share the block again and one copies; computed again, each has its own.
    assert it.manager.cow_copies == (mode is PreemptionMode.SWAP)


def test_10_beam_width_4(run):
    it = run(64)
    group = it.add(6, new=12, beam_width=4)
    pruned = 0
    while not it.scheduler.idle:
        heard = len(it.events)
        before = {table.sequence for table in group.tables}
        blocks = {b for table in group.tables for b in table.blocks}
        it.step()
        kinds = it.kinds(heard)
        if it.scheduler.idle:
            break
        lost = before - {table.sequence for table in group.tables}
        pruned += len(lost)
        if "SequenceEnded" in kinds:
            assert "Forked" in kinds
            assert max(i for i, kind in enumerate(kinds) if kind == "Forked") < kinds.index("Released")
        held = {b for table in group.tables for b in table.blocks}
        freed = {b for event in it.events[heard:] if isinstance(event, ev.Freed) for b in event.blocks}
        assert freed.isdisjoint(held) and blocks - held <= freed
    assert pruned >= 4 and len(it.outputs) == 4
    it.check_empty()


@pytest.mark.parametrize(
    "state", ["waiting", "part-prefilled", "running", "swapped", "preempted", "finished"]
)
def test_11_abort_in_every_state(run, state):
    it = run(16, host_blocks=8, token_budget=8, max_sequences=4)
    other = it.add(5, new=30)
    it.step()
    target = it.add(11, new=3 if state == "finished" else 20, n=3)
    steps = {"waiting": 0, "part-prefilled": 1, "running": 4, "swapped": 4, "preempted": 4, "finished": 5}
    for _ in range(steps[state]):
        it.step()
    if state == "swapped":
        it.scheduler.preempt(2, PreemptionMode.SWAP)
        assert it.manager.host_pool.used_blocks > 0
    if state == "preempted":
        it.scheduler.preempt(2, PreemptionMode.RECOMPUTE)
    if state == "part-prefilled":
        assert 0 < target.tables[0].stored < 11
    assert it.scheduler.abort(2) is (state != "finished")
    it.checker.after_call()
    assert it.manager.pool.used_blocks == len(other.tables[0].blocks)
    assert it.manager.host_pool.used_blocks == 0 and target.sequences == []
    assert target.state is (GroupState.FINISHED if state == "finished" else GroupState.ABORTED)
    heard, before = len(it.events), list(it.manager.pool.free_queue)
    assert it.scheduler.abort(2) is False
    assert len(it.events) == heard and list(it.manager.pool.free_queue) == before
    schedule = it.step()
    assert schedule.swaps_out == [], "nothing of an aborted group is copied to the host"
    it.run()
    assert it.scheduler.counts["aborted"] == (state != "finished")


def test_12_too_big_is_rejected_at_admission_with_the_reason(run):
    it = run(4)
    fits, too_big = it.add(15), it.add(16)
    assert too_big.state is GroupState.REJECTED
    assert it.of(ev.Rejected)[0].reason == "16 prompt tokens and one more need 5 blocks of 4"
    assert it.scheduler.counts["rejected"] == 1 and 2 not in it.scheduler.groups
    it.run()
    assert fits.state is GroupState.FINISHED


@pytest.mark.parametrize("mode", BOTH)
def test_12_a_decode_that_outgrows_the_pool_alone_ends_at_its_length(run, mode):
    it = run(4, host_blocks=4, preemption=mode)
    it.add(9, new=50)
    it.run()
    # 16 slots: 9 of the prompt, 7 generated and stored; the eighth was drawn from the last slot.
    assert len(it.outputs["1"]) == 8
    assert it.of(ev.Finished)[0].reason is FinishReason.LENGTH and it.of(ev.Preempted) == []


@pytest.mark.parametrize("mode", BOTH)
def test_12_two_that_fit_only_singly_run_one_after_the_other(run, mode):
    it = run(5, host_blocks=5, preemption=mode)
    for _ in range(2):
        it.add(8, new=10)
    outputs = it.run()
    assert [len(tokens) for tokens in outputs.values()] == [10, 10]
    assert it.scheduler.counts["swap"] + it.scheduler.counts["recompute"] <= 2, "no storm"
    assert [event.request for event in it.of(ev.Finished)] == [1, 2]
