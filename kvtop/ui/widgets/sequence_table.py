"""The sequences: one row each, groups as trees, the cursor held by id."""

from __future__ import annotations

from textual import events
from textual.message import Message

from kvtop.timeline.snapshot import BlockDetail
from kvtop.ui.ordering import STATES
from kvtop.ui.palette import ink_index
from kvtop.ui.rows import RowKey, TableRow
from kvtop.ui.text import count, fit, tail, visible
from kvtop.ui.view import View
from kvtop.ui.widgets.lines import Line, LineBuilder
from kvtop.ui.widgets.panel import PanelBody

COLUMNS: tuple[tuple[str, int], ...] = (
    ("STATE", 5),
    ("PROMPT", 6),
    ("GEN", 4),
    ("BLK", 4),
    ("SHR", 3),
    ("WASTE", 5),
    ("HIT%", 4),
    ("PRE", 3),
)
"""Figures between ID and TEXT, with their widths in cells."""
DROPPED = ("PRE", "HIT%", "WASTE", "SHR")
"""What a narrow table goes without, in this order."""
TEXT_MINIMUM = 6

STATE_INKS = {
    "running": "good",
    "prefill": "primary",
    "holding": "primary",
    "waiting": "muted",
    "swapped": "warning",
}


class SequenceTable(PanelBody):
    """A table drawn line by line. The cursor belongs to a row's key, not to its place."""

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, key: RowKey | None) -> None:
            super().__init__()
            self.key = key

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.top = 0
        """The first row shown."""
        self._place = 0
        """Where the cursor was last, to go on from when its sequence has left."""
        self._follow = True
        """Whether the cursor's row is kept in sight; the mouse wheel lets go of it."""

    def heading(self, view: View) -> tuple[str, str]:
        if view.snapshot is None:
            return "Sequences", ""
        number = len(view.snapshot.sequences)
        below = len(view.rows) - self.top - max(0, self.extent.height - 1)
        return f"Sequences ({count(number)})", f"{count(below)} more below" if below > 0 else ""

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        rows = view.rows
        room = max(0, height - 1)
        self._scroll(view, room)
        shown = rows[self.top : self.top + room]
        id_width = max([6, *(len(row.tree) + len(row.name) for row in shown)])
        columns = self._columns(width - id_width - 2)
        ink = view.palette.style("muted", "raised", bold=True)
        head = LineBuilder().put("  ", ink).cell("ID", id_width, ink)
        for name, size in columns:
            head.put(" ", ink).cell(name, size, ink, "<" if name == "STATE" else ">")
        head.put("  ", ink).cell("TEXT", max(0, width - head.width), ink)
        detail = view.snapshot.block_detail if view.snapshot is not None else None
        owners = _owners(detail) if detail is not None and detail.block == view.selection.block else set()
        lines = [head.line()]
        lines += [self._row(view, row, id_width, columns, width, owners) for row in shown]
        if not rows and view.snapshot is not None and height > 2:
            lines.append(LineBuilder().put("  no sequences", view.palette.style("faint")).line())
        return lines

    def _columns(self, room: int) -> list[tuple[str, int]]:
        """The columns that fit beside a TEXT of at least a few cells."""
        columns = list(COLUMNS)
        for name in DROPPED:
            if sum(size + 1 for _, size in columns) + TEXT_MINIMUM + 2 <= room:
                break
            columns = [column for column in columns if column[0] != name]
        return columns

    def _row(
        self,
        view: View,
        row: TableRow,
        id_width: int,
        columns: list[tuple[str, int]],
        width: int,
        owners: set[RowKey],
    ) -> Line:
        selected = row.key == view.selection.row
        ground = "row" if selected else "background"
        palette = view.palette
        plain, muted = palette.style("text", ground), palette.style("muted", ground)
        faint = palette.style("faint", ground)
        owner = row.key in owners
        line = LineBuilder()
        if row.key.branch is None:
            line.put("▾ ", muted)
        else:
            chip = palette.chip(ink_index(row.key.request, row.key.branch), ground)
            line.put("▌", chip).put("◂" if owner else " ", palette.style("primary", ground))
        name = palette.style("primary" if owner else "text", ground, bold=selected or owner)
        line.put(row.tree, faint).cell(row.name, id_width - len(row.tree), name)
        values = _values(row)
        for column, size in columns:
            text = values[column]
            if column == "STATE":
                line.put(" ", plain).cell(
                    text, size, palette.style(STATE_INKS.get(row.state, "text"), ground)
                )
            else:
                style = faint if text in ("-", "0") else plain
                line.put(" ", plain).cell(text, size, style, ">")
        line.put("  ", plain)
        room = width - line.width
        if row.state in ("waiting", "swapped") and row.wait_reason:
            line.put(fit(visible(row.wait_reason), room), muted)
        elif row.tail:
            line.put(fit(tail(view.decode(row.tail), room), room), plain if selected else muted)
        elif row.key.branch is None:
            line.put(fit(_group(row), room), faint)
        return line.space_to(width, plain).line()

    # -- cursor and scrolling -----------------------------------------------------------------------------

    def _scroll(self, view: View, room: int) -> None:
        """Keep the cursor's row in sight, and the last page full."""
        index = self._index(view)
        if index is not None:
            self._place = index
            if self._follow:
                self.top = min(self.top, index)
                self.top = max(self.top, index - room + 1)
        self.top = max(0, min(self.top, len(view.rows) - room))

    def _index(self, view: View) -> int | None:
        """The place of the selected row."""
        key = view.selection.row
        return next((index for index, row in enumerate(view.rows) if row.key == key), None) if key else None

    def move(self, dx: int, dy: int) -> None:
        """Move the cursor by rows. The first move puts it where it was last, or on the first row."""
        view = self.view
        if view is None or not view.rows or not dy:
            return
        index = self._index(view)
        self._follow = True
        target = self._place if index is None and abs(dy) < len(view.rows) else (index or 0) + dy
        self.select(target)

    def select(self, place: int) -> None:
        """Put the cursor on the row at a place, as near as there is one."""
        if self.view is not None and self.view.rows:
            self._place = max(0, min(place, len(self.view.rows) - 1))
            self.post_message(self.Moved(self.view.rows[self._place].key))

    def on_click(self, event: events.Click) -> None:
        """Select the row under the mouse."""
        if self.view is not None and event.y > 0 and self.top + event.y - 1 < len(self.view.rows):
            self.select(self.top + event.y - 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll without moving the cursor."""
        self._wheel(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll without moving the cursor."""
        self._wheel(-3)

    def _wheel(self, rows: int) -> None:
        self._follow = False
        self.top = max(0, self.top + rows)
        self.again()


def _values(row: TableRow) -> dict[str, str]:
    """The figures of a row as text; what is absent is a dash."""
    blocks = "-" if row.blocks is None else f"{row.blocks}h" if row.on_host else str(row.blocks)
    return {
        "STATE": STATES.get(row.state, row.state.upper()),
        "PROMPT": str(row.prompt),
        "GEN": str(row.generated),
        "BLK": blocks,
        "SHR": _figure(row.shared),
        "WASTE": _figure(row.waste),
        "HIT%": _figure(row.hit),
        "PRE": str(row.preemptions),
    }


def _figure(value: int | None) -> str:
    return "-" if value is None else str(value)


def _group(row: TableRow) -> str:
    """What a group is: samples or beams."""
    first, alive = row.sequences[0], len(row.sequences)
    if first.beam_width > 1:
        return f"{alive} beams"
    return (
        f"{alive} of {first.n} samples"
        if alive < first.n
        else f"{alive} samples"
        if first.n > 1
        else "forked"
    )


def _owners(detail: BlockDetail) -> set[RowKey]:
    """The rows whose sequences hold a block."""
    return {RowKey(owner.sequence >> 16, owner.sequence & 0xFFFF) for owner in detail.owners}
