"""The one screen below the dialogs: the parts of the dashboard, placed by preset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from textual.app import ComposeResult
from textual.binding import Binding
from textual.geometry import NULL_REGION, Region, Size
from textual.layout import Layout
from textual.strip import Strip

from kvtop.session.session import Notice
from kvtop.ui.commands.actions import Action
from kvtop.ui.commands.intents import Focus, Perform, Select, Tell, Watch
from kvtop.ui.dashboard.arrangement import MINIMUM, Arrangement, Regions
from kvtop.ui.dashboard.borders import MovableBorders
from kvtop.ui.dashboard.header import Header
from kvtop.ui.dashboard.key_bar import KeyBar
from kvtop.ui.dashboard.meters import Meters
from kvtop.ui.dashboard.presets import BY_ID, PRESETS, Placed, Preset, arrange
from kvtop.ui.dashboard.registry import make_panel, wanted_by
from kvtop.ui.dashboard.ticker import Ticker
from kvtop.ui.dashboard.too_small import TooSmall
from kvtop.ui.draw.filters import filter_strips
from kvtop.ui.frame.screen_state import ScreenState
from kvtop.ui.frame.view import Selection, View
from kvtop.ui.parts.lines import LineWidget
from kvtop.ui.parts.overlay import Overlay, uncovered
from kvtop.ui.parts.panel import Frame, PanelBody
from kvtop.ui.terminal.paint import PlacedRow, paint

FAR = 1 << 30
"""Beyond any number of rows."""


class Dashboard(MovableBorders, inherit_bindings=False):
    """Places the parts for the preset and the size there is, draws frames, and moves the cursors.

    Commands to the generator are the app's actions; the cursors are its own, and what a panel does is the
    panel's: `do_<id>` of the body that has the keys, or of the one that the action names.
    """

    AUTO_FOCUS = ""

    def __init__(self, actions: tuple[Action, ...], perform: Perform) -> None:
        super().__init__(id="dashboard")
        self.perform = perform
        self._actions = {action.id: action for action in actions}
        for action in actions:
            for key in action.keys:
                self._bindings.key_to_bindings[key] = [Binding(key, action.binding, action.help)]
        self.key_bar = KeyBar(actions, id="keys")
        self.bodies: dict[str, PanelBody] = {}
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
        self._states: dict[str, Any] = {}
        """States of panels that are to have them once they are made."""
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
            body = self.bodies[name] = make_panel(name, self.perform)
            body.view = self.view
            if name in self._states:
                body.state = self._states.pop(name)
            self.frames[name] = Frame(body)
            if self.is_mounted:
                self.mount(body, self.frames[name])
        return self.bodies[name]

    @property
    def layout(self) -> Layout:
        """Places the parts by `presets.arrange`."""
        return self._arrangement

    def render_lines(self, crop: Region) -> list[Strip]:
        """Blank: the parts cover it."""
        blank = Strip.blank(crop.width, self.view.palette.style("text") if self.view is not None else None)
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
        self.perform(Watch(self.wants))

    def arrange_again(self) -> None:
        """Have the parts placed anew. Asked for through a part: that makes the screen forget its cache."""
        self.key_bar.refresh(layout=True)

    # -- drawing ------------------------------------------------------------------------------------------

    @property
    def animating(self) -> bool:
        """Whether something on the screen fades, so that frames are needed though nothing changes."""
        return any(body.animating for body in self.bodies.values())

    @property
    def wants(self) -> frozenset[str]:
        """What the preset's panels show that is not in every snapshot."""
        return wanted_by(self.preset.panels)

    def draw(self, view: View, *, texts: bool = True) -> None:
        """Draw a frame. Without `texts` only what may change faster than one can read: the map."""
        self.view = view
        for body in self.bodies.values():
            body.view = view
        if self._selected_block != (view.selection.block is not None):
            self._selected_block = not self._selected_block
            self.arrange_again()
        placed = self.regions(self.app.size)
        top = self.app.screen
        direct = top is self or isinstance(top, Overlay)
        covered = top.covered if isinstance(top, Overlay) else NULL_REGION
        rows: list[PlacedRow] = []
        for part in self.parts if texts else [body for body in self.bodies.values() if body.every_frame]:
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
        action = self._actions[name]
        for owner in (self.panel, action.owner):
            do = getattr(self.bodies.get(owner), f"do_{name}", None)
            if do is not None and owner in self.preset.panels:
                do()
                return
        what = " ".join(filter(None, (action.label, action.bar or action.id)))
        self.perform(Tell(f"{what} has no meaning in {self.preset.title}", warning=True))

    def action_next_panel(self, step: int) -> None:
        """Give the keys to another panel of the preset."""
        names = self.preset.panels
        self.focus_panel(names[(names.index(self.panel) + step) % len(names)])

    def focus_panel(self, panel: str) -> None:
        """Give the keys to a panel, as far as the preset has it."""
        if panel in self.preset.panels:
            self.set_focus(self.body(panel))

    def action_preset(self, name: str) -> None:
        """Look at something else."""
        self.show_preset(name)

    def action_zoom_panel(self) -> None:
        """The panel that has the keys to full size, and back."""
        self.zoomed = not self.zoomed
        self.arrange_again()

    # -- moving ------------------------------------------------------------------------------------------

    def action_move(self, dx: int, dy: int) -> None:
        """Move the cursor of the panel that has the keys."""
        self._body.move(dx, dy)

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self._body.move(0, pages * self._body.page())

    def action_edge(self, direction: int) -> None:
        """Move the cursor to the first or the last row or block."""
        self._body.move(0, direction * FAR)

    def action_inspect(self) -> None:
        """What the panel makes of it; else from the selected sequence to its first block."""
        view = self.view
        if self._panel_takes("inspect") or view is None or view.selection.row is None:
            return
        row = next((row for row in view.rows if row.key == view.selection.row), None)
        if row is not None and not row.on_host and len(row.sequences[0].table):
            self.perform(Select(Selection(row.key, int(row.sequences[0].table[0]))))
            self.perform(Focus("map"))

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
        selection = self.view.selection if self.view is not None else Selection()
        if selection.block is not None:
            self.perform(Select(Selection(selection.row, None)))
        else:
            self.perform(Select(Selection()))

    # -- what can be stored and brought back --------------------------------------------------------------

    @property
    def focused_in(self) -> dict[str, str]:
        """Preset -> the panel that has the keys in it, of presets that were shown. Changes nothing."""
        return {**self._focused_in, self.preset.id: self.panel}

    @property
    def panel_states(self) -> dict[str, Any]:
        """Panel -> its state, of panels that have one and were shown. Changes nothing."""
        made = {name: body.state for name, body in self.bodies.items() if body.state is not None}
        return {**self._states, **made}

    def restore(self, state: ScreenState) -> None:
        """Put preset, borders, keys and the panels' own states as they were."""
        self.shares = dict(state.shares)
        self._states = dict(state.panels)
        for name in [name for name in self._states if name in self.bodies]:
            self.bodies[name].state = self._states.pop(name)
        self._focused_in = dict(state.focused)
        self.preset, self.zoomed = BY_ID[state.preset], state.zoomed
        if self.is_mounted:
            for panel in self.preset.panels:
                self.body(panel)
            self._focus_panel()
            self.arrange_again()
