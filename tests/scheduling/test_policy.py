"""Who computes what in a step, who is admitted, who waits and why."""

from __future__ import annotations

import pytest

from kvtop.memory import events as ev
from kvtop.memory.events import FinishReason, PreemptionMode
from kvtop.scheduling.config import SchedulerConfig
from kvtop.scheduling.queues import SchedulerError
from kvtop.scheduling.sequence import GroupState


def shares(schedule):
    """Request -> tokens computed."""
    return {entry.group.request.id: entry.tokens for entry in schedule.entries}


def test_first_come_first_served(run):
    it = run(64, max_sequences=2)
    for _ in range(5):
        it.add(5, new=4)
    it.run()
    assert [event.request for event in it.of(ev.Admitted)] == [1, 2, 3, 4, 5]
    assert [event.request for event in it.of(ev.Finished)] == [1, 2, 3, 4, 5]


def test_a_small_request_does_not_overtake_a_large_one(run):
    it = run(8)
    it.add(17, new=4)
    it.step()
    it.add(17, new=4)
    it.add(2, new=1)
    it.step()
    assert it.running() == [1] and it.waiting() == [2, 3]
    assert it.reasons(2) == ["needs 5 blocks, 3 available"]
    assert it.reasons(3) == ["behind earlier requests"]
    assert it.scheduler.groups[3].wait_reason == "behind earlier requests"
    it.run()
    assert [event.request for event in it.of(ev.Admitted)] == [1, 2, 3]


def test_a_prefill_is_cut_to_the_budget_and_decodes_go_first(run):
    it = run(64, token_budget=8, max_sequences=4)
    it.add(3, new=9)
    assert shares(it.step()) == {1: 3}
    it.add(20, new=5)
    assert shares(it.step()) == {1: 1, 2: 7}
    assert shares(it.step()) == {1: 1, 2: 7}
    it.add(9, new=2)
    # The rest of 2's prompt, then the beginning of 3's.
    schedule = it.step()
    assert shares(schedule) == {1: 1, 2: 6, 3: 1}
    assert schedule.tokens == 8
    assert shares(it.step()) == {1: 1, 2: 1, 3: 6}
    assert [len(group.tables[0].tokens) for group in it.scheduler.running] == [3 + 5, 20 + 2, 9]
    it.run()


def test_prefills_share_the_budget_in_order_of_arrival(run):
    it = run(64, token_budget=6, max_sequences=6)
    for _ in range(2):
        it.add(10, new=1)
    assert shares(it.step()) == {1: 6}
    assert it.waiting() == [2] and it.reasons(2) == ["token budget (6) spent"]
    assert shares(it.step()) == {1: 4, 2: 2}
    assert shares(it.step()) == {2: 6}


def test_a_budget_of_one_token_a_sequence(run):
    """All seats decode and the newest still prefills: each step gives it at least a token."""
    it = run(64, token_budget=3, max_sequences=3)
    for _ in range(2):
        it.add(2, new=20)
    for _ in range(3):
        it.step()
    it.add(6, new=2)
    assert [shares(it.step()) for _ in range(6)] == [{1: 1, 2: 1, 3: 1}] * 6
    assert it.scheduler.groups[3].sequences[0].generated == 1
    it.run()


@pytest.mark.parametrize(("watermark", "admitted"), [(0.0, [1, 2]), (0.1, [1, 2]), (0.2, [1]), (0.5, [1])])
def test_the_watermark_keeps_blocks_for_those_who_run(run, watermark, admitted):
    it = run(10, watermark=watermark)
    it.add(16, new=3)
    it.add(18, new=3)
    it.step()
    assert it.running() == admitted
    if admitted == [1]:
        kept = int(watermark * 10)
        assert it.reasons(2) == [f"needs 5 blocks, 6 available, {kept} kept back"]


