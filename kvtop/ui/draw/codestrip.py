"""Strips drawn from look-up tables: an array of codes stands for a line, and is turned into ANSI directly.

Textual's own strips are lists of segments with a style each; building them for a map of 20,000 blocks that
all change costs several frames. A `CodeStrip` keeps one small integer a cell and writes the escape codes
of whole runs from a table. Segments are made only when somebody asks for them (screenshots, filters).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.color import Color, ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.cache import FIFOCache
from textual.color import Color as TextualColor
from textual.filter import ANSIToTruecolor, LineFilter
from textual.strip import Strip

Codes = NDArray[np.uint16]

HALF = "▀"
RESET = "\x1b[0m"


def runs(codes: Codes) -> tuple[list[int], list[int]]:
    """Lengths and values of the runs of equal codes, in order."""
    if not len(codes):
        return [], []
    edges = np.flatnonzero(codes[1:] != codes[:-1])
    bounds = np.empty(len(edges) + 2, np.intp)
    bounds[0], bounds[-1] = 0, len(codes)
    np.add(edges, 1, out=bounds[1:-1])
    starts = bounds[:-1]
    return (bounds[1:] - starts).tolist(), codes[starts].tolist()


class _Cells(dict[int, str]):
    """Codes to complete cells: escape codes and glyph. Made when a code is first drawn."""

    def __init__(self, make: Callable[[int], str]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, code: int) -> str:
        self[code] = made = self._make(code)
        return made


class Table(ABC):
    """What codes look like."""

    def __init__(self) -> None:
        self._cells: dict[ColorSystem, _Cells] = {}
        self._filtered: dict[tuple[LineFilter, TextualColor], FilteredTable] = {}

    @abstractmethod
    def segments(self, codes: Codes) -> list[Segment]:
        """The line as Rich segments, one a run."""

    @abstractmethod
    def cell(self, code: int, system: ColorSystem) -> tuple[str, str]:
        """SGR parameters and glyph of one cell, whatever stood before it."""

    @abstractmethod
    def render(self, codes: Codes, system: ColorSystem) -> str:
        """The line as text with ANSI escape codes, reset at its end."""

    def cells(self, system: ColorSystem) -> Mapping[int, str]:
        """Every code as its own escape codes and glyph."""
        made = self._cells.get(system)
        if made is None:
            made = self._cells[system] = _Cells(lambda code: "\x1b[{}m{}".format(*self.cell(code, system)))
        return made

    def filtered(self, line_filter: LineFilter, background: TextualColor) -> FilteredTable:
        """The same codes as a filter draws them. A filter must treat every segment for itself."""
        key = line_filter, background
        table = self._filtered.get(key)
        if table is None:
            table = self._filtered[key] = FilteredTable(self, line_filter, background)
        return table


class CodeTable(Table):
    """Every code has a glyph, a foreground and a background colour (indices into `colours`).

    Escape codes are made when a code is first drawn in a colour system, so that a table of all pairs of
    colours costs nothing until it is used.
    """

    def __init__(
        self, colours: Sequence[str], glyphs: Sequence[str], fore: Sequence[int], back: Sequence[int]
    ) -> None:
        super().__init__()
        self.glyphs = list(glyphs)
        self.fore = list(fore)
        self.back = list(back)
        self.colours = [Color.parse(colour) for colour in colours]
        self._styles: dict[int, Style] = {}
        self._ansi: dict[ColorSystem, tuple[list[str], list[str]]] = {}

    def add(self, glyph: str, fore: int, back: int) -> int:
        """Append a code for `glyph` in two of the table's colours; its number."""
        self.glyphs.append(glyph)
        self.fore.append(fore)
        self.back.append(back)
        return len(self.glyphs) - 1

    def style(self, code: int) -> Style:
        """The Rich style of a code."""
        style = self._styles.get(code)
        if style is None:
            style = Style(color=self.colours[self.fore[code]], bgcolor=self.colours[self.back[code]])
            self._styles[code] = style
        return style

    def segments(self, codes: Codes) -> list[Segment]:
        """The line as Rich segments, one a run."""
        return [
            Segment(self.glyphs[code] * length, self.style(code))
            for length, code in zip(*runs(codes), strict=True)
        ]

    def _escapes(self, system: ColorSystem) -> tuple[list[str], list[str]]:
        """SGR parameters of every colour in a colour system: as foreground, as background."""
        made = self._ansi.get(system)
        if made is None:
            lowered = [colour.downgrade(system) for colour in self.colours]
            made = (
                [";".join(colour.get_ansi_codes(foreground=True)) for colour in lowered],
                [";".join(colour.get_ansi_codes(foreground=False)) for colour in lowered],
            )
            self._ansi[system] = made
        return made

    def cell(self, code: int, system: ColorSystem) -> tuple[str, str]:
        """SGR parameters and glyph of one cell, whatever stood before it."""
        fore, back = self._escapes(system)
        return f"{fore[self.fore[code]]};{back[self.back[code]]}", self.glyphs[code]

    def render(self, codes: Codes, system: ColorSystem) -> str:
        """The line as text with ANSI escape codes, reset at its end."""
        lengths, values = runs(codes)
        if 2 * len(values) > len(codes):  # hardly any runs: both colours differ nearly everywhere
            return "".join(map(self.cells(system).__getitem__, codes.tolist())) + RESET
        fore_codes, back_codes = self._escapes(system)
        fores, backs, glyphs = self.fore, self.back, self.glyphs
        out: list[str] = []
        add = out.append
        last_fore = last_back = -1
        for length, code in zip(lengths, values, strict=True):
            fore, back = fores[code], backs[code]
            if fore == last_fore:
                if back != last_back:
                    add(f"\x1b[{back_codes[back]}m")
            elif back == last_back:
                add(f"\x1b[{fore_codes[fore]}m")
            else:
                add(f"\x1b[{fore_codes[fore]};{back_codes[back]}m")
            last_fore, last_back = fore, back
            add(glyphs[code] if length == 1 else glyphs[code] * length)
        add(RESET)
        return "".join(out)


