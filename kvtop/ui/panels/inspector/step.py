"""The page of the newest step, which is shown while nothing is selected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kvtop.memory import events as ev
from kvtop.memory.events import branch_of, request_of
from kvtop.timeline.snapshot import Read, Snapshot, StepFigures
from kvtop.ui.draw.bars import Part
from kvtop.ui.draw.lines import Line
from kvtop.ui.draw.palette import ink_index
from kvtop.ui.draw.text import count, duration, first_fit, rate, size, visible
from kvtop.ui.frame.view import View
from kvtop.ui.panels.inspector.sections import (
    LABEL,
    Section,
    Words,
    figures,
    hint,
    items,
    one_line,
    page,
    share_bar,
    text_lines,
)

HINT = "Select a sequence or a block."
COLUMNS = 48
"""Cells that a line of the batch takes."""
BAR_AT = 44
"""Cells from which on there are bars."""
NOTED: tuple[tuple[type[ev.Event], str], ...] = (
    (ev.Preempted, "preempted"),
    (ev.Resumed, "resumed"),
    (ev.Admitted, "admitted"),
    (ev.Finished, "finished"),
    (ev.Aborted, "aborted"),
    (ev.Rejected, "rejected"),
    (ev.Evicted, "evicted"),
    (ev.Copied, "copied"),
    (ev.Allocated, "allocated"),
    (ev.Freed, "freed"),
)
"""What of a step's events is counted, the rarest first. Evictions, allocations and frees count blocks."""


def step_page(view: View, snapshot: Snapshot, width: int, height: int | None) -> list[Line]:
    """The newest step in at most `height` lines of `width` cells; None leaves nothing out."""
    room = max(1, width - LABEL - 1)
    done = snapshot.figures
    sections: list[Section] = []
    if done is None:
        words = "no step has run yet" if not snapshot.step else "figures not published"
        sections.append(text_lines("step", words, view.palette.style("faint"), room, 0))
    else:
        sections += [_tokens(view, done, room), *_times(view, done, room)]
    if done is not None:
        sections += [_read(view, snapshot, done, room), *_speed(view, done, room)]
    sections += _happened(view, snapshot, room)
    if snapshot.reads:
        sections.append(_batch(view, snapshot, room))
    sections.append(hint(view, HINT, room, 8))
    return page(sections, height, view.palette)


def _tokens(view: View, done: StepFigures, room: int) -> Section:
    """What was scheduled, and the shares of prefill and decode."""
    style, glyphs = view.palette.style, view.glyphs
    total, prefill = done.scheduled_tokens, done.prefill_tokens
    decode = total - prefill
    if not total:
        return one_line("tokens", (("none scheduled", style("faint")),), 0)
    if prefill and decode:
        words = [
            f"{count(total)} scheduled: {count(prefill)} prefill, {count(decode)} decode",
            f"{count(prefill)} prefill + {count(decode)} decode",
        ]
    else:
        kind = "prefill" if prefill else "decode"
        words = [f"{count(total)} scheduled, all {kind}", f"{count(total)} {kind}"]
    parts = [(prefill, glyphs.shared, style("primary")), (decode, glyphs.full, style("good"))]
    return _barred(view, "tokens", parts, total, words, room, 0)


def _times(view: View, done: StepFigures, room: int) -> list[Section]:
    """How long the step took, and what took its time."""
    style, glyphs = view.palette.style, view.glyphs
    spent = (done.schedule_seconds, done.run_seconds, done.update_seconds)
    total = sum(spent)
    if total <= 0:
        return [one_line("time", (("not published", style("faint")),), 1)]
    shares = [f"{100 * part / total:.0f} %" for part in spent]
    schedule, run, update = map(duration, spent)
    words = [
        f"{duration(total)}: schedule {shares[0]}, model {shares[1]}, update {shares[2]}",
        f"{duration(total)}, model {shares[1]}",
    ]
    marks = (
        (glyphs.wasted, style("warning")),
        (glyphs.full, style("used")),
        (glyphs.shared, style("muted")),
    )
    parts = [(round(part * 1e9), *mark) for part, mark in zip(spent, marks, strict=True)]
    detail = f"schedule {schedule} · model {run} · update {update}"
    sections = [_barred(view, "time", parts, round(total * 1e9), words, room, 1)]
    if len(detail) <= room:
        sections.append(one_line("", figures(view, detail), 7))
    return sections


