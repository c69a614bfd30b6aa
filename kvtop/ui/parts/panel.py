"""What every panel is: a frame with a title, and a body inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rich.cells import cell_len
from rich.style import Style

from kvtop.ui.commands.intents import AskLine, Focus, Intent, LineAction, Perform, Redraw, Tell
from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.draw.text import head
from kvtop.ui.frame.view import View
from kvtop.ui.parts.lines import LineWidget

Legend = tuple[tuple[str, Style], ...]


def nobody(intent: Intent) -> None:
    """Stands in for `perform` until a panel is in a dashboard. Raises RuntimeError."""
    raise RuntimeError(f"{intent} was asked for by a panel that no dashboard has")


class PanelBody(LineWidget, can_focus=True):
    """What stands in a panel. It is handed a view a frame, and asks for everything else by intents.

    What a person has made of it (scrolled, zoomed, sorted, searched) is `state`, one frozen dataclass of
    plain values, so that a scene can store it, bring it back, and show it twice; whatever else it holds can
    be worked out again. Keys come as `move`, as `do_<action>`, and as `take_<action>`, which says whether the
    panel had a use of its own for a key.
    """

    every_frame = False
    """Whether it is drawn with every frame, and not only with those in which figures are."""
    animating = False
    """Whether something in it fades, so that it has to be drawn though nothing changes."""
    state: Any = None
    """A frozen dataclass; None for a panel that has nothing to store."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.perform: Perform = nobody

    @property
    def panel(self) -> str:
        """Its id in presets, intents and scenes. Changes nothing."""
        return self.id or ""

    def put(self, **changes: Any) -> None:
        """Change fields of `state`. Draws nothing."""
        self.state = replace(self.state, **changes)

    def tell(self, text: str, *, warning: bool = False) -> None:
        """Say a line to the person."""
        self.perform(Tell(text, warning))

    def redraw(self) -> None:
        """Have the screen drawn anew, after a change of `state`."""
        self.perform(Redraw())

    def take_keys(self) -> None:
        """Have the keys, and with them a place on the screen."""
        self.perform(Focus(self.panel))

    def ask_line(
        self,
        title: str,
        value: str,
        changed: Callable[[str], None],
        word: Callable[[], tuple[str, bool]],
        extra: tuple[LineAction, ...] = (),
    ) -> None:
        """Ask for a line of text; see `AskLine`. The arrows move this panel's cursor meanwhile."""
        self.perform(AskLine(self.panel, title, value, changed, word, self.move, self.page(), extra))

    def heading(self, view: View) -> tuple[str, str]:
        """The panel's title, and what stands at the right of it."""
        return "", ""

    def legend(self, view: View) -> Legend:
        """What stands in the panel's lower edge."""
        return ()

    def move(self, dx: int, dy: int) -> None:
        """Move the cursor by cells or rows; `dy` beyond the height goes to the first or last."""

    def page(self) -> int:
        """Rows of a page."""
        return max(1, self.extent.height - 1)


class Frame(LineWidget):
    """The frame around a body, which lies over it; bright while the body has the keys."""

    def __init__(self, body: PanelBody) -> None:
        super().__init__(id=f"{body.id}-frame")
        self.body = body
        self._key: tuple[object, ...] = ()

    def show(self, view: View) -> list[int]:
        """Make the frame anew if it differs, which it seldom does."""
        key = (
            self.extent,
            self.body.has_focus,
            self.body.heading(view),
            self.body.legend(view),
            view.palette,
        )
        if key == self._key:
            return []
        self._key = key
        return super().show(view)

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        style = view.palette.style
        focused = self.body.has_focus
        edge = style("focus" if focused else "border")
        title, right = self.body.heading(view)
        top = LineBuilder().put("╭─", edge)
        top.put(f" {head(title, width - 6)} ", style("focus" if focused else "text", bold=True))
        if right and top.width + cell_len(right) + 6 <= width:
            top.put("─" * (width - top.width - cell_len(right) - 4), edge)
            top.put(f" {right} ", style("muted"))
        top.put("─" * (width - top.width - 1), edge).put("╮", edge)
        side = LineBuilder().put("│", edge).space_to(width - 1, style("text")).put("│", edge).line()
        bottom = LineBuilder().put("╰─", edge)
        legend = self.body.legend(view)
        if legend and sum(cell_len(text) for text, _ in legend) + 6 <= width:
            bottom.put(" ", edge)
            for text, ink in legend:
                bottom.put(text, ink)
            bottom.put(" ", edge)
        bottom.put("─" * (width - bottom.width - 1), edge).put("╯", edge)
        return [top.line(), *([side] * max(0, height - 2)), bottom.line()]