class FilteredTable(Table):
    """A table behind a line filter (no colours, ASCII alone): what a code becomes is worked out once."""

    def __init__(self, table: Table, line_filter: LineFilter, background: TextualColor) -> None:
        super().__init__()
        self._table, self._filter, self._background = table, line_filter, background
        self._made: dict[int, Segment] = {}
        self._ansi: dict[tuple[int, ColorSystem], tuple[str, str]] = {}

    def segment(self, code: int) -> Segment:
        """One cell."""
        made = self._made.get(code)
        if made is None:
            cell = self._table.segments(np.array([code], np.uint16))
            made = self._made[code] = self._filter.apply(cell, self._background)[0]
        return made

    def segments(self, codes: Codes) -> list[Segment]:
        """The line as Rich segments, one a run."""
        found = []
        for length, code in zip(*runs(codes), strict=True):
            text, style, _ = self.segment(code)
            found.append(Segment(text * length, style))
        return found

    def cell(self, code: int, system: ColorSystem) -> tuple[str, str]:
        """SGR parameters and text of one cell, whatever stood before it."""
        made = self._ansi.get((code, system))
        if made is None:
            text, style, _ = self.segment(code)
            parameters = style._make_ansi_codes(system) if style else ""
            made = self._ansi[code, system] = (f"0;{parameters}" if parameters else "0"), text
        return made

    def render(self, codes: Codes, system: ColorSystem) -> str:
        """The line as text with ANSI escape codes, reset at its end."""
        out, last = [], ""
        for length, code in zip(*runs(codes), strict=True):
            parameters, text = self.cell(code, system)
            if parameters != last:
                out.append(f"\x1b[{parameters}m")
                last = parameters
            out.append(text * length)
        return "".join(out) + RESET


