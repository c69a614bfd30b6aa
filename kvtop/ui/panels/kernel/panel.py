"""What the newest step's attention read: how much, which blocks of the pool, and how scattered they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from rich.style import Style
from textual import events

from kvtop.analysis.locality import Readers, access_path, locality, readers, run_counts
from kvtop.memory.events import branch_of, request_of
from kvtop.timeline.snapshot import Read, Snapshot
from kvtop.ui.commands.intents import Select
from kvtop.ui.draw.glyphs import owner_mark
from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.draw.palette import REFERENCES, ink_index
from kvtop.ui.draw.plot import line_of_eighths
from kvtop.ui.draw.text import count, first_fit, percent, size, visible
from kvtop.ui.frame.row import RowKey
from kvtop.ui.frame.rows import row_for
from kvtop.ui.frame.view import Selection, View
from kvtop.ui.parts.panel import Legend, PanelBody

LABEL = 11
NAME = 8
COLUMNS = (("TOKENS", 7), ("BLOCKS", 7), ("RUNS", 6), ("MEAN", 6), ("ADJ %", 6), ("SPAN", 8), ("BYTES", 10))
"""Figures of a sequence, with their cells."""
DROPPED = ("SPAN", "BYTES", "ADJ %")
"""What a narrow table goes without, in this order."""
PATH_LEAST = 16
"""Cells that the picture of a table's order gets before figures do."""
SORTS = ("as read", "most runs", "most tokens")
MOST_MAP_ROWS = 8
OTHER, MINE = REFERENCES + 1, REFERENCES + 2
"""Codes of a map's cell beside 0 (not read) and 1 to REFERENCES (so many readers, or more)."""


@dataclass(frozen=True, slots=True)
class KernelState:
    """What a person has made of the panel."""

    sort: str = SORTS[0]
    top: int = 0
    """The first sequence shown."""
    sequence: int | None = None
    """The sequence that the cursor was put on here."""


