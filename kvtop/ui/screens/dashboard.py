"""The one screen below the dialogs: the parts of the dashboard, placed by preset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding
from textual.geometry import NULL_REGION, Region, Size
from textual.layout import Layout
from textual.strip import Strip

from kvtop.session.session import Notice
from kvtop.ui.actions import Action
from kvtop.ui.filters import filter_strips
from kvtop.ui.paint import PlacedRow, paint
from kvtop.ui.panels import make_panel
from kvtop.ui.presets import BY_ID, PRESETS, Placed, Preset, arrange
from kvtop.ui.rows import RowKey
from kvtop.ui.screens.arrangement import MINIMUM, Arrangement, Regions
from kvtop.ui.screens.borders import MovableBorders
from kvtop.ui.screens.overlay import Overlay, uncovered
from kvtop.ui.view import Selection, View
from kvtop.ui.widgets.block_map import BlockMap
from kvtop.ui.widgets.header import Header
from kvtop.ui.widgets.key_bar import KeyBar
from kvtop.ui.widgets.lines import LineWidget
from kvtop.ui.widgets.meters import Meters
from kvtop.ui.widgets.panel import Frame, PanelBody
from kvtop.ui.widgets.sequence_table import SequenceTable
from kvtop.ui.widgets.ticker import Ticker
from kvtop.ui.widgets.too_small import TooSmall

if TYPE_CHECKING:
    from kvtop.ui.app import KvtopApp

FAR = 1 << 30
"""Beyond any number of rows."""


class Dashboard(MovableBorders, inherit_bindings=False):
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
        self.bodies: dict[str, PanelBody] = {"map": self.block_map, "table": self.table}
        """The panels that were shown already, by name."""
        self.frames: dict[str, Frame] = {}
        self._lines: tuple[LineWidget, ...] = (
            TooSmall(MINIMUM, id="too-small"),
            Header(id="header"),
            Meters(id="meters"),
            Ticker(id="ticker"),
        )
        self.view: View | None = None
        self.preset: Preset = PRESETS[0]
        self.zoomed = False
        self._focused_in: dict[str, str] = {}
        self._selected_block = False
        self._arrangement = Arrangement(self.regions)

    def explain_keys(self, actions: Iterable[Action], instead: str) -> None:
        """Have the keys of actions that are not to be had do `instead`, which is given the action's id."""
        for action in actions:
            for key in action.keys:
                binding = Binding(key, f"{instead}('{action.id}')", show=False)
                self._bindings.key_to_bindings.setdefault(key, [binding])

    @property
    def parts(self) -> tuple[LineWidget, ...]:
        """Everything that is drawn."""
        return (*self._lines, *self.bodies.values(), *self.frames.values(), self.key_bar)

    def body(self, name: str) -> PanelBody:
        """A panel's body; made, with its frame, when it is asked for first."""
        if name not in self.frames:
            body = self.bodies.setdefault(name, self.bodies.get(name) or make_panel(name))
            self.frames[name] = Frame(body)
            if self.is_mounted:
                self.mount(body, self.frames[name])
        return self.bodies[name]

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
        for name in self.preset.panels:
            self.body(name)
        yield from self._lines
        for name, frame in self.frames.items():
            yield self.bodies[name]
            yield frame
        yield self.key_bar

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
        self.set_focus(self.body(name))

    def show_preset(self, name: str) -> None:
        """Change to another preset. Raises KeyError for one that there is not."""
        self._focused_in[self.preset.id] = self.panel
        for panel in BY_ID[name].panels:
            self.body(panel)
        self.preset, self.zoomed = BY_ID[name], False
        self._focus_panel()
        self.arrange_again()
        self.kvtop.preset_changed()

    def arrange_again(self) -> None:
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
            self.arrange_again()
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
        self.arrange_again()
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
        action = self.kvtop.action_of(name)
        panel = action.panel
        for owner in (self.panel, panel):
            do = getattr(self.bodies.get(owner), f"do_{name}", None)
            if do is not None and owner in self.preset.panels:
                do()
                return
        what = " ".join(filter(None, (action.label, action.bar or action.id)))
        self.kvtop.tell(f"{what} has no meaning in {self.preset.title}", warning=True)

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
        self.arrange_again()

    # -- moving ------------------------------------------------------------------------------------------

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
                self.kvtop.select(Selection(RowKey.of(owner), view.selection.block))
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
