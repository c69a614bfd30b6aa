"""The first screen: meters, block map, sequences, what is selected, events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding
from textual.geometry import Region, Size
from textual.layout import Layout
from textual.screen import Screen
from textual.strip import Strip

from kvtop.session.session import Notice
from kvtop.ui.actions import ACTIONS, Action
from kvtop.ui.paint import PlacedRow, paint
from kvtop.ui.rows import RowKey
from kvtop.ui.screens.arrangement import MINIMUM, Arrangement, Regions, arrange
from kvtop.ui.view import Selection, View
from kvtop.ui.widgets.block_map import BlockMap
from kvtop.ui.widgets.event_log import EventLog
from kvtop.ui.widgets.header import Header
from kvtop.ui.widgets.inspector import Inspector
from kvtop.ui.widgets.key_bar import KeyBar
from kvtop.ui.widgets.lines import LineWidget
from kvtop.ui.widgets.meters import Meters
from kvtop.ui.widgets.panel import Frame, PanelBody
from kvtop.ui.widgets.sequence_table import SequenceTable
from kvtop.ui.widgets.too_small import TooSmall

if TYPE_CHECKING:
    from kvtop.ui.app import KvtopApp

FAR = 1 << 30
"""Beyond any number of rows."""


class Overview(Screen[None], inherit_bindings=False):
    """Places the parts for the size there is, draws frames, and moves the cursors.

    Commands to the generator are the app's actions; the cursors are its own.
    """

    AUTO_FOCUS = ""
    BINDINGS = [
        Binding(",".join(action.keys), action.binding, action.help, id=action.id) for action in ACTIONS
    ]

    def __init__(self, actions: tuple[Action, ...]) -> None:
        super().__init__(id="overview")
        self.actions = actions
        self.block_map = BlockMap(id="map")
        self.table = SequenceTable(id="table")
        self.event_log = EventLog(id="log")
        self.key_bar = KeyBar(actions, id="keys")
        self.bodies: tuple[PanelBody, ...] = (
            self.block_map,
            self.table,
            self.event_log,
            Inspector(id="inspector"),
        )
        self.parts: tuple[LineWidget, ...] = (
            TooSmall(MINIMUM, id="too-small"),
            Header(id="header"),
            Meters(id="meters"),
            *self.bodies,
            *(Frame(body) for body in self.bodies),
            self.key_bar,
        )
        self.view: View | None = None
        self._selected_block = False
        self._arrangement = Arrangement(self.regions)

    @property
    def layout(self) -> Layout:
        """Places the parts by `arrangement.arrange`."""
        return self._arrangement

    @property
    def kvtop(self) -> KvtopApp:
        """The app, which has the session."""
        from kvtop.ui.app import KvtopApp

        assert isinstance(self.app, KvtopApp)
        return self.app

    def render_lines(self, crop: Region) -> list[Strip]:
        """Blank: the parts cover it."""
        return [Strip.blank(crop.width, self.kvtop.palette.style("text"))] * crop.height

    def compose(self) -> ComposeResult:
        yield from self.parts

    def on_mount(self) -> None:
        """Give the table the keys; the map where there is room for one panel only."""
        narrow = "map" not in arrange(self.app.size, "table", block_selected=False)
        self.set_focus(self.block_map if narrow else self.table)

    def regions(self, size: Size) -> Regions:
        """Where the parts stand now."""
        return arrange(size, self.panel, block_selected=self._selected_block)

    @property
    def panel(self) -> str:
        """The panel that has the keys."""
        return (self.focused.id if self.focused is not None else None) or "table"

    def draw(self, view: View, *, texts: bool = True) -> None:
        """Draw a frame. Without `texts` only the map, which may change faster than one can read."""
        self.view = view
        if self._selected_block != (view.selection.block is not None):
            self._selected_block = not self._selected_block
            self._arrange_again()
        placed = self.regions(self.app.size)
        direct = self.is_current
        rows: list[PlacedRow] = []
        for part in self.parts if texts else (self.block_map,):
            region = placed.get((part.id or "").removesuffix("-frame"))
            if region is not None and part in self.bodies:
                region = region.shrink((1, 1, 1, 1))
            if region is None or region.size != part.extent:
                continue  # not on the screen, or about to be given another size
            changed = part.show(view)
            if isinstance(part, Frame) or not direct:
                part.draw_rows(changed)
            elif changed:
                rows += [(region.x, region.y + row, part.strips[row]) for row in changed]
        if rows:
            paint(self, rows)

    def draw_again(self) -> None:
        """Draw the last frame anew, after a change of focus."""
        if self.view is not None:
            self.draw(self.view)

    def on_descendant_focus(self) -> None:
        """Another panel has the keys; where there is little room it takes another's place."""
        self._arrange_again()
        self.draw_again()

    def _arrange_again(self) -> None:
        """Have the parts placed anew. Asked for through a part: that makes the screen forget its cache."""
        self.key_bar.refresh(layout=True)

    def tell(self, notice: Notice | None) -> None:
        """Show a notice over the key bar, or take it away."""
        self.key_bar.notice = notice
        self.key_bar.again()

    # -- actions ------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """On a terminal that is too small nothing can be moved."""
        return not self.too_small

    @property
    def too_small(self) -> bool:
        """Whether the terminal is below the minimum."""
        return self.app.size.width < MINIMUM.width or self.app.size.height < MINIMUM.height

    @property
    def _body(self) -> PanelBody:
        return next((body for body in self.bodies if body is self.focused), self.table)

    def action_next_panel(self) -> None:
        self._cycle(1)

    def action_previous_panel(self) -> None:
        self._cycle(-1)

    def _cycle(self, step: int) -> None:
        """Give the keys to another panel."""
        focusable: list[PanelBody] = [self.block_map, self.table, self.event_log]
        self.set_focus(focusable[(focusable.index(self._body) + step) % len(focusable)])

    def action_move_up(self) -> None:
        self._body.move(0, -1)

    def action_move_down(self) -> None:
        self._body.move(0, 1)

    def action_move_left(self) -> None:
        self._body.move(-1, 0)

    def action_move_right(self) -> None:
        self._body.move(1, 0)

    def action_page_up(self) -> None:
        self._body.move(0, -self._body.page())

    def action_page_down(self) -> None:
        self._body.move(0, self._body.page())

    def action_first(self) -> None:
        self._body.move(0, -FAR)

    def action_last(self) -> None:
        self._body.move(0, FAR)

    def action_inspect(self) -> None:
        """From a sequence to its first block, from a block to its owner."""
        view = self.view
        if view is None or view.snapshot is None:
            return
        if self._body is self.block_map:
            detail = view.snapshot.block_detail
            if detail is not None and detail.block == view.selection.block and detail.owners:
                owner = detail.owners[0].sequence
                self.kvtop.select(Selection(RowKey(owner >> 16, owner & 0xFFFF), view.selection.block))
                self.set_focus(self.table)
        elif view.selection.row is not None:
            row = next((row for row in view.rows if row.key == view.selection.row), None)
            if row is not None and not row.on_host and len(row.sequences[0].table):
                self.kvtop.select(Selection(view.selection.row, int(row.sequences[0].table[0])))
                self.set_focus(self.block_map)

    def action_back(self) -> None:
        """Let go of the block, then of the sequence."""
        selection = self.kvtop.selection
        if selection.block is not None:
            self.kvtop.select(Selection(selection.row, None))
        else:
            self.kvtop.select(Selection())

    def on_block_map_moved(self, message: BlockMap.Moved) -> None:
        self.kvtop.select(Selection(self.kvtop.selection.row, message.block))

    def on_event_log_scrolled(self) -> None:
        self.draw_again()

    def on_sequence_table_moved(self, message: SequenceTable.Moved) -> None:
        self.kvtop.select(Selection(message.key, None))