class KernelReads(PanelBody):
    """Figures of the whole step, the pool with what was read, and a row for each sequence."""

    state: KernelState = KernelState()

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: list[Read] = []
        self._first_row = 0
        """The line on which the first sequence stands."""
        self._in_sight = 0
        self._reveal = False
        self._pairs: dict[tuple[str, str], Style] = {}

    def heading(self, view: View) -> tuple[str, str]:
        snapshot = view.snapshot
        if snapshot is None:
            return "Kernel", ""
        attention = snapshot.source.attention
        absent = "no model" if snapshot.source.model == "none" else "not published"
        title = f"Kernel: {visible(attention) if attention is not None else absent}"
        words = [f"step {count(snapshot.step)}"]
        if self.state.sort != SORTS[0]:
            words.append(self.state.sort + " first")
        below = len(self._rows) - self.state.top - self._in_sight
        if below > 0:
            words.append(f"{count(below)} more below")
        room = self.extent.width - len(title) - 8
        return title, first_fit(["   ".join(words[:end]) for end in range(len(words), -1, -1)], room)

    def legend(self, view: View) -> Legend:
        muted = view.palette.style("muted")
        if self._half(view):
            nothing = (" ", view.palette.style("text", "track"))
            mine, other = [(" ", Style(bgcolor=self._ink(view, code))) for code in (MINE, OTHER)]
        else:
            mine, other, nothing = [(_sign(view, code), self._mark(view, code)) for code in (MINE, OTHER, 0)]
        unread = (nothing, (" not read", muted))
        if self._selected(view):
            return (mine, (" read for the selected  ", muted), other, (" for others  ", muted), *unread)
        parts = [("read by ", muted)]
        for number in range(1, REFERENCES + 1):
            mark = f"{number}+" if number == REFERENCES else str(number)
            parts += [(f" {mark} ", self._colour(view, number)), (" ", muted)]
        return (*parts, *unread)

    def _selected(self, view: View) -> bool:
        """Whether something was read for the selected row."""
        reads = view.snapshot.reads if view.snapshot is not None else ()
        return any(_is_of(read, view.selection.row) for read in reads)

    # -- drawing ------------------------------------------------------------------------------------------

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        snapshot = view.snapshot
        if snapshot is None:
            return []
        if not snapshot.reads:
            self._rows = []
            idle = snapshot.figures is not None and not snapshot.figures.scheduled_tokens
            words = "the newest step read nothing" if idle else "what attention reads is not published"
            return [LineBuilder().put(f" {words}", view.palette.style("faint")).line()]
        tables = [read.table for read in snapshot.reads]
        who, runs = readers(tables), run_counts(tables)
        lines = self._summary(view, snapshot, who, runs, width)[: 2 if height < 14 else 4]
        rows = _map_rows(snapshot.counters.total_blocks, width, height, half=self._half(view))
        lines += self._map(view, snapshot, who, width, rows)
        self._rows = self._sorted(snapshot.reads, runs)
        self._first_row = len(lines) + 1
        self._in_sight = max(0, height - self._first_row)
        return lines + self._table(view, snapshot, width)

    def _summary(
        self, view: View, snapshot: Snapshot, who: Readers, runs: NDArray[np.int64], width: int
    ) -> list[Line]:
        """The step in figures; the most telling two lines first."""
        reads, figures = snapshot.reads, snapshot.figures
        tokens = count(sum(read.tokens for read in reads))
        sequences = f"{count(len(reads))} sequence{'s' if len(reads) != 1 else ''}"
        gathered = figures.kv_bytes_read if figures is not None else None
        volume = size(gathered) if gathered is not None else "bytes not published"
        neighbours = who.reads - len(reads)
        adjacent = percent(who.reads - int(runs.sum()), neighbours)
        mean = who.reads / max(1, int(runs.sum()))
        repeats = count(who.reads)
        stretches = count(int(runs.sum()))
        texts = [
            (
                "gathered",
                [
                    f"{volume} of keys and values in all layers: {tokens} tokens of {sequences}",
                    f"{volume}, {tokens} tokens, {sequences}",
                    f"{volume}, {tokens} tokens",
                ],
            ),
            (
                "blocks",
                [
                    f"{count(who.distinct)} read, {repeats} with repeats: a shared block is read for each of "
                    "its sequences",
                    f"{count(who.distinct)} read, {repeats} with repeats",
                ],
            ),
            (
                "scattered",
                [
                    f"{stretches} runs of neighbouring blocks, {mean:.1f} blocks long on average",
                    f"{stretches} runs, mean {mean:.1f} blocks",
                ],
            ),
            (
                "adjacent",
                [f"{adjacent or '-'} of the blocks that follow each other in a text do so in memory"],
            ),
        ]
        lines = []
        for label, candidates in texts:
            line = LineBuilder().cell(f" {label}", LABEL, view.palette.style("muted"))
            words = first_fit(candidates, width - LABEL - 1)
            lines.append(line.put(words, view.palette.style("text")).line())
        return lines

    def _half(self, view: View) -> bool:
        """Whether two blocks share a cell of the map, told apart by colour alone."""
        return view.glyphs.half_blocks and not view.lettered

    def _map(self, view: View, snapshot: Snapshot, who: Readers, width: int, rows: int) -> list[Line]:
        """The pool from its first block to its last, in rows; brighter the more sequences read a block."""
        inner, half = width - 2, self._half(view)
        total, deep = snapshot.counters.total_blocks, rows * (2 if half else 1)
        cells = min(inner * deep, total)
        codes = np.minimum(who.per_cell(cells, total), REFERENCES)
        mine = self._chosen_blocks(view, snapshot)
        if mine is not None:
            codes[codes > 0] = OTHER
            codes[readers([mine]).per_cell(cells, total) > 0] = MINE
        grid = np.full((deep, inner), -1)
        grid.ravel()[:cells] = codes
        blank = (" ", view.palette.style("text"))
        lines: list[Line] = []
        for row in range(rows):
            parts = [blank]
            if half:
                pairs = zip(grid[2 * row].tolist(), grid[2 * row + 1].tolist(), strict=True)
                for (upper, lower), run in groupby(pairs):
                    parts.append(("▀" * len(list(run)), self._pair(view, upper, lower)))
            else:
                for code, run in groupby(grid[row].tolist()):
                    parts.append((_sign(view, code) * len(list(run)), self._mark(view, code)))
            lines.append((*parts, blank))
        return lines

    def _chosen_blocks(self, view: View, snapshot: Snapshot) -> NDArray[np.int32] | None:
        """What was read for the selected row's sequences; None without one."""
        tables = [read.table for read in snapshot.reads if _is_of(read, view.selection.row)]
        return np.concatenate(tables) if tables else None

    def _ink(self, view: View, code: int) -> str:
        """The colour of a code."""
        palette = view.palette
        key = view.selection.row
        if code == MINE:
            if key is None:
                return palette.used
            return palette.inks[ink_index(key.request, key.branch or 0)][4]
        if code == OTHER:
            return palette.dimmed[2]
        return palette.refs[code - 1] if code > 0 else palette.track if code == 0 else palette.background

    def _pair(self, view: View, upper: int, lower: int) -> Style:
        """The style of a cell with two blocks."""
        inks = self._ink(view, upper), self._ink(view, lower)
        style = self._pairs.get(inks)
        if style is None:
            style = self._pairs[inks] = Style(color=inks[0], bgcolor=inks[1])
        return style

    def _mark(self, view: View, code: int) -> Style:
        return Style(color=self._ink(view, code or OTHER), bgcolor=view.palette.background)

    def _colour(self, view: View, number: int) -> Style:
        """A sample of the colour for so many readers."""
        return Style(color=view.palette.background, bgcolor=view.palette.refs[number - 1])

    # -- sequences ----------------------------------------------------------------------------------------

    def _sorted(self, reads: Sequence[Read], runs: NDArray[np.int64]) -> list[Read]:
        if self.state.sort == SORTS[1]:
            return [reads[place] for place in np.argsort(-runs, kind="stable").tolist()]
        return sorted(reads, key=lambda read: -read.tokens) if self.state.sort == SORTS[2] else list(reads)

    def _table(self, view: View, snapshot: Snapshot, width: int) -> list[Line]:
        """A row for each sequence that fits."""
        columns = _columns(width)
        path = width - NAME - sum(cells for _, cells in columns) - 2
        head = view.palette.style("muted", "raised", bold=True)
        line = LineBuilder().put("  ID", head).space_to(NAME, head)
        for name, cells in columns:
            line.cell(name, cells, head, ">")
        words = first_fit(["WHERE ITS BLOCKS LIE: LOW TO HIGH IDS", "WHERE ITS BLOCKS LIE", "WHERE"], path)
        line.put("  ", head).cell(words, max(0, width - line.width), head)
        place = self._place(view)
        if place is not None and self._reveal:
            self.put(top=max(min(self.state.top, place), place - self._in_sight + 1))
        self._reveal = False
        self.put(top=max(0, min(self.state.top, len(self._rows) - self._in_sight)))
        lettered = view.lettered
        shown = self._rows[self.state.top : self.state.top + self._in_sight]
        return [
            line.line(),
            *(
                self._row(view, snapshot, read, columns, path, self.state.top + row == place, lettered)
                for row, read in enumerate(shown)
            ),
        ]

    def _row(
        self,
        view: View,
        snapshot: Snapshot,
        read: Read,
        columns: Sequence[tuple[str, int]],
        path: int,
        selected: bool,
        lettered: bool,
    ) -> Line:
        """One sequence: figures, and its blocks' places in the order of its text."""
        ground = "row" if selected else "background"
        ink = view.palette.style
        owner = ink_index(request_of(read.sequence), branch_of(read.sequence))
        line = LineBuilder().put(owner_mark(owner) if lettered else "▌", view.palette.chip(owner, ground))
        line.put(" ", ink("text", ground)).cell(read.name, NAME - 2, ink("text", ground, bold=selected))
        lie = locality(read.table)
        # A layer with a sliding window reads less, and how many bytes that is is not known here.
        per_block = None if snapshot.source.windowed else snapshot.source.bytes_per_block
        adjacent = lie.adjacent
        figures = {
            "TOKENS": count(read.tokens),
            "BLOCKS": count(lie.blocks),
            "RUNS": count(lie.runs),
            "MEAN": f"{lie.mean_run:.1f}",
            "ADJ %": f"{100 * adjacent:.0f}" if adjacent is not None else "-",
            "SPAN": count(lie.span),
            "BYTES": size(read.tokens * per_block / snapshot.source.block_size) if per_block else "-",
        }
        line.put("".join([figures[name].rjust(cells) for name, cells in columns]), ink("text", ground))
        where = access_path(read.table, snapshot.counters.total_blocks, max(1, path))
        line.put("  ", ink("text", ground)).put(
            line_of_eighths(where, view.glyphs), view.palette.chip(owner, ground)
        )
        return line.space_to(self.extent.width, ink("text", ground)).line()

    def _place(self, view: View) -> int | None:
        """The row under the cursor: the sequence it was put on, else the first of the selected row."""
        key, rows = view.selection.row, self._rows
        mine = [place for place, read in enumerate(rows) if key is None or _is_of(read, key)]
        on = [place for place in mine if rows[place].sequence == self.state.sequence]
        places = on or (mine if key is not None else [])
        return places[0] if places else None

    def move(self, dx: int, dy: int) -> None:
        """Move the cursor by sequences, and select them."""
        view = self.view
        if view is None or not self._rows or not dy:
            return
        place = self._place(view)
        self.go_to((self.state.top if dy < len(self._rows) else dy) if place is None else place + dy)

    def go_to(self, place: int) -> None:
        """Put the cursor on a sequence, as near as there is one, and select its row."""
        if self.view is None or not self._rows:
            return
        read = self._rows[max(0, min(place, len(self._rows) - 1))]
        self.put(sequence=read.sequence)
        self._reveal = True
        key = RowKey.of(read.sequence)
        row = row_for(self.view.rows, key) or row_for(self.view.rows, RowKey(key.request, None))
        self.perform(Select(Selection(row.key if row is not None else None, None)))
        self.redraw()

    def page(self) -> int:
        return max(1, self._in_sight)

    def take_inspect(self) -> bool:
        """Enter selects the first block of the sequence under the cursor."""
        place = self._place(self.view) if self.view is not None else None
        if self.view is not None and place is not None and len(self._rows[place].table):
            block = int(self._rows[place].table[0])
            self.perform(Select(Selection(self.view.selection.row, block)))
        return True

    def take_back(self) -> bool:
        """Esc lets go of the sequence, as of all that is selected."""
        self.put(sequence=None)
        return False

    def do_sort(self) -> None:
        """The next order: as read, most runs, most tokens."""
        self.put(sort=SORTS[(SORTS.index(self.state.sort) + 1) % len(SORTS)])
        self._reveal = True
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Select the sequence under the mouse."""
        place = self.state.top + event.y - self._first_row
        if event.y >= self._first_row and place < len(self._rows):
            self.go_to(place)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll without moving the cursor."""
        self.put(top=self.state.top + 3)
        self.redraw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll without moving the cursor."""
        self.put(top=max(0, self.state.top - 3))
        self.redraw()


def _map_rows(blocks: int, width: int, height: int, *, half: bool) -> int:
    """Rows of the map: as many as give each block a place of its own, as far as there is room."""
    needed = -(-blocks // (max(1, width - 2) * (2 if half else 1)))
    return max(1, min(needed, MOST_MAP_ROWS, height // 4))


def _columns(width: int) -> list[tuple[str, int]]:
    """The figures that fit beside the picture of a table's order."""
    columns = list(COLUMNS)
    for name in DROPPED:
        if width - NAME - sum(cells for _, cells in columns) - 2 >= PATH_LEAST:
            break
        columns = [column for column in columns if column[0] != name]
    return columns


def _is_of(read: Read, key: RowKey | None) -> bool:
    """Whether a sequence is one of a row's."""
    if key is None or request_of(read.sequence) != key.request:
        return False
    return key.branch is None or branch_of(read.sequence) == key.branch


def _sign(view: View, code: int) -> str:
    """What stands for a cell where colours do not tell."""
    if code == MINE:
        return view.glyphs.full
    if code == OTHER:
        return view.glyphs.wasted
    return " " if code < 0 else view.glyphs.cached if not code else str(code)
