"""The lines of the block tables: a head of logical indices, and a line for every sequence that is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.style import Style

from kvtop.timeline.snapshot import BlockColumns, SequenceRow
from kvtop.ui.draw.glyphs import FOLDED, TAGGED, owner_mark
from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.draw.palette import REFERENCES, ink_index
from kvtop.ui.draw.text import fit, visible
from kvtop.ui.frame.row import BRANCH, STATE_INKS, STATES, RowKey, TableRow, is_tagged
from kvtop.ui.frame.view import View

STATE, BLOCKS = 4, 4
"""Cells of the columns beside ID."""
UNKNOWN, HOST, SAME, CURSOR = 0, REFERENCES + 1, REFERENCES + 2, REFERENCES + 3
"""What a cell is beside 1 ... REFERENCES, the reference count of its block: nothing known of it, in host
memory, the selected block, the cursor."""
LIT = 8
"""Marks a cell of the column that is lit."""
REASON = 8
"""Cells below which a reason is left out."""
MOST = 9
"""The highest reference count that is written as a figure."""


def shown_rows(rows: Sequence[TableRow]) -> list[TableRow]:
    """The rows that have a table: sequences. A group stands there only when its branches do not."""
    return [row for row in rows if row.figures is None or row.folded]


def table_of(row: TableRow) -> NDArray[np.int32]:
    """The block table of a row; none of a group."""
    if row.figures is not None:
        return np.zeros(0, np.int32)
    return row.sequences[0].table


@dataclass(frozen=True, slots=True)
class Place:
    """A cell: a row's key, and the logical index in its table. A negative index is the row itself."""

    key: RowKey
    logical: int


