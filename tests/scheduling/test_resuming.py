"""Preempted groups come back: all of them, as they were, and never for ever in the queue."""

from __future__ import annotations

import pytest

from kvtop.memory import events as ev
from kvtop.memory.events import PreemptionMode
from kvtop.scheduling.sequence import GroupState

SWAP, RECOMPUTE = PreemptionMode.SWAP, PreemptionMode.RECOMPUTE


def test_samples_that_fit_only_while_they_share_are_not_stuck_once_preempted(run):
    """Three samples in the last block of the pool; computed again, each would need a block of its own."""
    it = run(4)
    it.add(14, new=9, n=3)
    it.step()
    it.scheduler.preempt(1, RECOMPUTE)
    outputs = it.run(limit=60)
    assert set(outputs) == {"1.1", "1.2", "1.3"}
    # The newest samples made room, as when a group outgrows the pool while it runs.
    assert [len(outputs[f"1.{branch}"]) for branch in (1, 2, 3)] == [3, 1, 1]


def test_a_preempted_group_that_needs_more_than_the_pool_does_not_block_the_queue(run):
    it = run(5)
    it.add(3, new=6)
    it.add(13, new=6, n=3)
    it.step()
    it.step()
    assert it.preempted() == [2]
    it.add(2, new=2)
    it.run(limit=80)
    assert set(it.outputs) == {"1", "2.1", "2.2", "2.3", "3"}


def test_a_sequence_that_fills_the_pool_and_is_preempted_ends_at_its_length(run):
    it = run(2)
    it.add(5, new=20)
    while it.manager.stored_tokens() < 8:
        it.step()
    it.scheduler.preempt(1, RECOMPUTE)
    outputs = it.run(limit=60)
    assert len(outputs["1"]) == 4


def test_beams_that_cannot_all_grow_are_not_pruned_for_it(run):
    """Swapped in alone, with room for two of three beams: the search ends as too long and loses no beam."""
    it = run(6, host_blocks=8, preemption=SWAP)
    group = it.add(7, new=9, beam_width=3)
    while not (it.manager.pool.available_blocks < 3 and all(t.stored % 4 == 0 for t in group.tables)):
        it.step()
        assert not it.scheduler.idle
    beams = [table.tokens.tolist() for table in group.tables]
    assert len(beams) == 3
    it.scheduler.preempt(1, SWAP)
    it.step()
    it.step()
    it.run(limit=60)
    got = sorted(it.outputs.values())
    assert got == sorted(tokens[7:] for tokens in beams)


@pytest.mark.parametrize("mode", [SWAP, RECOMPUTE])
@pytest.mark.parametrize("width", [2, 3, 4])
def test_beams_preempted_at_any_step_give_the_same_hypotheses(run, width, mode):
    quiet = run(64)
    quiet.add(6, new=8, beam_width=width)
    expected = quiet.run()
    for at in range(1, 8):
        it = run(64, host_blocks=64, token_budget=16)
        it.add(6, new=8, beam_width=width)
        for _ in range(at):
            it.step()
        it.scheduler.preempt(1, mode)
        assert it.run() == expected


@pytest.mark.parametrize("budget", [4, 5, 7, 30])
def test_siblings_wait_for_the_one_that_computes_for_them(run, budget):
    """A beginning shared by four is computed once, and siblings of siblings wait for the right one."""
    quiet = run(64, prefix_caching=False)
    quiet.add(13, new=16, n=4)
    expected = quiet.run()
    it = run(64, prefix_caching=False, token_budget=budget, max_sequences=4)
    group = it.add(13, new=16, n=4)
    while not group.forked or group.sequences[0].generated < 7:
        it.step()
    it.scheduler.preempt(1, RECOMPUTE)
    it.step()
    it.step()
    first, *others = group.tables
    assert all(table.source is first and table.awaited == 12 for table in others) or first.stored >= 12
    while any(table.pending > 1 for table in group.tables):
        schedule = it.step()
        assert all(entry.sequence.table.source is None for entry in schedule.entries)
    assert len({tuple(table.blocks[:3]) for table in group.tables}) == 1
    assert it.run() == expected


