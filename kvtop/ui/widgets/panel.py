"""A framed part of the dashboard: title, a word on the right, a legend below, and a body inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rich.cells import cell_len
from rich.style import Style

from kvtop.ui.text import head
from kvtop.ui.view import View
from kvtop.ui.widgets.lines import Line, LineBuilder, LineWidget

if TYPE_CHECKING:
    from kvtop.ui.app import KvtopApp

Legend = tuple[tuple[str, Style], ...]


class PanelBody(LineWidget, can_focus=True):
    """What stands in a panel. It names the panel's title and legend, and moves its own cursor."""

    @property
    def kvtop(self) -> KvtopApp:
        """The app, which has the selection and the session."""
        return cast("KvtopApp", self.app)

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