class PageLines:
    """Draws the rows of one frame in one width, from logical block `left` on. Made anew for each frame."""

    def __init__(
        self,
        view: View,
        width: int,
        left: int = 0,
        *,
        cursor: Place | None = None,
        lit: int | None = None,
        figures: bool = False,
    ) -> None:
        self.view, self.width, self.left = view, width, left
        self.cursor, self.lit = cursor, lit
        self.figures = figures
        """Whether reference counts are written, where there are no colours for them."""
        snapshot = view.snapshot
        names = [one.name for one in snapshot.sequences] if snapshot is not None else []
        branch = len(BRANCH) if view.order.tree else 0
        self._id = max([4, *(len(name) + branch * ("." in name) for name in names)])
        self.start = 2 + self._id + 1 + STATE + 1 + BLOCKS + 2
        """The cell where the tables begin."""
        self._digits = max(3, _digits(len(snapshot.blocks.state) - 1)) if snapshot is not None else 3
        if highest := max([int(one.table.max()) for one in _on_host(view)], default=None):
            self._digits = max(self._digits, _digits(highest) + 1)  # a gap beside the h before it
        self.cell = self._digits + 1 + 2 * figures
        """Cells of a table entry: the block's id, its reference count, and a mark."""
        self.columns = max(1, (width - self.start) // self.cell)
        """Logical blocks that there is room for."""
        self._styles: dict[tuple[int, str], Style] = {}

    def place_at(self, x: int) -> int | None:
        """The logical index at a cell; None beside the tables."""
        column = (x - self.start) // self.cell
        return self.left + column if x >= self.start and column < self.columns else None

    # -- head ---------------------------------------------------------------------------------------------

    def head(self) -> Line:
        """Logical indices; those of the cursor and of the lit column stand out."""
        style = self.view.palette.style
        plain = style("muted", "raised", bold=True)
        line = LineBuilder().put("  ", plain).cell("ID", self._id, plain).put(" ", plain)
        line.cell("STATE", STATE + 1, plain).cell("BLK", BLOCKS, plain, ">").put(" ", plain)
        line.put("│", style("faint", "raised"))
        at = self.cursor.logical if self.cursor is not None else -1
        for logical in range(self.left, self.left + self.columns):
            ink = plain
            if logical == self.lit:
                ink = style("background", "match", bold=True)
            elif logical == at:
                ink = style("primary", "raised", bold=True)
            line.put(f"{logical:>{self._digits}}", ink).put(" " * (self.cell - self._digits), plain)
        return line.space_to(self.width, plain).line()

    # -- rows ---------------------------------------------------------------------------------------------

    def row(self, row: TableRow) -> Line:
        """One row: whose it is, then the part of its table that is in sight."""
        view, palette = self.view, self.view.palette
        selected = view.selection.row in (row.key, RowKey(row.key.request, None))
        ground = "row" if selected else "background"
        style = palette.style
        ink = "tag" if view.tags and is_tagged(row.key, view.tags) else "text"
        line = LineBuilder()
        if row.figures is not None:
            line.put(FOLDED, style("muted", ground))
        else:
            owner = ink_index(row.key.request, row.key.branch or 0)
            line.put(owner_mark(owner) if self.figures else "▌", palette.chip(owner, ground))
        line.put(TAGGED if ink == "tag" else " ", style("tag", ground))
        line.put(row.tree, style("faint", ground))
        line.cell(row.name, self._id - len(row.tree), style(ink, ground, bold=selected or ink == "tag"))
        state = STATES.get(row.state, visible(row.state).upper())
        line.put(" ", style("text", ground)).cell(
            state, STATE, style(STATE_INKS.get(row.state, "text"), ground)
        )
        blocks = "-" if row.blocks is None else f"{row.blocks}{'h' if row.on_host else ''}"
        line.put(" ", style("text", ground)).cell(
            blocks, BLOCKS, style("faint" if blocks == "-" else "text", ground), ">"
        )
        line.put(" ", style("text", ground)).put("│", style("faint", ground))
        self._table(line, row, "background" if self.figures else ground)
        return line.line()

    def _table(self, line: LineBuilder, row: TableRow, ground: str) -> None:
        """Append the entries in sight, and what is to be said after the last one."""
        style, table = self.view.palette.style, table_of(row)
        shown = table[self.left : self.left + self.columns]
        words, ink = "", "muted"
        if len(shown):
            sequence, columns = row.sequences[0], self._columns_of(row.sequences[0])
            kinds, texts = (
                self._kinds(row.key, shown, columns, sequence),
                self._texts(shown, columns, sequence),
            )
            start = 0
            for end in (*(np.flatnonzero(kinds[1:] != kinds[:-1]) + 1).tolist(), len(kinds)):
                line.put("".join(texts[start:end]), self._style(int(kinds[start]), ground))
                start = end
            if self.left + len(shown) == len(table):
                words, ink = self._fill(shown, columns), "faint"
        elif row.figures is not None:
            words = f"{len(row.sequences)} tables folded"
        elif len(table):
            words, ink = "‹", "faint"  # all of it is further left
        if row.wait_reason and row.state in ("waiting", "swapped") and self.left + len(shown) >= len(table):
            words = f"{words}  {visible(row.wait_reason)}".strip()
            ink = "muted"
        room = self.width - line.width
        if words and (len(words) < room or (ink == "muted" and room > REASON)):
            line.put(fit(f" {words}", room), style(ink, ground))
        line.space_to(self.width, style("text", ground))

    def _columns_of(self, sequence: SequenceRow) -> BlockColumns | None:
        """The pool that a sequence's table points into; None when it is not published."""
        snapshot = self.view.snapshot
        assert snapshot is not None
        return snapshot.host if sequence.on_host else snapshot.blocks

    def _kinds(
        self, key: RowKey, shown: NDArray[np.int32], columns: BlockColumns | None, sequence: SequenceRow
    ) -> NDArray[np.int64]:
        """What every entry is drawn as."""
        number, selected = len(shown), self.view.selection.block
        if sequence.on_host:
            kinds = np.full(number, HOST)
        elif columns is None:
            kinds = np.full(number, UNKNOWN)
        else:
            kinds = np.clip(columns.ref_count[shown], 1, REFERENCES).astype(np.int64)
            if selected is not None:
                kinds[shown == selected] = SAME
        if self.lit is not None and 0 <= self.lit - self.left < number:
            kinds[self.lit - self.left] += LIT
        cursor = self.cursor
        if cursor is not None and cursor.key == key and 0 <= cursor.logical - self.left < number:
            kinds[cursor.logical - self.left] = CURSOR
        return kinds

    def _texts(
        self, shown: NDArray[np.int32], columns: BlockColumns | None, sequence: SequenceRow
    ) -> list[str]:
        """Every entry as text: the id, its reference count where that is written, and a mark: `h` on the
        host, how full a block is that is not."""
        digits, size, blank = self._digits, self._size, " " * (self.cell - self._digits)
        if sequence.on_host or columns is None:
            after = f"{'h' if sequence.on_host else '':<{len(blank)}}"
            return [f"{block:>{digits}}{after}" for block in shown.tolist()]
        entries = [f"{block:>{digits}}{blank}" for block in shown.tolist()]
        if self.figures:
            for place in np.flatnonzero(columns.ref_count[shown] > 1).tolist():
                count = int(columns.ref_count[shown[place]])
                entries[place] = f"{shown[place]:>{digits}}:{count if count <= MOST else '+'} "
        for place in np.flatnonzero(columns.fill[shown] < size).tolist():
            eighth = max(0, (int(columns.fill[shown[place]]) * 8 - 1) // size)
            entry = entries[place].rstrip() + self.view.glyphs.eighths[eighth]
            entries[place] = f"{entry:<{self.cell}}"
        return entries

    @property
    def _size(self) -> int:
        assert self.view.snapshot is not None
        return self.view.snapshot.source.block_size

    def _fill(self, shown: NDArray[np.int32], columns: BlockColumns | None) -> str:
        """How many slots of the last block are filled, unless all are."""
        fill = int(columns.fill[shown[-1]]) if columns is not None else self._size
        return f"{fill}/{self._size}" if fill < self._size else ""

    def _style(self, kind: int, ground: str) -> Style:
        """How entries of a kind are drawn."""
        made = self._styles.get((kind, ground))
        if made is None:
            made = self._styles[kind, ground] = self._made(kind, ground)
        return made

    def _made(self, kind: int, ground: str) -> Style:
        palette = self.view.palette
        lit, kind = kind >= LIT, kind % LIT
        if kind in (SAME, CURSOR):
            return palette.style("background", "cursor" if kind == CURSOR else "shared", bold=kind == CURSOR)
        if lit and not self.figures:
            ground = "row"
        if kind == HOST:
            style = palette.style("warning", ground)
        elif kind == UNKNOWN:
            style = palette.style("text", ground)
        else:
            style = palette.reference(kind, ground, bold=lit)
        return style + Style(underline=True) if lit and self.figures else style


def _digits(number: int) -> int:
    return len(str(max(number, 0)))


def _on_host(view: View) -> list[SequenceRow]:
    """The sequences whose blocks are in host memory."""
    sequences = view.snapshot.sequences if view.snapshot is not None else ()
    return [one for one in sequences if one.on_host and len(one.table)]


def legend(view: View, *, figures: bool, room: int) -> tuple[tuple[str, Style], ...]:
    """What the colours and marks of the entries mean, as much as fits in `room` cells."""
    palette, muted = view.palette, view.palette.style("muted")
    if figures:
        references: list[tuple[str, Style]] = [
            ("131:3", palette.reference(3)),
            (" reference count 3   ", muted),
        ]
    else:
        names = ["1", "2", "3", "4+"]
        references = [(f"{name} ", palette.reference(count)) for count, name in enumerate(names, 1)]
        references.append(("references   ", muted))
    same = [("131", palette.style("background", "shared")), (" the selected block   ", muted)]
    part = [(view.glyphs.eighths[2], palette.style("text")), (" partly filled   ", muted)]
    host = [("h", palette.style("warning")), (" on the host", muted)]
    for choice in ([*references, *same, *part, *host], [*references, *part, *host], references):
        if sum(len(text) for text, _ in choice) <= room:
            text, style = choice[-1]
            return (*choice[:-1], (text.rstrip(), style))
    return ()
