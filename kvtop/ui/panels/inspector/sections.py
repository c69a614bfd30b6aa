"""Sections of an inspector's page: labelled lines that give way to each other where there is little room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rich.cells import cell_len
from rich.style import Style

from kvtop.ui.draw.bars import Part, bar
from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.draw.palette import Palette
from kvtop.ui.draw.text import ELLIPSIS, count, head, tail, wrap
from kvtop.ui.frame.view import View

LABEL = 9
"""Cells of a label, with the blank before it."""
GAP = 2
"""Cells between items in a row."""
BAR = 24
"""Cells of a bar where there is room."""

Words = tuple[tuple[str, Style], ...]
"""Text and style of parts of a line."""
Shown = Sequence[Words]


@dataclass(frozen=True, slots=True)
class Section:
    """Lines under one label. `make(n)` gives at most `n` of them, marked where something is left out."""

    label: str
    wanted: int
    """Lines that show everything."""
    make: Callable[[int], Shown]
    rank: int
    """Who gets lines first where there are few: the lowest."""
    least: int = 1
    """Lines that it gets before sections of a higher rank get more than their own least."""


def page(sections: Sequence[Section], height: int | None, palette: Palette) -> list[Line]:
    """The sections below each other in at most `height` lines; all of their lines when it is None."""
    given = _shares(sections, height)
    lines: list[Line] = []
    for section, number in zip(sections, given, strict=True):
        if number:
            for index, words in enumerate(section.make(number)):
                label = f" {section.label}" if index == 0 else ""
                line = LineBuilder().cell(label, LABEL, palette.style("muted"))
                for text, style in words:
                    line.put(text, style)
                lines.append(line.line())
    return lines


def _shares(sections: Sequence[Section], height: int | None) -> list[int]:
    """Lines of every section."""
    if height is None:
        return [section.wanted for section in sections]
    given, left = [0] * len(sections), height
    ranked = sorted(range(len(sections)), key=lambda index: sections[index].rank)
    for whole in (False, True):
        for index in ranked:
            section = sections[index]
            most = section.wanted if whole else min(section.least, section.wanted)
            more = min(left, most - given[index])
            given[index] += more
            left -= more
    return given


# -- kinds of sections ------------------------------------------------------------------------------------


def one_line(label: str, words: Words, rank: int) -> Section:
    """A single line."""
    return Section(label, 1, lambda number: [words], rank)


def figures(view: View, text: str, ink: str = "text") -> Words:
    """Text with its figures bright and its other words muted."""
    parts = []
    for number, word in enumerate(text.split(" ")):
        bright = word.lstrip("(")[:1].isdigit()
        parts.append((" " + word if number else word, view.palette.style(ink if bright else "muted")))
    return tuple(parts)


def text_lines(
    label: str, text: str, style: Style, room: int, rank: int, *, least: int = 1, newest: bool = False
) -> Section:
    """Text broken into lines of `room` cells; cut at its beginning when the newest is wanted, else at its
    end."""
    lines = wrapped(text, room)

    def make(number: int) -> Shown:
        if number >= len(lines):
            kept = list(lines)
        elif newest:
            # One line is filled to its end; of several only the last changes while the text grows.
            kept = [tail(text, room)] if number == 1 else [*lines[-number:]]
            if number > 1:
                kept[0] = tail(ELLIPSIS + kept[0], room)
        else:
            kept = list(lines[:number])
            kept[-1] = head(kept[-1] + ELLIPSIS, room)
        return [((line, style),) for line in kept]

    return Section(label, len(lines), make, rank, least)


@lru_cache(8)
def wrapped(text: str, room: int) -> tuple[str, ...]:
    """`wrap`, remembered: a prompt is the same in every frame."""
    return tuple(wrap(text, room))


def newest(label: str, entries: Sequence[Shown], rank: int, *, least: int = 1) -> Section:
    """Entries of some lines each, oldest first. The last ones are kept, whole where there is room for one."""

    def make(number: int) -> Shown:
        kept: list[Words] = []
        for entry in reversed(entries):
            if len(kept) + len(entry) > number:
                break
            kept = [*entry, *kept]
        return kept or _cut(entries[-1], number)

    return Section(label, sum(map(len, entries)), make, rank, least)


def _cut(entry: Shown, number: int) -> Shown:
    """The first lines of an entry, marked where it goes on. A page leaves a blank at its right for that."""
    *before, (text, style) = entry[number - 1]
    return [*entry[: number - 1], (*before, (text + ELLIPSIS, style))]


def items(label: str, parts: Sequence[Words], room: int, rank: int, view: View, *, least: int = 1) -> Section:
    """Items in rows of `room` cells, none broken; where some do not fit the last line says how many more."""
    rows = flow(parts, room)
    style = view.palette.style

    def make(number: int) -> Shown:
        if number >= len(rows):
            return [joined(row, style("text")) for row in rows]
        kept = rows[:number]
        left = len(parts) - sum(map(len, kept))
        last = list(kept[-1])
        while len(last) > 1 and _width(last) + len(_more(left)) > room:
            last.pop()
            left += 1
        more = ((head(_more(left), max(0, room - _width(last))), style("faint")),)
        return [*(joined(row, style("text")) for row in kept[:-1]), joined(last, style("text")) + more]

    return Section(label, len(rows), make, rank, least)


def _more(left: int) -> str:
    return f" and {count(left)} more"


def flow(parts: Sequence[Words], room: int) -> list[list[Words]]:
    """Items put into rows of at most `room` cells; one that is wider stands alone."""
    rows: list[list[Words]] = []
    used = 0
    for part in parts:
        size = sum(cell_len(text) for text, _ in part)
        if rows and used + GAP + size <= room:
            rows[-1].append(part)
            used += GAP + size
        else:
            rows.append([part])
            used = size
    return rows


def joined(row: Sequence[Words], blank: Style) -> Words:
    """A row of items with blanks between them."""
    out: list[tuple[str, Style]] = []
    for part in row:
        if out:
            out.append((" " * GAP, blank))
        out += part
    return tuple(out)


def _width(row: Sequence[Words]) -> int:
    return sum(cell_len(text) for part in row for text, _ in part) + GAP * (len(row) - 1)


def share_bar(view: View, parts: Sequence[Part], total: int, room: int) -> Words:
    """A bar of the shares that parts have, in the cells there are."""
    line = LineBuilder()
    bar(line, parts, total, min(BAR, room), view.palette)
    return line.line()


def hint(view: View, text: str, room: int, rank: int) -> Section:
    """Faint words across the page, for somebody who sees it for the first time."""
    return text_lines("", text, view.palette.style("faint"), room, rank)