def test_the_watermark_does_not_stop_one_that_would_be_alone(run):
    it = run(4, watermark=0.9)
    it.add(15, new=2)
    it.step()
    assert it.running() == [1]


def test_seats_count_the_samples_still_to_come(run):
    it = run(64, max_sequences=4)
    it.add(5, new=3, n=3)
    it.add(5, new=3, n=2)
    it.add(5, new=3)
    it.step()
    assert it.running() == [1] and it.reasons(2) == ["max sequences (4) reached"]
    assert it.scheduler.sequence_counts() == (3, 2, 0)
    it.run()
    assert [event.request for event in it.of(ev.Finished)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("prompt", "fields", "options", "reason"),
    [
        (0, {}, {}, "the prompt is empty"),
        (3, {"n": 5}, {}, "5 sequences exceed max sequences (4)"),
        (3, {"beam_width": 9}, {}, "9 sequences exceed max sequences (4)"),
        (20, {}, {"max_positions": 20}, "a prompt of 20 tokens leaves no room in the model's 20 positions"),
        (32, {}, {}, "32 prompt tokens and one more need 9 blocks of 8"),
    ],
)
def test_what_can_never_be_served_is_rejected_with_the_reason(run, prompt, fields, options, reason):
    it = run(8, max_sequences=4, **options)
    group = it.add(prompt, **fields)
    assert group.state is GroupState.REJECTED and it.of(ev.Rejected)[0].reason == reason
    assert it.kinds() == ["Arrived", "Rejected"] and it.scheduler.idle
    it.step()
    it.check_empty()


def test_positions_of_the_model_end_a_sequence(run):
    it = run(16, max_positions=9)
    it.add(5, new=40)
    it.run()
    assert len(it.outputs["1"]) == 4 and it.of(ev.Finished)[0].reason is FinishReason.LENGTH


def test_an_end_token_ends_one_sample_and_not_the_others(run):
    it = run(16, eos=[0], tokens=lambda number, branch: 0 if branch == 2 else 5 + branch)
    it.add(5, new=3, n=3)
    it.run()
    assert it.outputs == {"1.2": [0], "1.1": [6, 6, 6], "1.3": [8, 8, 8]}
    whys = {ev.sequence_name(e.sequence): e.why for e in it.of(ev.SequenceEnded)}
    assert whys == {"1.2": "stop", "1.1": "length", "1.3": "length"}


def test_an_end_token_is_ignored_when_asked(run):
    it = run(16, eos=[0], tokens=lambda number, branch: 0)
    it.add(5, new=3, ignore_eos=True)
    it.add(5, new=3, ignore_eos=False)
    it.run()
    assert it.outputs == {"1": [0, 0, 0], "2": [0]}


@pytest.mark.parametrize("mode", list(PreemptionMode))
def test_nothing_is_admitted_in_a_step_that_preempted(run, mode):
    """The preempted group's blocks would let a small one in: not in this step, nor before it resumes."""
    it = run(8, host_blocks=8, preemption=mode)
    it.add(11, new=12)
    it.add(11, new=12)
    it.step()
    while not it.preempted():
        schedule = it.step()
    assert schedule.preempted and it.preempted() == [2]
    late = it.add(1, new=1)
    admitted = [event.request for event in it.of(ev.Admitted)]
    it.step()
    assert [event.request for event in it.of(ev.Admitted)] == admitted
    assert late.wait_reason == "preempted requests resume first"
    preempted = it.of(ev.Preempted)[0]
    assert (preempted.request, preempted.mode) == (2, mode)
    it.run()
    order = [
        e.request for e in it.events if isinstance(e, ev.Resumed | ev.Admitted) and e.step > preempted.step
    ]
    assert order[0] == 2


