"""The lines of the sequences table: its head, and a line for every row that is shown."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.cells import cell_len
from rich.style import Style

from kvtop.ui.draw.glyphs import FOLDED, FOUND, HOLDS, TAGGED, UNFOLDED, owner_mark
from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.draw.palette import ink_index
from kvtop.ui.draw.text import first_fit, fit, head, tail, visible
from kvtop.ui.frame.columns import BY_ID, ID, shown_columns
from kvtop.ui.frame.ordering import descends
from kvtop.ui.frame.row import ARRIVAL, BRANCH, STATE_INKS, RowKey, TableOrder, TableRow, is_tagged, kind
from kvtop.ui.frame.view import View

GUTTER = 2
"""Cells before ID: the owner's colour or the fold's sign, then the row's mark."""
TEXT_MINIMUM = 12
LABEL = 16
"""Cells that a request's label gets before its text."""
QUOTED = 20
"""Cells of a filter or a search that the heading shows."""
UP, DOWN = "▲", "▼"


class RowLines:
    """Draws the rows of one frame in one width. Made anew for each frame."""

    def __init__(
        self, view: View, width: int, columns: Sequence[str], *, owners: Collection[RowKey], lettered: bool
    ) -> None:
        self.view = view
        self.width = width
        self._id_width = _id_width(view)
        room = width - GUTTER - self._id_width - 2 - TEXT_MINIMUM
        self.columns = shown_columns(columns, room, view.order.sort)
        self._cells = [(column.width, column.text, column.name == "state") for column in self.columns]
        self._owners = owners
        self._lettered = lettered
        """Whether owners are told apart by letters, where they have no hues."""
        self._counts_preemptions = any(column.name == "pre" for column in self.columns)

    # -- head ---------------------------------------------------------------------------------------------

    def head(self) -> Line:
        """The columns' heads. What the rows are sorted by is lit, with the direction before it."""
        style, sort = self.view.palette.style, self.view.order.sort
        plain, lit = style("muted", "raised", bold=True), style("background", "primary", bold=True)
        mark = DOWN if sort != ARRIVAL and descends(sort, self.view.order.inverted) else UP
        line = LineBuilder()
        if sort == ID.name:
            line.put(" ", plain).put(f"{mark}ID", lit).cell("", self._id_width - 2, plain)
        else:
            line.put(" " * GUTTER, plain).cell("ID", self._id_width, plain)
        for column in self.columns:
            text = f"{mark}{column.title}" if sort == column.name else column.title
            room = column.width + 1
            if not column.numeric and sort != column.name:
                text = f" {text}"
            before = max(0, room - len(text)) if column.numeric else 0
            line.put(" " * before, plain).put(text, lit if sort == column.name else plain)
            line.put(" " * (room - before - len(text)), plain)
        return line.put("  ", plain).cell("TEXT", max(0, self.width - line.width), plain).line()

    def column_at(self, x: int) -> str | None:
        """The id of the column whose head is at a cell; None in the text's."""
        end = GUTTER + self._id_width
        if x < end:
            return ID.name
        for column in self.columns:
            end += column.width + 1
            if x < end:
                return column.name
        return None

    # -- rows ---------------------------------------------------------------------------------------------

    def row(self, row: TableRow, *, selected: bool, found: bool) -> Line:
        """One row."""
        view = self.view
        style, ground = view.palette.style, "row" if selected else "background"
        tagged, holds = bool(view.tags) and is_tagged(row.key, view.tags), row.key in self._owners
        ink = "tag" if tagged else "text"
        plain, faint = style(ink, ground), style("faint", ground)
        mark = TAGGED if tagged else FOUND if found else HOLDS if holds else " "
        named = "match" if found else "primary" if holds else ink
        name = style(named, ground, bold=selected or found or holds or tagged)
        parts = [
            self._sign(row, ground),
            (mark, style("tag" if tagged else named, ground, bold=True)),
            (row.tree, faint),
            (row.name.ljust(self._id_width - len(row.tree)), name),
        ]
        for width, cell, is_state in self._cells:
            text = cell(row)
            if is_state:
                parts.append((f" {text:<{width}.{width}}", style(STATE_INKS.get(row.state, "text"), ground)))
            else:
                parts.append((f" {text:>{width}}", faint if text in ("-", "0") else plain))
        used = GUTTER + self._id_width + sum([width + 1 for width, _, _ in self._cells]) + 2
        parts.append(("  ", plain))
        room = self.width - used
        if room > 0:
            parts += self._text(row, room, style("muted", ground), faint, plain if selected else None)
        return tuple(parts)

    def _sign(self, row: TableRow, ground: str) -> tuple[str, Style]:
        """The fold's sign of a group, or the colour of a sequence's blocks."""
        if row.figures is not None:
            return FOLDED if row.folded else UNFOLDED, self.view.palette.style("muted", ground)
        ink = ink_index(row.key.request, row.key.branch or 0)
        return owner_mark(ink) if self._lettered else "▌", self.view.palette.chip(ink, ground)

    def _text(
        self, row: TableRow, room: int, muted: Style, faint: Style, lit: Style | None
    ) -> list[tuple[str, Style]]:
        """What a row says: its label, what kind of sequence it is, then why it waits or its newest text."""
        before, says = kind(row), self._reason(row)
        if row.label and not row.tree:
            before = f"{head(visible(row.label), LABEL)} {before}".rstrip()
        if before:
            before = head(before, room - 1) + " "
            says = says and f"· {says}"
        room -= cell_len(before)
        if not says and row.tail and room > 0:
            says = tail(self.view.decode(row.tail), room)
        return [(before, faint), (fit(says, room), lit or muted)]

    def _reason(self, row: TableRow) -> str:
        """Why a row waits, and how often it was preempted where no column says so; empty while it runs."""
        if row.state not in ("waiting", "swapped") or not row.wait_reason:
            return ""
        times = "" if self._counts_preemptions or not row.preemptions else f"preempted {row.preemptions}×: "
        return times + visible(row.wait_reason)


def _id_width(view: View) -> int:
    """Cells for the longest name there is, so that columns stay where they are under a filter or a fold."""
    if view.snapshot is None:
        return ID.width
    branch = len(BRANCH) if view.order.tree else 0
    names = [one.name for one in view.snapshot.sequences]
    return max([ID.width, *[len(name) + branch * ("." in name) for name in names]])


# -- around the rows --------------------------------------------------------------------------------------


def order_words(order: TableOrder) -> list[str]:
    """What the heading says of an order: sort, filter and search, where there are."""
    words = []
    if order.sort != ARRIVAL or order.inverted:
        name = BY_ID[order.sort].title if order.sort != ARRIVAL else ARRIVAL
        words.append(f"sort {name} {DOWN if descends(order.sort, order.inverted) else UP}")
    if order.filter:
        words.append(f"filter {_quoted(order.filter)}")
    if order.search:
        words.append(f"search {_quoted(order.search)}")
    return words


def _quoted(text: str) -> str:
    return f"“{head(visible(text), QUOTED)}”"


def empty_line(view: View, width: int) -> Line:
    """Why there is no row."""
    words = "no sequences"
    if view.order.filter:
        long = f"nothing matches {_quoted(view.order.filter)}: F4, then Esc, shows all again"
        words = first_fit([long, "F4 Esc shows all"], width - 2)
    return LineBuilder().put(f"  {words}", view.palette.style("faint")).line()