def _barred(
    view: View,
    label: str,
    parts: list[Part],
    total: int,
    words: list[str],
    room: int,
    rank: int,
) -> Section:
    """A bar of shares with words behind it; without the bar where there is little room."""
    line: Words = ()
    if room >= BAR_AT:
        line = (*share_bar(view, parts, total, room // 3), ("  ", view.palette.style("text")))
    left = room - sum(len(text) for text, _ in line)
    return one_line(label, line + figures(view, first_fit(words, left)), rank)


def _batch(view: View, snapshot: Snapshot, room: int) -> Section:
    """The sequences of the step: their names, and where there is room what attention read for each."""
    names = [_name(view, read) for read in snapshot.reads]
    plain = items("batch", names, room, 2, view)
    if room < COLUMNS:
        return plain
    style, each = view.palette.style, snapshot.source.bytes_per_block
    widest = max(len(read.name) for read in snapshot.reads)
    lines: list[Words] = []
    for name, read in zip(names, snapshot.reads, strict=True):
        words = f"{count(read.tokens):>8} positions {count(len(read.table)):>6} blocks"
        if each is not None:
            words += f" {size(read.tokens * each / snapshot.source.block_size):>10}"
        pad = " " * (widest - len(read.name))
        lines.append((*name, (pad, style("text")), *figures(view, words)))

    def make(number: int) -> Sequence[Words]:
        if number >= len(lines):
            return lines
        rest = items("", names[max(0, number - 1) :], room, 0, view)
        # Lines of their own for some, but only if all the others are still named.
        return [*lines[: number - 1], *rest.make(1)] if rest.wanted == 1 else plain.make(number)

    return Section("batch", max(len(lines), plain.wanted), make, 6, least=plain.wanted)


def _name(view: View, read: Read) -> Words:
    """A sequence of the step in the colour of its blocks."""
    ink = ink_index(request_of(read.sequence), branch_of(read.sequence))
    return ((visible(read.name), view.palette.chip(ink)),)


def _read(view: View, snapshot: Snapshot, done: StepFigures, room: int) -> Section:
    """What attention read of the cache."""
    positions = sum(read.tokens for read in snapshot.reads)
    number = len(snapshot.reads)
    of = f"{count(positions)} positions of {count(number)} sequence{'' if number == 1 else 's'}"
    if done.kv_bytes_read is None:
        words = [f"{of}; bytes not published", of, f"{count(positions)} positions"]
    else:
        words = [f"{size(done.kv_bytes_read)} of K/V: {of}", f"{size(done.kv_bytes_read)} of K/V"]
    return one_line("read", figures(view, first_fit(words, room)), 3)


def _speed(view: View, done: StepFigures, room: int) -> list[Section]:
    """Rates over the last seconds."""
    parts = []
    if done.tokens_per_second is not None:
        parts.append(f"{rate(done.tokens_per_second)} tokens/s")
    if done.steps_per_second is not None:
        parts.append(f"{rate(done.steps_per_second)} steps/s")
    if not parts:
        return []
    return [one_line("speed", figures(view, first_fit([" · ".join(parts), parts[0]], room)), 4)]


def _happened(view: View, snapshot: Snapshot, room: int) -> list[Section]:
    """How often what happened in the step."""
    seen: Counter[type] = Counter()
    for event in reversed(snapshot.trace):
        if event.step != snapshot.step:
            break
        seen[type(event)] += (
            len(event.blocks) if isinstance(event, ev.Evicted | ev.Allocated | ev.Freed) else 1
        )
    parts = [figures(view, f"{count(seen[kind])} {word}") for kind, word in NOTED if seen[kind]]
    return [items("events", parts, room, 5, view)] if parts else []