def pair_table(colours: Sequence[str]) -> CodeTable:
    """The table of half blocks: code = upper colour x len(colours) + lower colour."""
    number = len(colours)
    return CodeTable(
        colours,
        [HALF] * (number * number),
        [upper for upper in range(number) for _ in range(number)],
        list(range(number)) * number,
    )


Changes = NDArray[np.bool_]
NEAR = 1
"""Unchanged cells up to which writing them again is no longer than going past them."""


class CodeStrip(Strip):
    """A line of codes that stands in for a list of segments. Immutable, as every strip."""

    __slots__ = ["_made", "changes", "codes", "table"]

    def __init__(self, codes: Codes, table: Table, changes: Changes | None = None) -> None:
        self.codes = codes
        self.table = table
        self.changes = changes
        """Cells that differ from the line that stands in its place; None when that is not known."""
        self._made: list[Segment] | None = None
        self._cell_length = len(codes)
        self._render_cache = None
        self._link_ids = None
        self._cell_count = None

    @property
    def _segments(self) -> list[Segment]:  # type: ignore[override]
        made = self._made
        if made is None:
            made = self._made = self.table.segments(self.codes)
        return made

    def __getattr__(self, name: str) -> Any:
        # The caches of `Strip` are made when somebody first uses one: most lines live for one frame.
        if name.endswith("_cache"):
            cache: FIFOCache[Any, Any] = FIFOCache(4)
            setattr(self, name, cache)
            return cache
        raise AttributeError(name)

    def crop(self, start: int, end: int | None = None) -> Strip:
        """The cells from `start` up to `end`, without making segments."""
        last = self.cell_length if end is None else min(end, self.cell_length)
        first = max(start, 0)
        if first == 0 and last == self.cell_length:
            return self
        return CodeStrip(self.codes[first:last], self.table) if last > first else Strip([], 0)

    def divide(self, cuts: Iterable[int]) -> Sequence[Strip]:
        """The pieces between the cuts, without making segments."""
        inside = [cut for cut in cuts if cut <= self.cell_length]
        if inside == [self.cell_length]:
            return [self]
        starts = [0, *inside]
        return [self.crop(start, cut) for start, cut in zip(starts, inside, strict=False)]

    def apply_filter(self, filter: LineFilter, background: TextualColor) -> Strip:
        """As `Strip.apply_filter`, for filters that treat every segment for itself; the codes' colours are
        true colours already, or named ones that are meant to stay."""
        if isinstance(filter, ANSIToTruecolor):
            return self
        cache = self._filter_cache
        strip = cache.get((filter, background))
        if strip is None:
            strip = CodeStrip(self.codes, self.table.filtered(filter, background), self.changes)
            cache[filter, background] = strip
        return strip

    def render(self, console: Console) -> str:
        """The line with escape codes for the console's colour system."""
        rendered = self._render_cache
        if rendered is None:
            system = console._color_system or ColorSystem.TRUECOLOR
            rendered = self._render_cache = self.table.render(self.codes, system)
        return rendered

    def render_changes(self, console: Console, x: int, y: int) -> str:
        """What turns the line that stands at a place of the screen into this one: the cells that changed,
        each run with the escape code that goes there. The whole line when most of it changed."""
        changes = self.changes
        number = len(self.codes) if changes is None else int(np.count_nonzero(changes))
        if changes is None or 2 * number > len(self.codes):
            return f"\x1b[{y + 1};{x + 1}H{self.render(console)}"
        cells = self.table.cells(console._color_system or ColorSystem.TRUECOLOR)
        codes = self.codes.tolist()
        out: list[str] = []
        last = -NEAR - 2
        for place in np.flatnonzero(changes).tolist():
            if place - last == 1:
                cell = cells[codes[place]]
                out.append(cell[-1] if codes[place] == codes[last] else cell)
            elif place - last - 1 <= NEAR:
                out += [cells[code] for code in codes[last + 1 : place + 1]]
            else:
                out.append(f"\x1b[{y + 1};{x + place + 1}H{cells[codes[place]]}")
            last = place
        return "".join(out) + RESET