@pytest.mark.parametrize("event", ["abort", "recompute", "swap"])
@pytest.mark.parametrize("steps", [2, 3])
def test_what_happens_to_a_group_while_siblings_wait(run, event, steps):
    it = run(64, host_blocks=64, prefix_caching=False, token_budget=4, max_sequences=4)
    group = it.add(13, new=12, n=3)
    while not group.forked or group.sequences[0].generated < 6:
        it.step()
    expected = {}
    it.scheduler.preempt(1, RECOMPUTE)
    for _ in range(steps):
        it.step()
    assert any(table.source is not None for table in group.tables)
    if event == "abort":
        it.scheduler.abort(1)
    elif event == "recompute":
        it.scheduler.preempt(1, RECOMPUTE)
    else:
        # Half of a shared beginning cannot be moved: it is computed again instead.
        assert it.scheduler.preempt(1, SWAP) is RECOMPUTE
        assert "recomputed" in it.of(ev.Preempted)[-1].why
    it.checker.after_call()
    assert it.manager._waiters == {} and it.manager.pool.used_blocks == 0
    outputs = it.run()
    if event != "abort":
        quiet = run(64)
        quiet.add(13, new=12, n=3)
        expected = quiet.run()
    assert outputs == expected


@pytest.mark.parametrize("mode", [SWAP, RECOMPUTE])
def test_a_user_fork_comes_back_from_preemption(run, mode):
    it = run(64, host_blocks=64)
    group = it.add(6, new=12)
    for _ in range(3):
        it.step()
    it.scheduler.fork(group.sequences[0].id)
    it.scheduler.fork(group.sequences[1].id)
    it.step()
    it.scheduler.preempt(1, mode)
    quiet = run(64)
    same = quiet.add(6, new=12)
    for _ in range(3):
        quiet.step()
    quiet.scheduler.fork(same.sequences[0].id)
    quiet.scheduler.fork(same.sequences[1].id)
    assert it.run() == quiet.run()
    assert set(it.outputs) == {"1", "1.1", "1.2"}


def test_a_fork_never_takes_the_name_of_a_sample_that_ended(run):
    def draw(number, branch):
        return 9 if branch == 2 else scripted(number, branch)

    def scripted(number, branch):
        return (number // 3 + branch) % 8 + 100

    it = run(64, tokens=draw, eos=[9])
    group = it.add(6, new=12, n=2)
    it.step()
    assert set(it.outputs) == {"1.2"}
    child = it.scheduler.fork(group.sequences[0].id)
    assert child.table.name == "1.3"
    it.run()
    assert set(it.outputs) == {"1.1", "1.2", "1.3"} and it.outputs["1.2"] == [9]


def test_preempted_ones_resume_in_order_of_arrival_before_anyone_is_admitted(run):
    it = run(12, max_sequences=3)
    for _ in range(4):
        it.add(5, new=8)
    it.step()
    assert it.running() == [1, 2, 3]
    for request in (3, 1, 2):
        it.scheduler.preempt(request, RECOMPUTE)
    assert it.preempted() == [1, 2, 3]
    schedule = it.step()
    assert schedule.preempted and it.running() == [], "nothing is admitted in a step that preempted"
    heard = len(it.events)
    it.step()
    assert it.running() == [1, 2, 3] and it.waiting() == [4]
    assert [e.request for e in it.events[heard:] if isinstance(e, ev.Resumed)] == [1, 2, 3]
    admitted = [event for event in it.of(ev.Admitted) if not event.first]
    assert [event.request for event in admitted] == [1, 2, 3]
    it.run()


def test_a_prefix_hit_of_a_resumed_group_does_not_count(run):
    it = run(16)
    it.add(9, new=8)
    it.step()
    queries, hits = it.manager.prefix_queries, it.manager.prefix_hits
    it.scheduler.preempt(1, RECOMPUTE)
    it.step()
    it.step()
    assert it.of(ev.Admitted)[-1].prefix_hit_tokens == 8
    assert (it.manager.prefix_queries, it.manager.prefix_hits) == (queries, hits) == (9, 0)


def test_a_full_host_pool_falls_back_to_recompute(run):
    it = run(8, host_blocks=1, preemption=SWAP)
    it.add(9, new=12)
    it.add(9, new=12)
    it.run()
    assert it.scheduler.counts["swap"] == 0 < it.scheduler.counts["recompute"]
    event = it.of(ev.Preempted)[0]
    assert event.mode is RECOMPUTE
    assert event.why == "1 needed 1 more block; the host pool is too full to swap"


@pytest.mark.parametrize("mode", [SWAP, RECOMPUTE])
@pytest.mark.parametrize("victim", ["newest", "oldest"])
def test_which_group_is_preempted(run, victim, mode):
    it = run(6, host_blocks=6, preemption=mode, victim=victim)
    quiet = run(64)
    for each in (it, quiet):
        for _ in range(3):
            each.add(6, new=9)
    while not it.preempted():
        it.step()
    assert it.preempted() == [3 if victim == "newest" else 1]
    assert it.scheduler.groups[it.preempted()[0]].state is (
        GroupState.SWAPPED if mode is SWAP else GroupState.WAITING
    )
    assert it.run() == quiet.run()
