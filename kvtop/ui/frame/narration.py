"""Events in words, for the log: what happened, to whom, and why."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from kvtop.memory import events as ev
from kvtop.memory.events import AnyEvent, request_of, sequence_name
from kvtop.ui.draw.text import count, duration, visible


class Tone(Enum):
    """How much a line matters, and so its colour: a key of the palette."""

    GOOD = "good"
    CALM = "muted"
    NOTABLE = "primary"
    WARNING = "warning"
    ERROR = "error"


Told = tuple[Tone, str, str]
"""Tone, first word, and the rest of a line."""


def narrate(event: AnyEvent) -> Told | None:
    """Tone, first word and the rest of an event's line; None for events that the log leaves out.

    Every text that comes from a request is made visible.
    """
    match event:
        case ev.Arrived():
            return Tone.CALM, "Arrived", _arrived(event)
        case ev.Admitted(request=request, prompt_tokens=prompt, prefix_hit_tokens=hit, first=first):
            found = f", {count(hit)} of them in the prefix cache" if hit else ""
            again = "" if first else ", to be computed again"
            return Tone.GOOD, "Admitted", f"{request}: {_tokens(prompt)}{found}{again}"
        case ev.Rejected(request=request, reason=reason):
            return Tone.ERROR, "Rejected", f"{request}: {visible(reason)}"
        case ev.Finished(request=request, reason=reason):
            return Tone.CALM, "Finished", f"{request}: {_FINISH[reason]}"
        case ev.Aborted(request=request):
            return Tone.ERROR, "Aborted", f"{request}: its blocks were released"
        case ev.Forked(parent=parent, child=child):
            return (
                Tone.NOTABLE,
                "Forked",
                f"{sequence_name(child)} from {sequence_name(parent)}, sharing its blocks",
            )
        case ev.SequenceEnded(sequence=sequence, why=why):
            return Tone.CALM, "Ended", f"{sequence_name(sequence)}: {_ENDED.get(why, visible(why))}"
        case ev.Preempted(request=request, mode=mode, why=why):
            how = "swapped to host" if mode is ev.PreemptionMode.SWAP else "to be recomputed"
            return Tone.ERROR, "Preempted", f"{request}, {how}: {visible(why)}"
        case ev.SwappedOut(sequences=sequences, device_blocks=blocks):
            return Tone.WARNING, "Swapped out", f"{_names(sequences)}: {_blocks(len(blocks))} to host"
        case ev.SwappedIn(sequences=sequences, device_blocks=blocks):
            return Tone.GOOD, "Swapped in", f"{_names(sequences)}: {_blocks(len(blocks))} from host"
        case ev.Resumed(request=request):
            return Tone.GOOD, "Resumed", f"{request}"
        case ev.Evicted(blocks=blocks):
            return Tone.WARNING, "Evicted", f"{ranges(blocks)}, the pool needed room"
        case ev.Copied(source=source, destination=copy, sequence=sequence, logical=logical):
            writer = f"{sequence_name(sequence)} writes its block [{logical}], shared until now"
            return Tone.NOTABLE, "Copied", f"{source} → {copy}: {writer}"
    return None


_OFTEN = (
    ev.Allocated, ev.Shared, ev.Released, ev.Freed, ev.Cached,
    ev.Waited, ev.Held, ev.Advanced, ev.StepBegan, ev.StepEnded,
)  # fmt: skip


def describe(event: AnyEvent) -> Told:
    """Tone, first word and the rest of the line of any event: the log's words, or those for what happens too
    often for a log."""
    return _often(event) if isinstance(event, _OFTEN) else narrate(event) or _often(event)


def _often(event: AnyEvent) -> Told:
    """What happens in nearly every step, in words."""
    word, rest = "", ""
    match event:
        case ev.Allocated(blocks=blocks, sequence=sequence, logical=logical):
            word, rest = "Allocated", f"{_entries(sequence, logical, len(blocks))}: {ranges(blocks)}"
        case ev.Shared(blocks=blocks, sequence=sequence, logical=logical):
            entries = _entries(sequence, logical, len(blocks))
            word, rest = "Shared", f"{entries}: {ranges(blocks)}, which held its tokens already"
        case ev.Released(blocks=blocks, sequence=sequence, tier=tier):
            word, rest = "Released", f"{sequence_name(sequence)}: {_on(tier)}{ranges(blocks)}"
        case ev.Freed(blocks=blocks, end=end, tier=tier):
            kept = "back of the queue, still cached" if end is ev.QueueEnd.BACK else "front of the queue"
            word, rest = "Freed", f"{_on(tier)}{ranges(blocks)}: {kept}"
        case ev.Cached(blocks=blocks, sequence=sequence, logical=logical):
            word, rest = "Cached", f"{_entries(sequence, logical, len(blocks))}: {ranges(blocks)}"
        case ev.Waited(request=request, reason=reason):
            word, rest = "Waits", f"{request}: {visible(reason)}"
        case ev.Held(sequence=sequence):
            word, rest = "Held", f"{sequence_name(sequence)}: at its length, for now"
        case ev.Advanced(sequence=sequence, token_ids=token_ids, stored=stored):
            made = f", {_tokens(len(token_ids))} generated" if token_ids else ""
            word, rest = "Advanced", f"{sequence_name(sequence)}: {count(stored)} stored{made}"
        case ev.StepBegan():
            word = "Step began"
        case ev.StepEnded():
            word, rest = "Step ended", _step(event)
    return Tone.CALM, word, rest


def _step(event: ev.StepEnded) -> str:
    """What a step did, and how long it took."""
    total = event.schedule_seconds + event.run_seconds + event.update_seconds
    prefill = f", {count(event.prefill_tokens)} of them prefill" if event.prefill_tokens else ""
    time = f" in {duration(total)}, model {100 * event.run_seconds / total:.0f} %" if total > 0 else ""
    return f"{_tokens(event.scheduled_tokens)}{prefill}{time}"


def _entries(sequence: int, logical: int, number: int) -> str:
    """Entries of a block table: `42[3]`, `42[3-7]`."""
    last = f"-{logical + number - 1}" if number > 1 else ""
    return f"{sequence_name(sequence)}[{logical}{last}]"


def _on(tier: ev.Tier) -> str:
    return "host " if tier is ev.Tier.HOST else ""


def log_lines(happened: Sequence[AnyEvent], most: int) -> list[tuple[AnyEvent, Told]]:
    """The last `most` lines of the log, oldest first: the (newest) event of each, and its words.

    A full pool evicts in every step, so evictions in a row share a line; it names who got the last blocks,
    which the allocation right behind tells. Allocations as such are too many for a log: the map shows
    them. An arrival that is admitted at once, and a sequence that was its request's last, need no line.
    """
    lines: list[tuple[AnyEvent, Told]] = []
    run = _Evictions()
    later: AnyEvent | None = None
    for event in reversed(happened):
        told = None if isinstance(event, ev.Evicted) else narrate(event)
        if isinstance(event, ev.Evicted):
            run.add(event, later)
        if told is not None and not _implied(event, later):
            if run.newest is not None:
                lines.append((run.newest, run.told()))
                run = _Evictions()
            lines.append((event, told))
        if len(lines) >= most:
            return lines[:most][::-1]
        if told is not None or isinstance(event, ev.Allocated):
            later = event
    if run.newest is not None:
        lines.append((run.newest, run.told()))
    return lines[::-1]


def _implied(event: AnyEvent, later: AnyEvent | None) -> bool:
    """Whether the next line says as much."""
    match event, later:
        case ev.Arrived(request=request), ev.Admitted(request=admitted, step=step):
            return request == admitted and event.step == step
        case ev.SequenceEnded(sequence=sequence), ev.Finished(request=finished):
            return request_of(sequence) == finished
    return False


class _Evictions:
    """Evictions in a row, met from the newest to the oldest."""

    def __init__(self) -> None:
        self.newest: ev.Evicted | None = None
        self._getter = ""
        self._blocks = 0
        self._first_step = 0

    def add(self, event: ev.Evicted, later: AnyEvent | None) -> None:
        """Count one more; `later` is what came right after it."""
        if self.newest is None:
            self.newest = event
            if isinstance(later, ev.Allocated) and set(event.blocks) & set(later.blocks):
                self._getter = f", now {sequence_name(later.sequence)}[{later.logical}]"
        self._blocks += len(event.blocks)
        self._first_step = event.step

    def told(self) -> Told:
        """The line."""
        assert self.newest is not None
        last = ranges(self.newest.blocks, most=2) + self._getter
        if self._blocks == len(self.newest.blocks):
            return Tone.WARNING, "Evicted", last if self._getter else f"{last}, the pool needed room"
        since = f" since step {count(self._first_step)}" if self._first_step != self.newest.step else ""
        return Tone.WARNING, "Evicted", f"{_blocks(self._blocks)}{since}, last {last}"


_FINISH = {
    ev.FinishReason.STOP: "its end token",
    ev.FinishReason.LENGTH: "its length",
    ev.FinishReason.ABORT: "aborted",
}
_ENDED = {"stop": "its end token", "length": "its length", "abort": "aborted", "pruned": "a beam that lost"}


def _arrived(event: ev.Arrived) -> str:
    """A request in words."""
    many = (
        f", {event.n} samples"
        if event.n > 1
        else f", {event.beam_width} beams"
        if event.beam_width > 1
        else ""
    )
    label = f" ({visible(event.label)})" if event.label else ""
    prompt = _tokens(len(event.prompt_token_ids))
    return f"{event.request}{label}: {prompt} in, up to {count(event.max_new_tokens)} out{many}"


def _tokens(number: int) -> str:
    return f"{count(number)} token{'' if number == 1 else 's'}"


def _blocks(number: int) -> str:
    return f"{count(number)} block{'' if number == 1 else 's'}"


def _names(sequences: Sequence[int]) -> str:
    return ", ".join(map(sequence_name, sequences))


def ranges(blocks: Sequence[int], most: int = 4) -> str:
    """Block ids with runs joined: `318`, `12-15, 40`; beyond `most` runs how many more blocks there are."""
    parts: list[str] = []
    index = 0
    while index < len(blocks):
        if len(parts) == most:
            return f"{', '.join(parts)} and {count(len(blocks) - index)} more"
        start, step = index, 0
        if index + 1 < len(blocks) and abs(blocks[index + 1] - blocks[index]) == 1:
            step = blocks[index + 1] - blocks[index]
            while index + 1 < len(blocks) and blocks[index + 1] - blocks[index] == step:
                index += 1
        first, last = blocks[start], blocks[index]
        parts.append(f"{first}" if first == last else f"{min(first, last)}-{max(first, last)}")
        index += 1
    return ", ".join(parts)
