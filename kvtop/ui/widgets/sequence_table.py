"""The sequences: one row each, groups as trees, the cursor held by id."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from textual import events
from textual.geometry import NULL_REGION, Region

from kvtop.timeline.snapshot import BlockDetail
from kvtop.ui.ordering import ARRIVAL, BY_ID, DEFAULT_COLUMNS, next_place
from kvtop.ui.row_lines import GUTTER, RowLines, empty_line, order_words
from kvtop.ui.rows import RowKey, TableRow, row_for, toggled
from kvtop.ui.text import count, first_fit
from kvtop.ui.view import Selection, View
from kvtop.ui.widgets.lines import Line
from kvtop.ui.widgets.panel import PanelBody

if TYPE_CHECKING:
    from kvtop.ui.app import KvtopApp

WHEEL = 3
"""Rows that the mouse wheel scrolls."""


class SequenceTable(PanelBody):
    """A table drawn line by line.

    The cursor belongs to a sequence, not to a place: when rows change their order it goes with its row. The
    view stays where it is then, unless the cursor is followed, and comes back to the cursor with the next
    key that moves it.
    """

    columns: tuple[str, ...] = DEFAULT_COLUMNS
    """Ids of the columns between ID and TEXT (`ordering.BY_ID`)."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.top = 0
        """The first row shown."""
        self.following = False
        """Whether the cursor's row is kept in sight wherever it goes."""
        self._place = 0
        """Where the cursor was last, to go on from when its sequence has left."""
        self._key: RowKey | None = None
        self._reveal = False
        """Whether the next frame brings the cursor's row in sight."""
        self._in_sight = False
        self._drawn: RowLines | None = None

    @property
    def kvtop(self) -> KvtopApp:
        """The app, which has the order, the tags and the selection."""
        return cast("KvtopApp", self.app)

    # -- drawing ------------------------------------------------------------------------------------------

    def heading(self, view: View) -> tuple[str, str]:
        if view.snapshot is None:
            return "Sequences", ""
        total = len(view.snapshot.sequences)
        number = count(total)
        if view.order.filter:
            number = f"{count(sum(map(_stands_for, view.rows)))} of {number}"
        title = f"Sequences ({number})"
        if self.following and self._key is not None:
            title += f" · following {self._key.name}"
        words = order_words(view.order)
        if (below := len(view.rows) - self.top - self._room()) > 0:
            words.append(f"{count(below)} more below")
        room = self.extent.width - len(title) - 8
        return title, first_fit(["   ".join(words[:end]) for end in range(len(words), -1, -1)], room)

    def _room(self) -> int:
        """Rows under the head."""
        return max(0, self.extent.height - 1)

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        room = max(0, height - 1)
        self._scroll(view, room)
        detail = view.snapshot.block_detail if view.snapshot is not None else None
        owners = _owners(detail) if detail is not None and detail.block == view.selection.block else ()
        lettered = view.palette.mono or self.app.no_color
        drawn = self._drawn = RowLines(view, width, self.columns, owners=owners, lettered=lettered)
        lines = [drawn.head()]
        searching, matches, key = bool(view.order.search), self.kvtop.matches, view.selection.row
        for row in view.rows[self.top : self.top + room]:
            lines.append(drawn.row(row, selected=row.key == key, found=searching and row.key in matches))
        if not view.rows and view.snapshot is not None and height > 1:
            lines.append(empty_line(view, width))
        return lines

    # -- cursor and scrolling -----------------------------------------------------------------------------

    def _scroll(self, view: View, room: int) -> None:
        """Bring the cursor's row in sight where it is to be, and keep the last page full."""
        key = view.selection.row
        index = self._index(view)
        if key != self._key:
            self._key, self._reveal = key, True
        self.following = self.following and key is not None
        if index is not None:
            self._place = index
            if self._reveal or self.following:
                self.top = max(min(self.top, index), index - room + 1)
        self._reveal = False
        self.top = max(0, min(self.top, len(view.rows) - room))
        self._in_sight = index is not None and self.top <= index < self.top + room

    def _index(self, view: View) -> int | None:
        """The place of the selected row."""
        key = view.selection.row
        return next((index for index, row in enumerate(view.rows) if row.key == key), None) if key else None

    def on_resize(self, event: events.Resize) -> None:
        """A cursor that was in sight stays in sight."""
        self._reveal = self._in_sight

    def move(self, dx: int, dy: int) -> None:
        """Move the cursor by rows. The first move puts it where it was last, or on the first row."""
        view = self._newest()
        if view is None or not view.rows or not dy:
            return
        index = self._index(view)
        self.following = False
        self.select(self._place if index is None and abs(dy) < len(view.rows) else (index or 0) + dy)

    def select(self, place: int) -> None:
        """Put the cursor on the row at a place, as near as there is one."""
        view = self._newest()
        if view is not None and view.rows:
            self._place = max(0, min(place, len(view.rows) - 1))
            self._reveal = True
            self.kvtop.select(Selection(view.rows[self._place].key, None))
            self.again()

    def _newest(self) -> View | None:
        """The newest frame's view, which the table has not drawn when it is not on the screen."""
        return self.kvtop.dashboard.view

    def _cursor(self) -> TableRow | None:
        """The row under the cursor."""
        view = self._newest()
        key = self.kvtop.selection.row
        return row_for(view.rows, key) if view is not None and key is not None else None

    # -- mouse --------------------------------------------------------------------------------------------

    async def on_click(self, event: events.Click) -> None:
        """Select the row under the mouse, or sort by the column. On a fold's sign fold; twice inspects."""
        view, place = self._newest(), self.top + event.y - 1
        if view is None or self._drawn is None:
            return
        if event.y == 0:
            if column := self._drawn.column_at(event.x):
                self.sort_by(column, again=True)
        elif place < len(view.rows):
            row = view.rows[place]
            self.following = False
            self.select(place)
            if row.figures is not None and event.x < GUTTER:
                self._fold(row.key.request, not row.folded)
            elif event.chain == 2:
                await self.screen.run_action("inspect")

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll without moving the cursor."""
        self._wheel(WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll without moving the cursor."""
        self._wheel(-WHEEL)

    def _wheel(self, rows: int) -> None:
        self.following = False
        self.top = max(0, self.top + rows)
        self.kvtop.dashboard.draw_again()

    # -- order --------------------------------------------------------------------------------------------

    def do_sort(self) -> None:
        """Choose what to sort by."""
        from kvtop.ui.screens.choose import Choose, Option

        view = self._newest()
        if view is None:
            return
        self._take_keys()
        options = [Option(ARRIVAL, "ARRIVAL", "running, swapped, waiting")]
        options += [Option(column.id, column.head, column.help) for column in BY_ID.values()]

        def chosen(sort: str | None) -> None:
            if sort is not None and sort != self.kvtop.order.sort:
                self.sort_by(sort)

        self.app.push_screen(
            Choose("Sort by", options, view.order.sort, view=view, beside=self._panel), chosen
        )

    def _panel(self) -> Region:
        """The panel's region, frame included."""
        return self.kvtop.dashboard.regions(self.app.size).get(self.id or "", NULL_REGION)

    def _take_keys(self) -> None:
        """Have the keys, and with them a place on the screen, where there is room for one panel only."""
        self.kvtop.dashboard.set_focus(self)

    def sort_by(self, sort: str, *, again: bool = False) -> None:
        """Sort by a column; `again` inverts the order that there is already. The first rows come into sight,
        or the cursor's, if that was in sight before."""
        order = self.kvtop.order
        same = order.sort == sort and again
        self._reveal = self._in_sight
        self.top = 0
        self.kvtop.set_order(replace(order, sort=sort, inverted=same and not order.inverted))

    def do_invert(self) -> None:
        """The other way round."""
        self.sort_by(self.kvtop.order.sort, again=True)

    def do_tree(self) -> None:
        """Groups as trees, or all sequences in one list."""
        order = self.kvtop.order
        self._reveal = self._in_sight
        self.kvtop.set_order(replace(order, tree=not order.tree))

    def do_expand(self) -> None:
        """Show the branches of the group under the cursor."""
        self._fold_cursor(fold=False)

    def do_collapse(self) -> None:
        """Hide the branches of the group that the cursor is on or in."""
        self._fold_cursor(fold=True)

    def _fold_cursor(self, *, fold: bool) -> None:
        row, order = self._cursor(), self.kvtop.order
        if row is None or not order.tree or not (row.figures is not None or row.tree):
            self.kvtop.tell("Only a group of samples or beams can be folded", warning=True)
        else:
            self._fold(row.key.request, fold)

    def _fold(self, request: int, fold: bool) -> None:
        order = self.kvtop.order
        self._reveal = self._in_sight
        folded = order.folded | {request} if fold else order.folded - {request}
        self.kvtop.set_order(replace(order, folded=folded))

    def do_follow(self) -> None:
        """Keep the cursor's row in sight until the cursor or the view is moved; or let go of it."""
        if self.kvtop.selection.row is None:
            self.kvtop.tell("Select a sequence to follow: the arrows move the cursor", warning=True)
            return
        self.following = not self.following
        self.kvtop.dashboard.draw_again()

    # -- tags ---------------------------------------------------------------------------------------------

    def do_tag(self) -> None:
        """Put a tag on the row under the cursor or take it off, and go on to the next row."""
        view, row = self._newest(), self._cursor()
        if view is None or view.snapshot is None:
            return
        if row is None:
            self.select(self._place)
            return
        branches = [one.branch for one in view.snapshot.sequences if one.request == row.key.request]
        self.kvtop.set_tags(toggled(self.kvtop.tags, row, branches))
        self.move(0, 1)

    def do_untag(self) -> None:
        """Take all tags off."""
        self.kvtop.set_tags(frozenset())

    # -- filter and search --------------------------------------------------------------------------------

    def do_filter(self) -> None:
        """Show only the rows in which a text stands, as it is typed."""
        from kvtop.ui.screens.line_input import LineInput

        self._take_keys()
        order, palette = self.kvtop.order, self.kvtop.palette
        self.app.push_screen(
            LineInput(
                "Filter", palette, self, value=order.filter, changed=self._filter_by, word=self._filter_word
            )
        )

    def _filter_by(self, text: str) -> None:
        """Filter anew. A cursor whose row is hidden goes to the row in its place."""
        before = self.kvtop.selection.row
        self._reveal = True
        self.kvtop.set_order(replace(self.kvtop.order, filter=text))
        if before is not None and self.kvtop.selection.row is None:
            self.select(self._place)

    def _filter_word(self) -> tuple[str, bool]:
        view = self._newest()
        if view is None or view.snapshot is None or not view.order.filter:
            return "plain text, | is or", False
        shown = sum(map(_stands_for, view.rows))
        return f"{count(shown)} of {count(len(view.snapshot.sequences))}", not shown

    def do_search(self) -> None:
        """Go to the first row in which a text stands, as it is typed; again goes to the next one."""
        from kvtop.ui.screens.line_input import LineInput, LineKey

        self._take_keys()
        text, palette = self.kvtop.order.search, self.kvtop.palette
        if text:
            self._next_match()
        start = self._cursor()
        origin = start.key if start is not None else None

        def changed(text: str) -> None:
            self._search_for(text, origin)

        keys = (
            LineKey.of(self.kvtop.action_of("search"), "Next", self._next_match),
            LineKey.of(self.kvtop.action_of("previous_match"), "Previous", self.do_previous_match),
        )
        self.app.push_screen(
            LineInput(
                "Search", palette, self, value=text, changed=changed, word=self._search_word, extra=keys
            )
        )

    def _search_for(self, text: str, origin: RowKey | None) -> None:
        """Search anew, from the row at which the search began."""
        if not text:
            self._end_search()
            return
        self.kvtop.set_order(replace(self.kvtop.order, search=text))
        view = self._newest()
        row = row_for(view.rows, origin) if view is not None and origin is not None else None
        self._go_to_match(view.rows.index(row) if view is not None and row is not None else 0, 1)

    def _next_match(self) -> None:
        """The next row that the search has found."""
        self._go_to_match(self._place + 1, 1)

    def do_previous_match(self) -> None:
        """The row before that the search has found."""
        self._go_to_match(self._place - 1, -1)

    def _go_to_match(self, start: int, step: int) -> None:
        """Put the cursor on a match at or beyond a place; past the last one begins anew."""
        place = next_place(self._matches(), start, step)
        if place is not None:
            self.following = False
            self.select(place)

    def _matches(self) -> list[int]:
        """Places of the rows that the search has found."""
        view, matches = self._newest(), self.kvtop.matches
        return [place for place, row in enumerate(view.rows) if row.key in matches] if view else []

    def _search_word(self) -> tuple[str, bool]:
        if not self.kvtop.order.search:
            return "", False
        places = self._matches()
        if not places:
            return "no match", True
        where = f"{places.index(self._place) + 1} of " if self._place in places else ""
        return f"{where}{count(len(places))}", False

    def _end_search(self) -> None:
        self.kvtop.set_order(replace(self.kvtop.order, search=""))
        self.kvtop.set_matches(frozenset())

    def take_back(self) -> bool:
        """Esc ends a search first."""
        if not self.kvtop.order.search:
            return False
        self._end_search()
        return True


def _stands_for(row: TableRow) -> int:
    """How many sequences a row is the only one to show."""
    return len(row.sequences) if row.folded else int(row.figures is None)


def _owners(detail: BlockDetail) -> set[RowKey]:
    """The rows whose sequences hold a block."""
    return {RowKey.of(owner.sequence) for owner in detail.owners}
