"""The sequences: one row each, groups as trees, the cursor held by id."""

from __future__ import annotations

from dataclasses import dataclass, replace

from textual import events

from kvtop.timeline.snapshot import BlockDetail
from kvtop.ui.commands.intents import AskChoice, Do, Focus, LineAction, Option, Select, SetOrder, SetTags
from kvtop.ui.draw.lines import Line
from kvtop.ui.draw.text import count, first_fit
from kvtop.ui.frame.columns import BY_ID
from kvtop.ui.frame.ordering import next_place
from kvtop.ui.frame.row import ARRIVAL, RowKey, TableOrder, TableRow, toggled
from kvtop.ui.frame.rows import row_for
from kvtop.ui.frame.view import Selection, View
from kvtop.ui.panels.sequences.lines import GUTTER, RowLines, empty_line, order_words
from kvtop.ui.parts.panel import PanelBody

WHEEL = 3
"""Rows that the mouse wheel scrolls."""


@dataclass(frozen=True, slots=True)
class SequencesState:
    """What a person has made of the panel; the order of the rows is everybody's, and so the view's."""

    top: int = 0
    """The first row shown."""
    following: bool = False
    """Whether the cursor's row is kept in sight wherever it goes."""


class SequenceTable(PanelBody):
    """A table drawn line by line.

    The cursor belongs to a sequence, not to a place: when rows change their order it goes with its row. The
    view stays where it is then, unless the cursor is followed, and comes back to the cursor with the next
    key that moves it.
    """

    state: SequencesState = SequencesState()

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._place = 0
        """Where the cursor was last, to go on from when its sequence has left."""
        self._key: RowKey | None = None
        self._reveal = False
        """Whether the next frame brings the cursor's row in sight."""
        self._in_sight = False
        self._drawn: RowLines | None = None

    # -- drawing ------------------------------------------------------------------------------------------

    def heading(self, view: View) -> tuple[str, str]:
        if view.snapshot is None:
            return "Sequences", ""
        total = len(view.snapshot.sequences)
        number = count(total)
        if view.order.filter:
            number = f"{count(sum(map(_stands_for, view.rows)))} of {number}"
        title = f"Sequences ({number})"
        if self.state.following and self._key is not None:
            title += f" · following {self._key.name}"
        words = order_words(view.order)
        if (below := len(view.rows) - self.state.top - self._room()) > 0:
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
        lettered = view.lettered
        drawn = self._drawn = RowLines(view, width, view.columns, owners=owners, lettered=lettered)
        lines = [drawn.head()]
        searching, matches, key = bool(view.order.search), view.matches, view.selection.row
        for row in view.rows[self.state.top : self.state.top + room]:
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
        self.put(following=self.state.following and key is not None)
        if index is not None:
            self._place = index
            if self._reveal or self.state.following:
                self.put(top=max(min(self.state.top, index), index - room + 1))
        self._reveal = False
        self.put(top=max(0, min(self.state.top, len(view.rows) - room)))
        self._in_sight = index is not None and self.state.top <= index < self.state.top + room

    def _index(self, view: View) -> int | None:
        """The place of the selected row."""
        key = view.selection.row
        return next((index for index, row in enumerate(view.rows) if row.key == key), None) if key else None

    def on_resize(self, event: events.Resize) -> None:
        """A cursor that was in sight stays in sight."""
        self._reveal = self._in_sight

    def move(self, dx: int, dy: int) -> None:
        """Move the cursor by rows. The first move puts it where it was last, or on the first row."""
        view = self.view
        if view is None or not view.rows or not dy:
            return
        index = self._index(view)
        self.put(following=False)
        self.select(self._place if index is None and abs(dy) < len(view.rows) else (index or 0) + dy)

    def select(self, place: int) -> None:
        """Put the cursor on the row at a place, as near as there is one."""
        view = self.view
        if view is not None and view.rows:
            self._place = max(0, min(place, len(view.rows) - 1))
            self._reveal = True
            self.perform(Select(Selection(view.rows[self._place].key, None)))
            self.again()

    @property
    def _selected(self) -> RowKey | None:
        """The row that the cursor is on, whether or not it is shown."""
        return self.view.selection.row if self.view is not None else None

    def _cursor(self) -> TableRow | None:
        """The row under the cursor."""
        key = self.view.selection.row if self.view is not None else None
        return row_for(self.view.rows, key) if self.view is not None and key is not None else None

    # -- mouse --------------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        """Select the row under the mouse, or sort by the column. On a fold's sign fold; twice inspects."""
        view, place = self.view, self.state.top + event.y - 1
        if view is None or self._drawn is None:
            return
        if event.y == 0:
            if column := self._drawn.column_at(event.x):
                self.sort_by(column, again=True)
        elif place < len(view.rows):
            row = view.rows[place]
            self.put(following=False)
            self.select(place)
            if row.figures is not None and event.x < GUTTER:
                self._fold(row.key.request, not row.folded)
            elif event.chain == 2:
                self.perform(Do("inspect"))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll without moving the cursor."""
        self._wheel(WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll without moving the cursor."""
        self._wheel(-WHEEL)

    def _wheel(self, rows: int) -> None:
        self.put(following=False)
        self.put(top=max(0, self.state.top + rows))
        self.redraw()

    # -- order --------------------------------------------------------------------------------------------

    def do_sort(self) -> None:
        """Choose what to sort by."""
        view = self.view
        if view is None:
            return
        options = [Option(ARRIVAL, "ARRIVAL", "running, swapped, waiting")]
        options += [Option(column.name, column.title, column.meaning) for column in BY_ID.values()]

        def chosen(sort: str | None) -> None:
            if sort is not None and sort != self._order.sort:
                self.sort_by(sort)

        self.perform(AskChoice(self.panel, "Sort by", options, view.order.sort, chosen))

    @property
    def _order(self) -> TableOrder:
        """The order that is in force."""
        return self.view.order if self.view is not None else TableOrder()

    def sort_by(self, sort: str, *, again: bool = False) -> None:
        """Sort by a column; `again` inverts the order that there is already. The first rows come into sight,
        or the cursor's, if that was in sight before."""
        order = self._order
        same = order.sort == sort and again
        self._reveal = self._in_sight
        self.put(top=0)
        self.perform(SetOrder(replace(order, sort=sort, inverted=same and not order.inverted)))

    def do_invert(self) -> None:
        """The other way round."""
        self.sort_by(self._order.sort, again=True)

    def do_tree(self) -> None:
        """Groups as trees, or all sequences in one list."""
        order = self._order
        self._reveal = self._in_sight
        self.perform(SetOrder(replace(order, tree=not order.tree)))

    def do_expand(self) -> None:
        """Show the branches of the group under the cursor."""
        self._fold_cursor(fold=False)

    def do_collapse(self) -> None:
        """Hide the branches of the group that the cursor is on or in."""
        self._fold_cursor(fold=True)

    def _fold_cursor(self, *, fold: bool) -> None:
        row, order = self._cursor(), self._order
        if row is None or not order.tree or not (row.figures is not None or row.tree):
            self.tell("Only a group of samples or beams can be folded", warning=True)
        else:
            self._fold(row.key.request, fold)

    def _fold(self, request: int, fold: bool) -> None:
        order = self._order
        self._reveal = self._in_sight
        folded = order.folded | {request} if fold else order.folded - {request}
        self.perform(SetOrder(replace(order, folded=folded)))

    def do_follow(self) -> None:
        """Keep the cursor's row in sight until the cursor or the view is moved; or let go of it."""
        if self._selected is None:
            self.tell("Select a sequence to follow: the arrows move the cursor", warning=True)
            return
        self.put(following=not self.state.following)
        self.redraw()

    # -- tags ---------------------------------------------------------------------------------------------

    def do_tag(self) -> None:
        """Put a tag on the row under the cursor or take it off, and go on to the next row."""
        view, row = self.view, self._cursor()
        if view is None or view.snapshot is None:
            return
        if row is None:
            self.select(self._place)
            return
        branches = [one.branch for one in view.snapshot.sequences if one.request == row.key.request]
        self.perform(SetTags(toggled(view.tags, row, branches)))
        self.move(0, 1)

    def do_untag(self) -> None:
        """Take all tags off."""
        self.perform(SetTags(frozenset()))

    # -- filter and search --------------------------------------------------------------------------------

    def do_filter(self) -> None:
        """Show only the rows in which a text stands, as it is typed."""
        self.ask_line("Filter", self._order.filter, self._filter_by, self._filter_word)

    def _filter_by(self, text: str) -> None:
        """Filter anew. A cursor whose row is hidden goes to the row in its place."""
        before = self._selected
        self._reveal = True
        self.perform(SetOrder(replace(self._order, filter=text)))
        if before is not None and self._selected is None:
            self.select(self._place)

    def _filter_word(self) -> tuple[str, bool]:
        view = self.view
        if view is None or view.snapshot is None or not view.order.filter:
            return "plain text, | is or", False
        shown = sum(map(_stands_for, view.rows))
        return f"{count(shown)} of {count(len(view.snapshot.sequences))}", not shown

    def do_search(self) -> None:
        """Go to the first row in which a text stands, as it is typed; again goes to the next one."""
        text = self._order.search
        if text:
            self._next_match()
        start = self._cursor()
        origin = start.key if start is not None else None

        def changed(text: str) -> None:
            self._search_for(text, origin)

        keys = (
            LineAction("search", "Next", self._next_match),
            LineAction("previous_match", "Previous", self.do_previous_match),
        )
        self.ask_line("Search", text, changed, self._search_word, keys)

    def _search_for(self, text: str, origin: RowKey | None) -> None:
        """Search anew, from the row at which the search began."""
        if not text:
            self._end_search()
            return
        self.perform(SetOrder(replace(self._order, search=text)))
        view = self.view
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
            self.put(following=False)
            self.select(place)

    def _matches(self) -> list[int]:
        """Places of the rows that the search has found."""
        view = self.view
        return [place for place, row in enumerate(view.rows) if row.key in view.matches] if view else []

    def _search_word(self) -> tuple[str, bool]:
        if not self._order.search:
            return "", False
        places = self._matches()
        if not places:
            return "no match", True
        where = f"{places.index(self._place) + 1} of " if self._place in places else ""
        return f"{where}{count(len(places))}", False

    def _end_search(self) -> None:
        self.perform(SetOrder(replace(self._order, search="")))

    def take_inspect(self) -> bool:
        """From a sequence to its first block in the map."""
        row = self._cursor()
        if row is not None and not row.on_host and len(row.sequences[0].table):
            self.perform(Select(Selection(row.key, int(row.sequences[0].table[0]))))
            self.perform(Focus("map"))
        return True

    def take_back(self) -> bool:
        """Esc ends a search first."""
        if not self._order.search:
            return False
        self._end_search()
        return True


def _stands_for(row: TableRow) -> int:
    """How many sequences a row is the only one to show."""
    return len(row.sequences) if row.folded else int(row.figures is None)


def _owners(detail: BlockDetail) -> set[RowKey]:
    """The rows whose sequences hold a block."""
    return {RowKey.of(owner.sequence) for owner in detail.owners}
