"""Which events a person wants to see: by kind, block, sequence or words. Pure functions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from kvtop.memory import events as ev
from kvtop.memory.events import AnyEvent, parse_sequence, request_of
from kvtop.ui.frame.narration import describe

Moment = tuple[int, int]
"""Step, and order within it."""

KINDS: dict[str, tuple[type[ev.Event], ...]] = {
    **{kind.__name__.lower(): (kind,) for kind in ev.AnyEvent.__args__},
    "ended": (ev.SequenceEnded,),
    "step": (ev.StepBegan, ev.StepEnded),
    "swapped": (ev.SwappedOut, ev.SwappedIn),
    "waits": (ev.Waited,),
}
"""Words that name kinds of events."""
_SWAPS = (ev.SwappedOut, ev.SwappedIn)
_ABOUT_BLOCKS = (ev.Allocated, ev.Cached, ev.Evicted, ev.Shared)
_ONE_SEQUENCE = (
    ev.Allocated, ev.Cached, ev.Released, ev.SequenceEnded, ev.Shared,
    ev.Copied, ev.Admitted, ev.Advanced, ev.Held,
)  # fmt: skip
_ONE_REQUEST = (
    ev.Waited, ev.Arrived, ev.Admitted, ev.Finished, ev.Preempted, ev.Resumed, ev.Rejected, ev.Aborted
)  # fmt: skip


def moment(event: AnyEvent) -> Moment:
    """When it happened."""
    return event.step, event.order


def device_blocks(event: AnyEvent) -> tuple[int, ...]:
    """The device blocks that an event is about, in its order; of a copy the copy first."""
    if isinstance(event, _ABOUT_BLOCKS):
        return event.blocks
    if isinstance(event, ev.Released | ev.Freed):
        return event.blocks if event.tier is ev.Tier.DEVICE else ()
    if isinstance(event, ev.Copied):
        return event.destination, event.source
    return event.device_blocks if isinstance(event, _SWAPS) else ()


def sequences_of(event: AnyEvent) -> tuple[int, ...]:
    """The sequences that an event names; none for one that is about a request or blocks alone."""
    if isinstance(event, _ONE_SEQUENCE):
        return (event.sequence,)
    if isinstance(event, ev.Forked):
        return event.child, event.parent
    return event.sequences if isinstance(event, _SWAPS) else ()


def request_in(event: AnyEvent) -> int | None:
    """The request that an event is about; None for one about blocks or a step alone."""
    if isinstance(event, _ONE_REQUEST):
        return event.request
    sequences = sequences_of(event)
    return request_of(sequences[0]) if sequences else None


# -- the filter's language --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kind:
    kinds: tuple[type[ev.Event], ...]

    def finds(self, event: AnyEvent) -> bool:
        return type(event) in self.kinds


@dataclass(frozen=True, slots=True)
class _Block:
    block: int

    def finds(self, event: AnyEvent) -> bool:
        return self.block in device_blocks(event)


@dataclass(frozen=True, slots=True)
class _Sequence:
    sequence: int
    branch: bool
    """Whether one branch is meant; else all of the request."""

    def finds(self, event: AnyEvent) -> bool:
        if self.branch:
            return self.sequence in sequences_of(event)
        return request_in(event) == request_of(self.sequence)


@dataclass(frozen=True, slots=True)
class _Words:
    text: str

    def finds(self, event: AnyEvent) -> bool:
        _, word, rest = describe(event)
        return self.text in f"{word} {rest}".casefold()


_Term = _Kind | _Block | _Sequence | _Words


@dataclass(frozen=True, slots=True)
class EventFilter:
    """What to look for among events, read from a line such as `evicted`, `block 131`, `sequence 42 cached`.

    Words name kinds of events where they can (`preempted`, `step`); `block N` and `sequence N` (`N.M` for one
    branch) mean what an event is about, and anything else is looked for in the event's line, whatever its
    case. All words of an alternative must fit; `|` stands between alternatives. An empty line fits all.
    """

    text: str = ""

    @property
    def _alternatives(self) -> list[list[_Term]]:
        return [terms for part in self.text.split("|") if (terms := _terms(part.casefold().split()))]

    def among(self, happened: Sequence[AnyEvent]) -> list[AnyEvent]:
        """Those events that fit, in their order."""
        alternatives = self._alternatives
        if not alternatives:
            return list(happened)
        if len(alternatives) == 1:
            found = list(happened)
            for term in alternatives[0]:
                found = [event for event in found if term.finds(event)]
            return found
        return [
            event
            for event in happened
            if any(all(term.finds(event) for term in terms) for terms in alternatives)
        ]


def _terms(words: list[str]) -> list[_Term]:
    """The terms of one alternative."""
    terms: list[_Term] = []
    place = 0
    while place < len(words):
        word = words[place]
        about = _about(word, words[place + 1]) if place + 1 < len(words) else None
        if about is not None:
            terms.append(about)
            place += 1
        else:
            terms.append(_Kind(KINDS[word]) if word in KINDS else _Words(word))
        place += 1
    return terms


def _about(word: str, name: str) -> _Term | None:
    """What `block 131` or `sequence 42.1` means; None when the second word is no such name."""
    try:
        if word == "block":
            return _Block(int(name))
        if word in ("sequence", "request"):
            return _Sequence(parse_sequence(name), "." in name)
    except ValueError:
        return None
    return None


class Filtered:
    """The events of a growing trace that fit a filter, kept up so that only new ones are looked at."""

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []
        """Oldest first."""
        self._trace: Sequence[AnyEvent] = ()
        self._filter = EventFilter()

    def update(self, trace: Sequence[AnyEvent], wanted: EventFilter) -> list[AnyEvent]:
        """The events of `trace`, which is in order of time, that fit. The list is the same one every time."""
        if trace is self._trace and wanted == self._filter:
            return self.events
        old = self._trace
        if wanted != self._filter or not old or not trace or not _goes_on(old, trace):
            self.events[:] = wanted.among(trace)
        else:
            newest = moment(old[-1])
            new = len(trace)
            while new and moment(trace[new - 1]) > newest:
                new -= 1
            del self.events[: bisect_left(self.events, moment(trace[0]), key=moment)]
            self.events += wanted.among(trace[new:])
        self._trace, self._filter = trace, wanted
        return self.events


def _goes_on(old: Sequence[AnyEvent], trace: Sequence[AnyEvent]) -> bool:
    """Whether `trace` is `old` with its beginning lost and more at its end."""
    return moment(trace[0]) >= moment(old[0]) and moment(trace[-1]) >= moment(old[-1])