@pytest.mark.parametrize(
    ("blocks", "prompt", "needy"),
    # Both need a block at once: one is left in a pool of 5, none in one of 6.
    [(5, 7, "2 needed 1 more block"), (6, 11, "1 needed 1 more block")],
)
def test_the_reason_names_who_needed_how_many_blocks(run, blocks, prompt, needy):
    it = run(blocks, prefix_caching=False)
    for _ in range(2):
        it.add(prompt, new=6)
    while not it.preempted():
        it.step()
    event = it.of(ev.Preempted)[0]
    assert (event.request, event.why, event.blocks_short) == (2, needy, 1)


def test_commands_that_do_not_apply_are_refused_with_nothing_changed(run):
    it = run(16, max_sequences=3)
    it.add(6, new=9)
    it.add(6, new=9, beam_width=2)
    it.add(6, new=9)
    heard = len(it.events)
    for command, arguments, match in [
        (it.scheduler.fork, (ev.sequence_id(1),), "1 is not decoding"),
        (it.scheduler.preempt, (1, PreemptionMode.SWAP), "request 1 is not running"),
        (it.scheduler.preempt, (9, PreemptionMode.SWAP), "request 9 is not running"),
        (it.scheduler.fork, (ev.sequence_id(9),), "there is no sequence 9"),
    ]:
        with pytest.raises(SchedulerError, match=match):
            command(*arguments)
    it.step()
    heard = len(it.events)
    with pytest.raises(SchedulerError, match=r"2\.1 is a beam"):
        it.scheduler.fork(ev.sequence_id(2, 1))
    with pytest.raises(SchedulerError, match=r"max sequences \(3\) reached"):
        it.scheduler.fork(ev.sequence_id(1))
    assert len(it.events) == heard and it.scheduler.abort(77) is False
    it.run()


def test_a_fork_shares_every_block_until_one_writes(run):
    it = run(16)
    group = it.add(6, new=9)
    it.step()
    child = it.scheduler.fork(ev.sequence_id(1))
    it.checker.after_call()
    assert list(child.table.blocks) == list(group.tables[0].blocks) and it.manager.pool.used_blocks == 2
    schedule = it.step()
    assert schedule.copies == [(1, 2)] and it.manager.pool.used_blocks == 3
    it.run()
    assert set(it.outputs) == {"1", "1.1"} and it.outputs["1"][:1] == it.outputs["1.1"][:1]
    assert it.outputs["1"] != it.outputs["1.1"]


@pytest.mark.parametrize("blocks", [3, 4, 5])
def test_samples_that_outgrow_the_pool_end_newest_first(run, blocks):
    it = run(blocks)
    it.add(6, new=30, n=3)
    it.run()
    lengths = [len(it.outputs[f"1.{branch}"]) for branch in (1, 2, 3)]
    assert lengths == sorted(lengths, reverse=True) and lengths[0] > lengths[2]
    # The one left has the pool to itself, to its last slot.
    assert lengths[0] == 4 * blocks - 6 + 1


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"max_sequences": 0}, "at least 1 is needed"),
        ({"max_sequences": 5, "token_budget": 4}, "token budget 4 is below max sequences 5"),
        ({"watermark": 1.0}, "watermark 1.0 is not between 0 and 1"),
        ({"victim": "fattest"}, "'fattest' is neither newest nor oldest"),
    ],
)
def test_settings_that_cannot_work(fields, match):
    with pytest.raises(ValueError, match=match):
        SchedulerConfig(**fields)


@pytest.mark.parametrize("how", ["recompute", "abort"])
def test_a_group_frees_its_newest_sample_first(run, how):
    """What the oldest holds is evicted last, and nobody waits for a sibling that is gone."""
    it = run(16)
    it.add(6, new=9, n=3)
    it.step()
    it.step()
    heard = len(it.events)
    if how == "abort":
        it.scheduler.abort(1)
    else:
        it.scheduler.preempt(1, PreemptionMode.RECOMPUTE)
    released = [event for event in it.events[heard:] if isinstance(event, ev.Released)]
    assert [ev.sequence_name(event.sequence) for event in released] == ["1.3", "1.2", "1.1"]
