"""Filters of events, and the list of those that fit."""

from __future__ import annotations

import msgspec
import pytest

from kvtop.memory import events as ev
from kvtop.memory.events import sequence_id
from kvtop.ui.frame import event_filter
from kvtop.ui.frame.event_filter import EventFilter, Filtered, device_blocks, moment, request_in, sequences_of

A, B = sequence_id(42, 1), sequence_id(42, 2)
C = sequence_id(7)
TRACE = [
    ev.Admitted(3, 0, 42, A, 130, 64, True),
    ev.Evicted(3, 1, (131, 5)),
    ev.Allocated(3, 2, (131,), A, 3),
    ev.Cached(3, 3, (9,), C, 0, (1,), (0,)),
    ev.Copied(4, 0, 131, 12, B, 3),
    ev.Preempted(4, 1, 7, ev.PreemptionMode.SWAP, "42.1 needed 2 more blocks", 2),
    ev.SwappedOut(4, 2, (C,), (9,), (131,)),
    ev.Freed(4, 3, (131,), ev.QueueEnd.FRONT, ev.Tier.HOST),
    ev.SequenceEnded(4, 4, A, "length"),
    ev.StepEnded(4, 5, 3, 0, 0.0, 0.001, 0.0),
]


def kinds(text: str) -> list[str]:
    return [type(event).__name__ for event in EventFilter(text).among(TRACE)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [type(event).__name__ for event in TRACE]),
        ("evicted", ["Evicted"]),
        ("EVICTED", ["Evicted"]),
        ("swappedout", ["SwappedOut"]),
        ("swapped", ["SwappedOut"]),
        ("ended", ["SequenceEnded"]),
        ("step", ["StepEnded"]),
        ("block 131", ["Evicted", "Allocated", "Copied"]),
        ("block 9", ["Cached", "SwappedOut"]),
        ("sequence 42", ["Admitted", "Allocated", "Copied", "SequenceEnded"]),
        ("sequence 42.2", ["Copied"]),
        ("sequence 42.1", ["Admitted", "Allocated", "SequenceEnded"]),
        ("request 7", ["Cached", "Preempted", "SwappedOut"]),
        ("evicted | copied", ["Evicted", "Copied"]),
        ("evicted block 5 | allocated block 5", ["Evicted"]),
        ("sequence 42 its length", ["SequenceEnded"]),
        ("NEEDED room", ["Evicted"]),
        ("prefix cache", ["Admitted"]),
        ("nothing of the kind", []),
        (" | evicted | ", ["Evicted"]),
    ],
)
def test_the_filter_is_read_as_it_is_typed(text: str, expected: list[str]) -> None:
    assert kinds(text) == expected


@pytest.mark.parametrize("text", ["block", "block x", "block 1.5", "sequence", "sequence one", "[red", "*"])
def test_what_means_nothing_yet_is_looked_for_as_words(text: str) -> None:
    assert all(name in ("Evicted", "Copied", "Preempted", "SwappedOut") for name in kinds(text))


def test_every_kind_says_what_it_is_about() -> None:
    for kind in ev.AnyEvent.__args__:
        names = {field.name for field in msgspec.structs.fields(kind)}
        known = kind in (*event_filter._ONE_SEQUENCE, *event_filter._ONE_REQUEST)
        assert known == bool(names & {"sequence", "request"}), kind
        assert kind.__name__.lower() in event_filter.KINDS
    assert device_blocks(TRACE[7]) == ()
    assert device_blocks(TRACE[4]) == (12, 131)
    assert (sequences_of(ev.Forked(1, 0, A, B)), request_in(ev.Forked(1, 0, A, B))) == ((B, A), 42)
    assert request_in(TRACE[1]) is None
    assert request_in(TRACE[5]) == 7


def steps(first: int, end: int) -> list[ev.AnyEvent]:
    made: list[ev.AnyEvent] = []
    for step in range(first, end):
        made += [ev.Resumed(step, 0, step), ev.Evicted(step, 1, (step,))]
    return made


def test_only_new_events_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[ev.AnyEvent] = []
    among = EventFilter.among

    def counted(self: EventFilter, happened):
        looked.extend(happened)
        return among(self, happened)

    monkeypatch.setattr(EventFilter, "among", counted)
    filtered, wanted = Filtered(), EventFilter("evicted")
    first = steps(0, 10)
    assert [moment(event) for event in filtered.update(first, wanted)] == [(step, 1) for step in range(10)]
    looked.clear()
    assert filtered.update(first, EventFilter("evicted")) is filtered.events
    assert not looked
    # The trace lost its first five steps and got two more.
    found = filtered.update(steps(5, 12), wanted)
    assert [moment(event) for event in found] == [(step, 1) for step in range(5, 12)]
    assert len(looked) == 4


def test_another_filter_or_another_run_is_looked_at_anew() -> None:
    filtered = Filtered()
    filtered.update(steps(0, 10), EventFilter("evicted"))
    assert len(filtered.update(steps(0, 10), EventFilter())) == 20
    assert [event.step for event in filtered.update(steps(2, 4), EventFilter("evicted"))] == [2, 3]
    assert [event.step for event in filtered.update(steps(90, 92), EventFilter("evicted"))] == [90, 91]
    assert filtered.update((), EventFilter("evicted")) == []
