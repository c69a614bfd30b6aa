"""Events in words."""

from __future__ import annotations

import msgspec
import pytest

from kvtop.memory import events as ev
from kvtop.memory.events import sequence_id
from kvtop.ui.frame.narration import describe, log_lines, narrate, ranges

A, B = sequence_id(42, 1), sequence_id(45)


def words(event: ev.AnyEvent) -> str:
    told = narrate(event)
    assert told is not None
    return f"{told[1]} {told[2]}"


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (ev.Admitted(9, 0, 42, A, 130, 64, True), "Admitted 42: 130 tokens, 64 of them in the prefix cache"),
        (ev.Admitted(9, 0, 42, A, 1, 0, False), "Admitted 42: 1 token, to be computed again"),
        (
            ev.Rejected(9, 0, 42, "needs 60 blocks, the pool has 50"),
            "Rejected 42: needs 60 blocks, the pool has 50",
        ),
        (ev.Finished(9, 0, 42, ev.FinishReason.STOP), "Finished 42: its end token"),
        (ev.Aborted(9, 0, 42), "Aborted 42: its blocks were released"),
        (ev.Forked(9, 0, A, sequence_id(42, 2)), "Forked 42.2 from 42.1, sharing its blocks"),
        (ev.SequenceEnded(9, 0, A, "pruned"), "Ended 42.1: a beam that lost"),
        (
            ev.Preempted(9, 0, 42, ev.PreemptionMode.SWAP, "45 needs 1 block", 1),
            "Preempted 42, swapped to host: 45 needs 1 block",
        ),
        (ev.SwappedOut(9, 0, (A, B), (1, 2), (3, 4)), "Swapped out 42.1, 45: 2 blocks to host"),
        (ev.SwappedIn(9, 0, (A,), (1,), (3,)), "Swapped in 42.1: 1 block from host"),
        (ev.Resumed(9, 0, 42), "Resumed 42"),
        (ev.Copied(9, 0, 207, 209, A, 8), "Copied 207 → 209: 42.1 writes its block [8], shared until now"),
        (ev.Evicted(9, 0, (3, 4, 5, 9)), "Evicted 3-5, 9, the pool needed room"),
    ],
)
def test_each_event_has_its_words(event: ev.AnyEvent, text: str) -> None:
    assert words(event) == text


def test_an_arrival_names_prompt_samples_and_label() -> None:
    event = ev.Arrived(9, 0, 42, (1,) * 1200, 200, 4, 1, "four drafts")
    assert words(event) == "Arrived 42 (four drafts): 1,200 tokens in, up to 200 out, 4 samples"


def test_text_of_a_request_is_made_visible() -> None:
    event = ev.Arrived(9, 0, 42, (1,), 2, 1, 1, "[red]\x1b[31m")
    assert "([red]␛[31m)" in words(event)
    assert "␛]0;x␇" in words(ev.Rejected(9, 0, 42, "\x1b]0;x\x07"))


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        ((318,), "318"),
        ((12, 13, 14, 40), "12-14, 40"),
        ((9, 8, 7, 3), "7-9, 3"),
        ((1, 3, 5, 7, 9, 11), "1, 3, 5, 7 and 2 more"),
    ],
)
def test_runs_of_blocks_are_joined(blocks: tuple[int, ...], text: str) -> None:
    assert ranges(blocks) == text


def log(*events: ev.AnyEvent, most: int = 99) -> list[str]:
    ordered = [msgspec.structs.replace(event, order=number) for number, event in enumerate(events)]
    return [f"{event.step} {told[1]} {told[2]}" for event, told in log_lines(ordered, most)]


def test_an_eviction_names_who_got_the_block() -> None:
    assert log(ev.Evicted(9, 0, (318,)), ev.Allocated(9, 0, (318,), B, 3)) == ["9 Evicted 318, now 45[3]"]


