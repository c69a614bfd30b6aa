"""The page of a sequence or a group: its tokens, block table and text, and how often it had to give way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from kvtop.timeline.snapshot import Preemption, SequenceDetail, SequenceRow, Snapshot
from kvtop.ui.draw.lines import Line
from kvtop.ui.draw.palette import ink_index
from kvtop.ui.draw.text import count, first_fit, percent, size, tail, visible
from kvtop.ui.frame.row import TableRow, kind
from kvtop.ui.frame.view import View
from kvtop.ui.panels.inspector.sections import (
    LABEL,
    Section,
    Words,
    figures,
    items,
    newest,
    one_line,
    page,
    share_bar,
    text_lines,
    wrapped,
)

WIDE = 46
"""Cells from which on a bar says how much of a sequence is there."""
CUT = 4
"""Characters that a token has on average, from which is guessed how many fill the room."""


def sequence_page(
    view: View, snapshot: Snapshot, row: TableRow, width: int, height: int | None
) -> list[Line]:
    """A sequence or group in full, in at most `height` lines of `width` cells; None leaves nothing out."""
    room = max(1, width - LABEL - 1)
    detail = snapshot.sequence_detail
    if detail is not None and detail.id != row.sequences[0].id:
        detail = None
    sections = [_tokens(view, row, room), *_waits(view, row, room)]
    if row.figures is None:
        sections += _one(view, snapshot, row.sequences[0], room)
    else:
        sections += _group(view, row, room)
    if row.label:
        sections.append(text_lines("label", visible(row.label), view.palette.style("text"), room, 9))
    of = f" of {row.sequences[0].name}" if row.figures is not None else ""
    sections += _preemptions(view, snapshot, detail, room, of)
    if detail is not None:
        sections += _texts(view, detail, room, height, group=row.figures is not None)
    return page(sections, height, view.palette)


# -- figures ----------------------------------------------------------------------------------------------


def _tokens(view: View, row: TableRow, room: int) -> Section:
    """How long it is and may become."""
    prompt, made, most = count(row.prompt), count(row.generated), count(row.maximum)
    begun = f"{prompt} prompt + {made} generated"
    if row.figures is not None:
        words = [f"{begun}, at most {most} each", begun, f"{prompt} + {made}"]
    else:
        words = [f"{begun}, at most {most}", f"{prompt} prompt + {made} of {most} generated", begun]
        words.append(f"{prompt} + {made} of {most}")
    what = kind(row)
    if what:
        words = [f"{what} · {word}" for word in words] + words
    return one_line("tokens", figures(view, first_fit(words, room)), 0)


def _waits(view: View, row: TableRow, room: int) -> list[Section]:
    """Why it does not run."""
    if row.state not in ("waiting", "swapped") or not row.wait_reason:
        return []
    style = view.palette.style("warning")
    label = "swapped" if row.state == "swapped" else "waits"
    return [text_lines(label, visible(row.wait_reason), style, room, 1, least=2)]


def _one(view: View, snapshot: Snapshot, one: SequenceRow, room: int) -> list[Section]:
    """Stored tokens, prefix hits, blocks and block table of one sequence."""
    sections = [_stored(view, one, room)]
    if one.blocks or one.preemptions:
        sections.append(_prefix(view, one, room))
    if one.blocks:
        sections.append(_blocks(view, one, room))
        references = snapshot.blocks.ref_count if not one.on_host else None
        runs = [_run(view, *run) for run in table_runs(one.table, references)]
        sections.append(items("table", runs, room, 5, view))
    return sections


def _stored(view: View, one: SequenceRow, room: int) -> Section:
    """Tokens whose K/V is stored, and those that are still to be computed."""
    style, glyphs = view.palette.style, view.glyphs
    total = one.prompt_tokens + one.generated_tokens
    left = max(0, total - one.stored_tokens)
    stored, rest = count(one.stored_tokens), count(left)
    words = [f"{stored} of {count(total)} · {rest} to be computed", f"{stored} · {rest} to be computed"]
    if not left:
        words = [f"all {stored}"]
    line: Words = ()
    if room >= WIDE:
        parts = [(one.stored_tokens, glyphs.full, style("good")), (left, glyphs.wasted, style("warning"))]
        line = (*share_bar(view, parts, total, room - 34), ("  ", style("text")))
    used = sum(len(text) for text, _ in line)
    return one_line("stored", line + figures(view, first_fit(words, room - used)), 2)


def _slots(number: int) -> str:
    return f"{count(number)} slot{'' if number == 1 else 's'}"


def _prefix(view: View, one: SequenceRow, room: int) -> Section:
    """How much of the prompt was found in the prefix cache, and how much had to be computed."""
    hit, prompt = one.prefix_hit_tokens, one.prompt_tokens
    share = percent(hit, prompt)
    if not hit:
        words = [f"none of {count(prompt)} prompt tokens found in the cache", "nothing found in the cache"]
    else:
        found = f"{count(hit)} of {count(prompt)} prompt tokens found ({share})"
        words = [f"{found}, {count(prompt - hit)} computed", found, f"{count(hit)} found ({share})"]
    return one_line("prefix", figures(view, first_fit(words, room)), 7)


def _blocks(view: View, one: SequenceRow, room: int) -> Section:
    """How many blocks it holds, where, and what of them is wasted."""
    number = f"{count(one.blocks)} block{'' if one.blocks == 1 else 's'}"
    where = " in host memory" if one.on_host else f" · {count(one.shared_blocks)} shared"
    slots = one.stored_tokens + one.waste_slots
    share = percent(one.waste_slots, slots)
    waste = f"waste {_slots(one.waste_slots)}" + (f" ({share})" if share is not None else "")
    words = [
        f"{number}{where} · {waste}",
        f"{number}{where} · {_slots(one.waste_slots)} wasted",
        f"{number}{where}",
        number,
    ]
    return one_line("blocks", figures(view, first_fit(words, room)), 3)


Run = tuple[int, int, int, int, int]
"""First and last logical block, first and last physical block, and their reference count (0: not known)."""


def table_runs(table: NDArray[np.int32], references: NDArray[np.int32] | None) -> list[Run]:
    """A block table in stretches whose physical ids count up by one, or down, with one reference count."""
    if not len(table):
        return []
    counts = references[table] if references is not None else np.zeros(len(table), np.int32)
    runs: list[Run] = []
    first, step = 0, 0
    for index in range(1, len(table) + 1):
        if index < len(table) and counts[index] == counts[first]:
            move = int(table[index]) - int(table[index - 1])
            if move in (1, -1) and step in (0, move):
                step = move
                continue
        runs.append((first, index - 1, int(table[first]), int(table[index - 1]), int(counts[first])))
        first, step = index, 0
    return runs


def _run(view: View, first: int, last: int, start: int, end: int, references: int) -> Words:
    """A stretch as `3-5→120-122`, in the colour of its reference count."""
    style = view.palette.style
    logical = str(first) if first == last else f"{first}-{last}"
    physical = str(start) if start == end else f"{start}-{end}"
    ink = view.palette.reference(references) if references else style("text")
    return ((f"{logical}→", style("faint")), (physical, ink))


# -- groups -----------------------------------------------------------------------------------------------


def _group(view: View, row: TableRow, room: int) -> list[Section]:
    """What a group holds, each block once, and a line for every branch."""
    sections = []
    if row.blocks:
        number, shared = count(row.blocks), count(row.shared or 0)
        waste = "" if row.waste is None else f" · waste {_slots(row.waste)}"
        words = [f"{number} blocks, each once · {shared} shared{waste}", f"{number} blocks · {shared} shared"]
        sections.append(one_line("blocks", figures(view, first_fit(words, room)), 3))
    lines = [_branch(view, one, room) for one in row.sequences]
    names = [_branch_name(view, one) for one in row.sequences]

    def make(number: int) -> Sequence[Words]:
        left = len(lines) - number
        if left <= 0:
            return lines
        rest = items("", names[number - 1 :], room, 0, view).make(1)
        return [*lines[: number - 1], *rest]

    label = "beams" if row.sequences[0].beam_width > 1 else "samples" if row.sequences[0].n > 1 else "forks"
    return [*sections, Section(label, len(lines), make, 2, least=2)]


def _branch_name(view: View, one: SequenceRow) -> Words:
    """A branch in the colour of its blocks."""
    name = f".{one.branch}" if one.branch else one.name
    return ((name, view.palette.chip(ink_index(one.request, one.branch))),)


def _branch(view: View, one: SequenceRow, room: int) -> Words:
    """A branch: its name in the colour of its blocks, its figures, and the end of its text."""
    style, name = view.palette.style, _branch_name(view, one)
    blocks = f"{count(one.blocks)} blocks, {count(one.shared_blocks)} shared" if one.blocks else "no blocks"
    made = f"{count(one.generated_tokens)} generated"
    words = figures(view, first_fit([f"{made} · {blocks}", blocks], room - len(name[0][0]) - 1))
    line = (*name, (" ", style("text")), *words)
    left = room - sum(len(text) for text, _ in line) - 2
    if left >= 12 and one.tail:
        line = (*line, ("  ", style("text")), (tail(view.decode(one.tail), left), style("faint")))
    return line


# -- preemptions ------------------------------------------------------------------------------------------


def _preemptions(
    view: View, snapshot: Snapshot, detail: SequenceDetail | None, room: int, of: str
) -> list[Section]:
    """Every time that it lost its blocks: who needed them, what it cost, how long it lasted. `of` says whose
    blocks and tokens are meant, where that is not clear."""
    if detail is None or not detail.preemptions:
        return []
    lost = [_preemption(view, snapshot, preemption, room, of) for preemption in detail.preemptions]
    return [newest("lost", lost, 6, least=2)]


def _preemption(view: View, snapshot: Snapshot, lost: Preemption, room: int, of: str) -> list[Words]:
    """One preemption in words: reason, then price."""
    style = view.palette.style
    begin = f"step {count(lost.step)}: "
    why = visible(lost.why)
    if lost.blocks_short and str(lost.blocks_short) not in why:
        why += f", {count(lost.blocks_short)} short"
    lines: list[Words] = []
    for text in wrapped(why, max(8, room - len(begin))):
        lead = " " * len(begin) if lines else begin
        lines.append(((lead, style("faint")), (text, style("warning"))))
    price, lasted = _price(snapshot, lost, of), _lasted(snapshot.step, lost)
    whole = f"{price} · {lasted}"
    for part in (whole,) if len(whole) <= room - 2 else (price, lasted):
        lines += [(("  ", style("text")), *figures(view, text)) for text in wrapped(part, max(8, room - 2))]
    return lines


def _lasted(step: int, lost: Preemption) -> str:
    """How long it took until the sequence ran again."""
    if lost.resumed is None:
        return f"out for {_steps(step - lost.step)} so far"
    return f"ran again after {_steps(lost.resumed - lost.step)}"


def _steps(number: int) -> str:
    return f"{count(number)} step{'' if number == 1 else 's'}"


def _price(snapshot: Snapshot, lost: Preemption, of: str) -> str:
    """What had to be done again, or moved."""
    tokens = f"{count(lost.tokens)} token{'' if lost.tokens == 1 else 's'}"
    if lost.mode != "swap":
        done = "computed again" if lost.resumed is not None else "to be computed again"
        return f"recompute: {tokens}{of} {done}"
    each = snapshot.source.bytes_per_block
    bytes_ = f" ({size(lost.blocks * each)})" if each is not None else ""
    way = "out and back" if lost.resumed is not None else "out to host memory"
    return f"swap: {count(lost.blocks)} blocks{of}{bytes_} moved {way}"


# -- text -------------------------------------------------------------------------------------------------


def _texts(
    view: View, detail: SequenceDetail, room: int, height: int | None, *, group: bool
) -> list[Section]:
    """The prompt from its beginning, and what was generated up to its newest token."""
    style = view.palette.style
    decode: Callable[[Sequence[int]], str] = view.decode
    prompt, made = detail.prompt_token_ids, detail.generated_token_ids
    if height is None:
        before, after = decode(prompt), decode(made)
    else:
        cells = room * height
        before, after = _beginning(decode, prompt, cells), _end(decode, made, cells)
    sections = [text_lines("prompt", before.lstrip(), style("muted"), room, 8)]
    if made and not group:
        sections.append(text_lines("text", after.lstrip(), style("text"), room, 4, newest=True))
    return sections


def _beginning(decode: Callable[[Sequence[int]], str], tokens: Sequence[int], cells: int) -> str:
    """Text of the first tokens, more than `cells` characters of it where there are."""
    number = cells // CUT + 1
    while len(text := decode(tokens[:number])) <= cells and number < len(tokens):
        number *= 2
    return text


def _end(decode: Callable[[Sequence[int]], str], tokens: Sequence[int], cells: int) -> str:
    """Text of the last tokens, more than `cells` characters of it where there are."""
    number = cells // CUT + 1
    while len(text := decode(tokens[-number:])) <= cells and number < len(tokens):
        number *= 2
    return text
