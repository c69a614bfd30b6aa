"""Holding: everybody stops at a length, stands still for a few steps, and goes on together."""

from __future__ import annotations

import pytest

from kvtop.memory import events as ev
from kvtop.memory.events import PreemptionMode
from kvtop.scheduling.holds import STEPS_HELD


def stored(it):
    return [sequence.table.stored for group in it.scheduler.running for sequence in group.sequences]


def until_all_hold(it):
    while not (it.scheduler.running and all(group.holding for group in it.scheduler.running)):
        it.step()
        assert it.steps < 200


def test_all_hold_for_a_few_steps_then_all_go_on(run):
    it = run(64, holding_requests=3)
    lengths = [9, 14, 22]
    for length in lengths:
        it.add(6, new=30, hold_at_stored=length)
    it.run()
    events = [event for event in it.events if isinstance(event, ev.Held)]
    assert [ev.request_of(event.sequence) for event in events] == [1, 2, 3]
    still = [
        step
        for step in range(1, it.steps + 1)
        if not any(isinstance(e, ev.Advanced) and e.step == step for e in it.events)
    ]
    assert len(still) == STEPS_HELD and still[0] == events[-1].step
    assert [len(tokens) for tokens in it.outputs.values()] == [30, 30, 30]


def test_the_picture_that_stands_still(run):
    it = run(64, holding_requests=3)
    for length in (9, 14, 22):
        it.add(6, new=30, hold_at_stored=length)
    until_all_hold(it)
    assert stored(it) == [9, 14, 22]
    it.step()
    assert stored(it) == [9, 14, 22] and all(group.holding for group in it.scheduler.running)
    it.run()


def test_one_that_cannot_be_admitted_lets_the_holders_go(run):
    """Two hold all the seats, the third waits for one of them: time goes on without the third."""
    it = run(64, holding_requests=3, max_sequences=2)
    for _ in range(3):
        it.add(6, new=12, hold_at_stored=9)
    it.run()
    assert [len(tokens) for tokens in it.outputs.values()] == [12, 12, 12]


@pytest.mark.parametrize("how", ["abort", "reject", "short"])
def test_one_that_will_never_hold_is_not_waited_for(run, how):
    it = run(16, holding_requests=2)
    it.add(6, new=20, hold_at_stored=9)
    it.add(99 if how == "reject" else 6, new=2 if how == "short" else 20, hold_at_stored=12)
    it.step()
    if how == "abort":
        it.scheduler.abort(2)
    until_all_hold(it)
    began = it.steps
    while it.scheduler.running[0].holding:
        it.step()
    assert it.steps - began == STEPS_HELD
    it.run()


@pytest.mark.parametrize("mode", list(PreemptionMode))
def test_a_holder_that_is_preempted_holds_again_at_the_same_length(run, mode):
    it = run(64, holding_requests=2, host_blocks=16)
    it.add(6, new=20, hold_at_stored=9)
    it.add(6, new=60, hold_at_stored=30)
    while not it.scheduler.running or not it.scheduler.running[0].holding:
        it.step()
    it.scheduler.preempt(1, mode)
    for _ in range(4):
        it.step()
    assert it.running() == [1, 2] and it.scheduler.running[0].holding
    assert stored(it)[0] == 9
    until_all_hold(it)
    assert stored(it) == [9, 30]
    it.run()
    assert [len(it.outputs[name]) for name in "12"] == [20, 60]


def test_a_step_that_only_preempts_lets_nobody_go(run):
    it = run(64, holding_requests=2)
    it.add(6, new=20, hold_at_stored=9)
    it.add(6, new=60, hold_at_stored=30)
    while not it.scheduler.running or not it.scheduler.running[0].holding:
        it.step()
    it.scheduler.preempt(2, PreemptionMode.RECOMPUTE)
    schedule = it.step()
    assert schedule.entries == [] and it.scheduler.running[0].holding
    it.step()
    until_all_hold(it)
    assert stored(it) == [9, 30]
    it.run()


def test_samples_and_beams_hold_together(run):
    it = run(64, holding_requests=2)
    it.add(6, new=20, n=3, hold_at_stored=10)
    it.add(5, new=20, beam_width=2, hold_at_stored=13)
    until_all_hold(it)
    assert stored(it) == [10, 10, 10, 13, 13]
    it.run()


def test_without_a_holding_workload_nobody_holds(run):
    it = run(64)
    it.add(6, new=12, hold_at_stored=9)
    it.run()
    assert len(it.outputs["1"]) == 12 and it.of(ev.Held) == []