def test_evictions_in_a_row_share_a_line() -> None:
    found = log(
        ev.Resumed(6, 0, 1),
        ev.Evicted(7, 0, (1, 2)),
        ev.Allocated(7, 0, (1, 2), A, 0),
        ev.Evicted(9, 0, (3,)),
        ev.Allocated(9, 0, (3,), B, 3),
        ev.Resumed(9, 0, 2),
        ev.Evicted(9, 0, (4,)),
    )
    assert found == [
        "6 Resumed 1",
        "9 Evicted 3 blocks since step 7, last 3, now 45[3]",
        "9 Resumed 2",
        "9 Evicted 4, the pool needed room",
    ]


def test_the_log_keeps_the_newest_lines() -> None:
    events = [ev.Resumed(step, 0, step) for step in range(10)]
    assert log(*events, most=3) == ["7 Resumed 7", "8 Resumed 8", "9 Resumed 9"]


def test_what_the_next_line_says_needs_no_line() -> None:
    arrived = ev.Arrived(9, 0, 42, (1,), 2, 1, 1, "")
    admitted = ev.Admitted(9, 0, 42, A, 1, 0, True)
    assert log(arrived, admitted) == ["9 Admitted 42: 1 token"]
    assert len(log(arrived, ev.Resumed(9, 0, 1), admitted)) == 3
    assert len(log(arrived, ev.Admitted(9, 0, 41, sequence_id(41), 1, 0, True))) == 2
    ended, finished = ev.SequenceEnded(9, 0, A, "length"), ev.Finished(9, 0, 42, ev.FinishReason.LENGTH)
    assert log(ended, finished) == ["9 Finished 42: its length"]


def test_what_changes_too_often_has_no_line() -> None:
    assert narrate(ev.Advanced(9, 0, A, (1,), 2)) is None
    assert log(ev.Allocated(9, 0, (3,), A, 0), ev.Shared(9, 0, (4,), A, 1), ev.StepBegan(9, 0)) == []


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (ev.Allocated(9, 0, (12, 13, 14), A, 3), "Allocated 42.1[3-5]: 12-14"),
        (ev.Shared(9, 0, (4,), B, 0), "Shared 45[0]: 4, which held its tokens already"),
        (ev.Released(9, 0, (5, 4), B, ev.Tier.DEVICE), "Released 45: 4-5"),
        (ev.Released(9, 0, (5,), B, ev.Tier.HOST), "Released 45: host 5"),
        (ev.Freed(9, 0, (5,), ev.QueueEnd.FRONT, ev.Tier.DEVICE), "Freed 5: front of the queue"),
        (
            ev.Freed(9, 0, (5,), ev.QueueEnd.BACK, ev.Tier.DEVICE),
            "Freed 5: back of the queue, still cached",
        ),
        (ev.Cached(9, 0, (5, 9), B, 1, (1, 2), (0, 1)), "Cached 45[1-2]: 5, 9"),
        (ev.Waited(9, 0, 42, "max\x1b sequences"), "Waits 42: max␛ sequences"),
        (ev.Held(9, 0, A), "Held 42.1: at its length, for now"),
        (ev.Advanced(9, 0, A, (7,), 1300), "Advanced 42.1: 1,300 stored, 1 token generated"),
        (ev.Advanced(9, 0, A, (), 64), "Advanced 42.1: 64 stored"),
        (
            ev.StepEnded(9, 0, 40, 24, 0.001, 0.008, 0.001),
            "Step ended 40 tokens, 24 of them prefill in 10.0 ms, model 80 %",
        ),
        (ev.StepEnded(9, 0, 1, 0, 0, 0, 0), "Step ended 1 token"),
        (ev.Resumed(9, 0, 42), "Resumed 42"),
    ],
)
def test_every_event_can_be_described(event: ev.AnyEvent, text: str) -> None:
    _, word, rest = describe(event)
    assert f"{word} {rest}" == text
