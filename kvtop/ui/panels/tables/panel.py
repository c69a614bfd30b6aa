"""The block tables: one row a sequence, one column a logical block, the physical block's id in each cell."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events

from kvtop.ui.commands.intents import Focus, Select, SetTags
from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.draw.text import count
from kvtop.ui.frame.row import TableRow, toggled
from kvtop.ui.frame.view import Selection, View
from kvtop.ui.panels.tables.lines import PageLines, Place, legend, shown_rows, table_of
from kvtop.ui.parts.panel import Legend, PanelBody

ROW_END = 1 << 20
"""A move by more rows than there can be: Home and End, which here go to the ends of the row."""
WHEEL = 3
"""Rows or columns that the mouse wheel scrolls."""


@dataclass(frozen=True, slots=True)
class TablesState:
    """What a person has made of the panel."""

    top: int = 0
    """The first row shown."""
    left: int = 0
    """The first logical block shown."""
    column: int | None = None
    """The logical block that is lit in all rows."""


class BlockTables(PanelBody):
    """A table of tables, scrolled both ways. The cursor is on a cell, and belongs to its sequence.

    The selected row and block are the cursor's. When the entry under it changes, as by a copy on write, the
    cursor stays with the entry and selects the new block.
    """

    state: TablesState = TablesState()

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._logical = 0
        """Where in its table the cursor is to be, in rows that are long enough."""
        self._placed: tuple[Place, int | None] | None = None
        """The cell that the cursor was put on, and the block that was in it."""
        self._place = 0
        """The row's place then, to go on from when the sequence has left."""
        self._reveal = False
        """Whether the next frame brings the cursor in sight."""
        self._rows: list[TableRow] = []
        self._drawn: PageLines | None = None

    # -- drawing ------------------------------------------------------------------------------------------

    def heading(self, view: View) -> tuple[str, str]:
        if view.snapshot is None or self._drawn is None:
            return "Block tables", ""
        title = f"Block tables ({count(len(view.snapshot.sequences))})"
        longest, last = self._longest(), min(self.state.left + self._drawn.columns, self._longest())
        words = (
            f"logical {self.state.left}-{max(last - 1, 0)} of {longest}"
            if longest > last or self.state.left
            else ""
        )
        below = len(self._rows) - self.state.top - self._room()
        more = f"{count(below)} more below" if below > 0 else ""
        both = "   ".join(filter(None, (words, more)))
        return title, both if len(title) + len(both) + 8 <= self.extent.width else words

    def legend(self, view: View) -> Legend:
        if view.snapshot is None:
            return ()
        return legend(view, figures=self._figures(view), room=self.extent.width - 4)

    def _figures(self, view: View) -> bool:
        """Whether there are no colours for reference counts."""
        return view.lettered

    def _room(self) -> int:
        """Rows under the head."""
        return max(0, self.extent.height - 1)

    def _longest(self) -> int:
        """Entries of the longest table."""
        return max((len(table_of(row)) for row in self._rows), default=0)

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        if view.snapshot is None:
            return []
        self._rows = shown_rows(view.rows)
        figures = self._figures(view)
        self._scroll(view, PageLines(view, width, figures=figures).columns)
        drawn = self._drawn = PageLines(
            view, width, self.state.left, cursor=self._cursor(view), lit=self.state.column, figures=figures
        )
        lines = [drawn.head()]
        lines += [drawn.row(row) for row in self._rows[self.state.top : self.state.top + height - 1]]
        if not self._rows and height > 1:
            words = "no row has the filter's text" if view.order.filter else "no sequences"
            lines.append(LineBuilder().put(f"  {words}", view.palette.style("faint")).line())
        return lines

    # -- cursor -------------------------------------------------------------------------------------------

    def _index(self, view: View) -> int | None:
        """The place of the selected row; of a group that of its first branch."""
        key = view.selection.row
        if key is None:
            return None
        exact = next((place for place, row in enumerate(self._rows) if row.key == key), None)
        if exact is None and key.branch is None:
            return next((p for p, row in enumerate(self._rows) if row.key.request == key.request), None)
        return exact

    def _cursor(self, view: View) -> Place | None:
        """The cell that the cursor is on: where the selected block stands in the selected row."""
        index, block = self._index(view), view.selection.block
        if index is None:
            return None
        row = self._rows[index]
        table, placed = table_of(row), self._placed
        stays = placed is not None and placed[0].key == row.key and placed[0].logical < len(table)
        if row.on_host:
            return placed[0] if placed is not None and stays and placed[1] is None else None
        if block is None:
            return None
        if placed is not None and stays and table[placed[0].logical] == block:
            return placed[0]
        found = (table == block).nonzero()[0]
        return Place(row.key, int(found[0])) if len(found) else None

    def _scroll(self, view: View, columns: int) -> None:
        """Keep the cursor with its entry; bring it in sight where it is to be; keep the last page full."""
        index = self._index(view)
        if index is not None:
            self._place = index
            self._keep(view, self._rows[index])
            if self._reveal:
                room, cursor = self._room(), self._cursor(view)
                self.put(top=max(min(self.state.top, index), index - room + 1))
                if cursor is not None:
                    self.put(left=max(min(self.state.left, cursor.logical), cursor.logical - columns + 1))
        self._reveal = False
        self.put(top=max(0, min(self.state.top, len(self._rows) - self._room())))
        self.put(left=max(0, min(self.state.left, self._longest() - columns)))

    def _keep(self, view: View, row: TableRow) -> None:
        """Select what the cursor's entry has become, if the cursor was put there and nothing else was
        selected since."""
        if self._placed is None or self._placed[1] is None or not self.has_focus:
            return
        (place, block), table = self._placed, table_of(row)
        if row.key != place.key or block != view.selection.block or row.on_host:
            return
        if place.logical < len(table) and (now := int(table[place.logical])) != block:
            self._placed = place, now
            self.call_later(self.perform, Select(Selection(row.key, now)))

    def select(self, place: int, logical: int | None) -> None:
        """Put the cursor on a cell, as near as there is one; without `logical` on the row alone."""
        if not self._rows:
            return
        self._place = max(0, min(place, len(self._rows) - 1))
        row = self._rows[self._place]
        table, block = table_of(row), None
        self._placed = None
        if logical is not None and len(table):
            at = max(0, min(logical, len(table) - 1))
            block = None if row.on_host else int(table[at])
            self._placed = Place(row.key, at), block
        self._reveal = True
        self.perform(Select(Selection(row.key, block)))
        self.redraw()

    def move(self, dx: int, dy: int) -> None:
        """Move the cursor by cells; Home and End go to the ends of the row. The first move puts it where it
        was last, or on the first cell in sight."""
        view = self.view
        if view is None or not self._rows:
            return
        index, cursor = self._index(view), self._cursor(view)
        if index is None:
            self.select(max(self._place, self.state.top), self.state.left)
            return
        last = len(table_of(self._rows[index])) - 1
        stays = self._placed is not None and cursor == self._placed[0]
        here = self._logical if stays or cursor is None else cursor.logical
        if abs(dy) >= ROW_END:
            here, dy = (0 if dy < 0 else last), 0
        elif dx:
            here = max(0, min(cursor.logical + dx, last)) if cursor is not None else self.state.left
        self._logical = max(0, here)
        self.select(index + dy, self._logical)

    def page(self) -> int:
        """Rows of a page."""
        return max(1, self._room())

    def take_inspect(self) -> bool:
        """From a row to its first block in sight, from a block to what the inspector says of it."""
        view = self.view
        if view is None or view.snapshot is None:
            return True
        if self._cursor(view) is None:
            self.move(1, 0)
        if self.view is not None and self.view.selection.row is not None:
            self.perform(Focus("inspector"))
        return True

    def take_back(self) -> bool:
        """Light no column any more."""
        if self.state.column is None:
            return False
        self.put(column=None)
        self.redraw()
        return True

    def do_tag(self) -> None:
        """Put a tag on the cursor's row or take it off, and go on to the next row."""
        view = self.view
        index = self._index(view) if view is not None else None
        if view is None or view.snapshot is None or index is None:
            return
        row = self._rows[index]
        branches = [one.branch for one in view.snapshot.sequences if one.request == row.key.request]
        self.perform(SetTags(toggled(view.tags, row, branches)))
        self.move(0, 1)

    def do_untag(self) -> None:
        """Take all tags off."""
        self.perform(SetTags(frozenset()))

    # -- mouse --------------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        """Select the cell or the row under the mouse; on an index light the logical block in all rows."""
        if self._drawn is None:
            return
        logical, place = self._drawn.place_at(event.x), self.state.top + event.y - 1
        if event.y == 0:
            if logical is not None:
                self._light(logical)
        elif place < len(self._rows):
            if logical is not None and logical < len(table_of(self._rows[place])):
                self._logical = logical
                self.select(place, logical)
            else:
                self.select(place, None)

    def _light(self, logical: int) -> None:
        """Light a column, or no longer; in the selected row the cursor goes there."""
        self.put(column=None if self.state.column == logical else logical)
        view = self.view
        index = self._index(view) if view is not None else None
        if self.state.column is not None and index is not None and logical < len(table_of(self._rows[index])):
            self._logical = logical
            self.select(index, logical)
        else:
            self.redraw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll without moving the cursor; with Shift or Ctrl sideways."""
        self._wheel(event, 1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll without moving the cursor; with Shift or Ctrl sideways."""
        self._wheel(event, -1)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        """Scroll sideways."""
        self._pan(0, WHEEL)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        """Scroll sideways."""
        self._pan(0, -WHEEL)

    def _wheel(self, event: events.MouseEvent, step: int) -> None:
        sideways = event.shift or event.ctrl
        self._pan(0 if sideways else step * WHEEL, step * WHEEL if sideways else 0)

    def _pan(self, rows: int, columns: int) -> None:
        """Show other rows or columns."""
        self.put(top=max(0, self.state.top + rows), left=max(0, self.state.left + columns))
        self.redraw()
