"""A pool drawn as a strip of cells, in proportion: who takes what of it, and how much of that is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from rich.style import Style

from kvtop.analysis.reservations import Reservation
from kvtop.ui.draw.lines import Line
from kvtop.ui.draw.palette import ink_index
from kvtop.ui.frame.view import View


class Fill(IntEnum):
    """What a cell of the strip stands for."""

    FREE = 0
    CACHED = 1
    USED = 2
    LATER = 3
    NEVER = 4


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of slots of one kind."""

    slots: int
    fill: Fill
    request: int = -1
    """Whose they are; -1 for nobody's."""


def parts_of(held: Reservation) -> list[Part]:
    """The strip of a reservation: its regions one after the other, what is cached, and what is free."""
    parts: list[Part] = []
    for region in held.regions:
        parts.append(Part(region.used, Fill.USED, region.request))
        parts.append(Part(region.later, Fill.LATER, region.request))
        parts.append(Part(region.never, Fill.NEVER, region.request))
    parts.append(Part(held.cached, Fill.CACHED))
    parts.append(Part(max(0, held.slots - held.reserved - held.cached), Fill.FREE))
    return parts


def runs_of(parts: Sequence[Part], slots: int, cells: int) -> list[tuple[Part, int]]:
    """How many of `cells` equal cells of a pool of `slots` each part gets, in order.

    Ends are rounded from the beginning of the strip, so no error adds up; a part below half a cell may not be
    seen. Cells beyond all parts are free.
    """
    if slots < 1 or cells < 1:
        return []
    ends = np.rint(np.cumsum([part.slots for part in parts]) * cells / slots).astype(int)
    numbers = np.diff(np.minimum(ends, cells), prepend=0).tolist()
    runs = [(part, number) for part, number in zip(parts, numbers, strict=True) if number]
    left = cells - sum(numbers)
    return [*runs, (Part(left, Fill.FREE), left)] if left else runs


def strip_lines(view: View, held: Reservation, width: int, rows: int) -> list[Line]:
    """The strip in `rows` lines of `width` cells, in the owners' colours, with one blank at either side.

    A request's name stands where its slots begin, if it fits.
    """
    inner = max(1, width - 2)
    blank = (" ", view.palette.style("text"))
    lines: list[list[tuple[str, Style]]] = [[blank] for _ in range(rows)]
    place, last = 0, -1
    for part, number in runs_of(parts_of(held), held.slots, inner * rows):
        name = str(part.request) if part.request not in (last, -1) else ""
        last = part.request
        glyph, style = look(view, part)
        while number:
            row, column = divmod(place, inner)
            here = min(number, inner - column)
            if name and len(name) < here:
                lines[row] += [(name, _named(view, part)), (glyph * (here - len(name)), style)]
            else:
                lines[row].append((glyph * here, style))
            place, number, name = place + here, number - here, ""
    return [(*line, blank) for line in lines]


def _named(view: View, part: Part) -> Style:
    """The style of a name: dark on its owner's colour."""
    ink = view.palette.inks[ink_index(part.request)][4]
    return Style(color=view.palette.background, bgcolor=ink, bold=True)


def look(view: View, part: Part) -> tuple[str, Style]:
    """Glyph and style of a kind of slots."""
    palette, glyphs = view.palette, view.glyphs
    match part.fill:
        case Fill.USED:
            style = palette.chip(ink_index(part.request)) if part.request >= 0 else palette.style("used")
            return glyphs.full, style
        case Fill.LATER:
            ink = palette.inks[ink_index(part.request)][2] if part.request >= 0 else palette.muted
            return glyphs.shared, Style(color=ink, bgcolor=palette.track)
        case Fill.NEVER:
            return glyphs.wasted, palette.style("warning", "track")
        case Fill.CACHED:
            return glyphs.cached, palette.style("cached", "cached_track")
    return " ", palette.style("text", "track")
