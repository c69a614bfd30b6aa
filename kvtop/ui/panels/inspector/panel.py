"""What is selected, in full: a block or a sequence; without a selection the newest step."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events

from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.draw.text import count
from kvtop.ui.frame.row import RowKey
from kvtop.ui.frame.view import Selection, View
from kvtop.ui.panels.inspector.block import block_page
from kvtop.ui.panels.inspector.sequence import sequence_page
from kvtop.ui.panels.inspector.step import step_page
from kvtop.ui.parts.panel import PanelBody

WHEEL = 3
"""Lines that the mouse wheel scrolls."""


@dataclass(frozen=True, slots=True)
class InspectorState:
    """What a person has made of the panel."""

    top: int = 0
    """The first line of the whole page that is shown."""


class Inspector(PanelBody):
    """Shows the selected block; without one the selected sequence; without either the newest step.

    While another panel has the keys, the page is cut to what fits, the most telling lines of each part.
    With the keys, or scrolled by the wheel, the page is whole and scrolls.
    """

    state: InspectorState = InspectorState()

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._subject = Selection()
        self._total = 0
        """Lines of the page as it was drawn last."""

    def heading(self, view: View) -> tuple[str, str]:
        below = self._total - self.state.top - self.extent.height
        selection = view.selection
        if selection.block is not None:
            title, right = f"Selected: block {count(selection.block)}", "Esc to let go"
        elif selection.row is not None:
            title, right = f"Selected: {_title(selection.row)}", "Esc to let go"
        else:
            title, right = f"Step {count(view.snapshot.step)}" if view.snapshot is not None else "Step", ""
        return title, f"{count(below)} more below" if below > 0 else right

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        if view.selection != self._subject:
            self._subject = view.selection
            self.put(top=0)
        whole = self.has_focus or self.state.top > 0
        page = _page(view, width, None if whole else height)
        self._total = len(page)
        self.put(top=max(0, min(self.state.top, self._total - height)))
        return page[self.state.top : self.state.top + height]

    def move(self, dx: int, dy: int) -> None:
        """Scroll by lines."""
        self.put(top=max(0, self.state.top + dy))
        self.redraw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll towards the end of the page."""
        self.move(0, WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll towards its beginning."""
        self.move(0, -WHEEL)


def _page(view: View, width: int, height: int | None) -> list[Line]:
    """The page of what is selected."""
    snapshot, selection = view.snapshot, view.selection
    if snapshot is None:
        return []
    if selection.block is not None:
        block = snapshot.block_detail
        if block is None or block.block != selection.block:
            return [LineBuilder().put(" being looked up", view.palette.style("faint")).line()]
        return block_page(view, block, snapshot.step, width, height)
    row = next((row for row in view.rows if row.key == selection.row), None)
    if row is not None:
        return sequence_page(view, snapshot, row, width, height)
    return step_page(view, snapshot, width, height)


def _title(key: RowKey) -> str:
    """A row in words."""
    if key.branch is None:
        return f"request {key.request}"
    return f"sequence {key.request}" + (f".{key.branch}" if key.branch else "")
