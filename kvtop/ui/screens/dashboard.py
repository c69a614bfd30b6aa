"""The one screen below the dialogs: the parts of the dashboard, placed by preset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.geometry import NULL_REGION, Region, Size
from textual.layout import Layout
from textual.screen import Screen
from textual.strip import Strip

from kvtop.session.session import Notice
from kvtop.ui.actions import Action
from kvtop.ui.filters import filter_strips
from kvtop.ui.paint import PlacedRow, paint
from kvtop.ui.presets import BY_ID, PRESETS, Placed, Preset, arrange
from kvtop.ui.rows import RowKey
from kvtop.ui.screens.arrangement import (
    MINIMUM,
    Arrangement,
    Regions,
    Split,
    border_at,
    border_of,
    borders,
)
from kvtop.ui.screens.overlay import Overlay, uncovered
from kvtop.ui.view import Selection, View
from kvtop.ui.widgets.block_map import BlockMap
from kvtop.ui.widgets.compare import Compare
from kvtop.ui.widgets.event_log import EventLog
from kvtop.ui.widgets.header import Header
from kvtop.ui.widgets.inspector import Inspector
from kvtop.ui.widgets.kernel_reads import KernelReads
from kvtop.ui.widgets.key_bar import KeyBar
from kvtop.ui.widgets.lines import LineWidget
from kvtop.ui.widgets.meters import Meters
from kvtop.ui.widgets.page_tables import PageTables
from kvtop.ui.widgets.panel import Frame, PanelBody
from kvtop.ui.widgets.prefix_tree import PrefixTree
from kvtop.ui.widgets.rates import Rates
from kvtop.ui.widgets.sequence_table import SequenceTable
from kvtop.ui.widgets.ticker import Ticker
from kvtop.ui.widgets.timeline import Timeline
from kvtop.ui.widgets.too_small import TooSmall

if TYPE_CHECKING:
    from kvtop.ui.app import KvtopApp

FAR = 1 << 30
"""Beyond any number of rows."""
NUDGE = 0.04
"""How far a key moves a border: a share of the room that it divides."""


class Dashboard(Screen[None], inherit_bindings=False):
    """Places the parts for the preset and the size there is, draws frames, and moves the cursors.

    Commands to the generator are the app's actions; the cursors are its own, and what a panel does is the
    panel's: `do_<id>` of the body that has the keys, or of the one that the action names.
    """

    AUTO_FOCUS = ""

    def __init__(self, actions: tuple[Action, ...]) -> None:
        super().__init__(id="dashboard")
        self.actions = actions
        for action in actions:
            for key in action.keys:
                self._bindings.key_to_bindings[key] = [Binding(key, action.binding, action.help)]
        self.block_map = BlockMap(id="map")
        self.table = SequenceTable(id="table")
        self.key_bar = KeyBar(actions, id="keys")
        self.bodies: dict[str, PanelBody] = {
            "map": self.block_map,
            "table": self.table,
            "log": EventLog(id="log"),
            "inspector": Inspector(id="inspector"),
            "tables": PageTables(id="tables"),
            "prefixes": PrefixTree(id="prefixes"),
            "compare": Compare(id="compare"),
            "rates": Rates(id="rates"),
            "timeline": Timeline(id="timeline"),
            "kernel": KernelReads(id="kernel"),
        }
        self.parts: tuple[LineWidget, ...] = (
            TooSmall(MINIMUM, id="too-small"),
            Header(id="header"),
            Meters(id="meters"),
            Ticker(id="ticker"),
            *self.bodies.values(),
            *(Frame(body) for body in self.bodies.values()),
            self.key_bar,
        )
        self.view: View | None = None
        self.preset: Preset = PRESETS[0]
        self.zoomed = False
        self.shares: dict[str, float] = {}
        """Where a person has moved the borders; see `arrangement.Shares`."""
        self._focused_in: dict[str, str] = {}
        self._selected_block = False
        self._dragged: tuple[Split, Region] | None = None
        self._arrangement = Arrangement(self.regions)

    @property
    def layout(self) -> Layout:
        """Places the parts by `presets.arrange`."""
        return self._arrangement

    @property
    def kvtop(self) -> KvtopApp:
        """The app, which has the session."""
        from kvtop.ui.app import KvtopApp

        assert isinstance(self.app, KvtopApp)
        return self.app

    def render_lines(self, crop: Region) -> list[Strip]:
        """Blank: the parts cover it."""
        blank = Strip.blank(crop.width, self.kvtop.palette.style("text"))
        return filter_strips(self.app, [blank]) * crop.height

    def compose(self) -> ComposeResult:
        yield from self.parts

    def on_mount(self) -> None:
        """Give the preset's first panel the keys; the map where there is room for one panel only."""
        if self.preset.id == "overview" and "map" not in self.placed(self.app.size).regions:
            self._focused_in["overview"] = "map"
        self._focus_panel()

    # -- where the parts stand ----------------------------------------------------------------------------

    def placed(self, size: Size) -> Placed:
        """Where the parts stand now."""
        return arrange(
            self.preset,
            size,
            self.panel,
            block=self._selected_block,
            zoom=self.zoomed,
            shares=self.shares,
        )

    def regions(self, size: Size) -> Regions:
        """The regions alone."""
        return self.placed(size).regions

    @property
    def panel(self) -> str:
        """The panel that has the keys."""
        name = self.focused.id if self.focused is not None else None
        return name if name in self.preset.panels else self.preset.first

    def _focus_panel(self) -> None:
        """Give the keys to the panel that had them when this preset was left."""
        name = self._focused_in.get(self.preset.id, self.preset.first)
        self.set_focus(self.bodies[name])

    def show_preset(self, name: str) -> None:
        """Change to another preset. Raises KeyError for one that there is not."""
        self._focused_in[self.preset.id] = self.panel
        self.preset, self.zoomed = BY_ID[name], False
        self._focus_panel()
        self._arrange_again()
        self.kvtop.preset_changed()

    def set_shares(self, shares: Mapping[str, float]) -> None:
        """Put the borders where they were."""
        self.shares = dict(shares)

    def _arrange_again(self) -> None:
        """Have the parts placed anew. Asked for through a part: that makes the screen forget its cache."""
        self.key_bar.refresh(layout=True)

    # -- drawing ------------------------------------------------------------------------------------------

    @property
    def animating(self) -> bool:
        """Whether something on the screen fades, so that frames are needed though nothing changes."""
        return self.block_map.animating

    def draw(self, view: View, *, texts: bool = True) -> None:
        """Draw a frame. Without `texts` only the map, which may change faster than one can read."""
        self.view = view
        if self._selected_block != (view.selection.block is not None):
            self._selected_block = not self._selected_block
            self._arrange_again()
        placed = self.regions(self.app.size)
        top = self.app.screen
        direct = top is self or isinstance(top, Overlay)
        covered = top.covered if isinstance(top, Overlay) else NULL_REGION
        rows: list[PlacedRow] = []
        for part in self.parts if texts else (self.block_map,):
            name = part.id or ""
            region = placed.get(name.removesuffix("-frame"))
            if region is not None and name in self.bodies:
                region = region.shrink((1, 1, 1, 1))
            if region is None or region.size != part.extent:
                continue  # not on the screen, or about to be given another size
            changed = part.show(view)
            if isinstance(part, Frame) or not direct:
                part.draw_rows(changed)
            elif changed:
                for row in changed:
                    rows += uncovered((region.x, region.y + row, part.strips[row]), covered)
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
        return self.bodies[self.panel]

    async def action_panel(self, name: str) -> None:
        """Let the panel that has the keys do it, else the one that is meant for it."""
        panel = self.kvtop.action_of(name).panel
        for body in (self._body, self.bodies[panel]):
            do = getattr(body, f"do_{name}", None)
            if do is not None and (body.id or "") in self.preset.panels:
                do()
                return
        self.kvtop.tell(f"{self.preset.title} has nothing to {name}", warning=True)

    def action_next_panel(self) -> None:
        self._cycle(1)

    def action_previous_panel(self) -> None:
        self._cycle(-1)

    def _cycle(self, step: int) -> None:
        """Give the keys to another panel of the preset."""
        names = self.preset.panels
        self.set_focus(self.bodies[names[(names.index(self.panel) + step) % len(names)]])

    def action_preset_overview(self) -> None:
        self.show_preset("overview")

    def action_preset_map(self) -> None:
        self.show_preset("map")

    def action_preset_tables(self) -> None:
        self.show_preset("tables")

    def action_preset_prefixes(self) -> None:
        self.show_preset("prefixes")

    def action_preset_compare(self) -> None:
        self.show_preset("compare")

    def action_preset_timeline(self) -> None:
        self.show_preset("timeline")

    def action_preset_kernel(self) -> None:
        self.show_preset("kernel")

    def action_zoom_panel(self) -> None:
        """The panel that has the keys to full size, and back."""
        self.zoomed = not self.zoomed
        self._arrange_again()

    # -- borders ------------------------------------------------------------------------------------------

    def action_split_left(self) -> None:
        self._nudge(across=True, step=-NUDGE)

    def action_split_right(self) -> None:
        self._nudge(across=True, step=NUDGE)

    def action_split_up(self) -> None:
        self._nudge(across=False, step=-NUDGE)

    def action_split_down(self) -> None:
        self._nudge(across=False, step=NUDGE)

    def _nudge(self, *, across: bool, step: float) -> None:
        """Move the nearest border of the panel that has the keys."""
        placed = self.placed(self.app.size)
        split = border_of(placed.tree, self.panel, across=across) if placed.tree is not None else None
        if split is None or placed.tree is None:
            return
        whole = next(
            region for other, region in borders(placed.tree, placed.body, self.shares) if other is split
        )
        room = whole.width if across else whole.height
        self._move_border(split, room, split.cut(room, self.shares) + round(step * room) or 1)

    def _move_border(self, split: Split, room: int, cells: int) -> None:
        """Give a split's first part so many cells, as far as both keep their least."""
        self.shares[split.name] = max(0.05, min(cells / room, 0.95))
        self.shares[split.name] = split.cut(room, self.shares) / room
        self._arrange_again()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Take hold of a border."""
        placed = self.placed(self.app.size)
        if placed.tree is None or event.button != 1:
            return
        x, y = event.screen_x, event.screen_y
        self._dragged = border_at(placed.tree, placed.body, self.shares, x, y)
        if self._dragged is not None:
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Drag the border."""
        if self._dragged is not None:
            split, whole = self._dragged
            room = whole.width if split.across else whole.height
            cells = event.screen_x - whole.x if split.across else event.screen_y - whole.y
            self._move_border(split, room, cells + 1)

    def on_mouse_up(self) -> None:
        """Let go of the border."""
        if self._dragged is not None:
            self._dragged = None
            self.release_mouse()

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
        """What the panel makes of it; else from a sequence to its first block, from a block to its owner."""
        if self._panel_takes("inspect"):
            return
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

    def _panel_takes(self, name: str) -> bool:
        """Whether the panel that has the keys has a use of its own for a key, in its present state."""
        do = getattr(self._body, f"take_{name}", None)
        return do is not None and bool(do())

    def action_back(self) -> None:
        """Leave full size; what the panel makes of it; let go of the block, then of the sequence."""
        if self.zoomed:
            self.action_zoom_panel()
            return
        if self._panel_takes("back"):
            return
        selection = self.kvtop.selection
        if selection.block is not None:
            self.kvtop.select(Selection(selection.row, None))
        else:
            self.kvtop.select(Selection())

    def on_event_log_scrolled(self) -> None:
        self.draw_again()
