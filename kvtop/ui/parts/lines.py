"""Widgets that are lists of lines: only lines that differ from the last frame are drawn again.

They answer the compositor with strips that they keep, past Textual's style cache, because borders, padding
and background are part of the lines themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from kvtop.ui.draw.filters import filter_strips
from kvtop.ui.draw.lines import Line, to_strip
from kvtop.ui.frame.view import View


class StripWidget(Widget):
    """Answers the compositor with kept strips, one a row."""

    DEFAULT_CSS = "StripWidget { height: 1fr; }"

    strips: Sequence[Strip] = ()
    extent: Size = Size(0, 0)
    """Its size, without Textual's detour over gutters: it has none."""
    ground: Style = Style()
    """What rows without a strip are filled with."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """The kept strips of a region, cut to it."""
        rows = self.strips[crop.y : crop.bottom]
        found = [*rows, *([Strip.blank(self.extent.width, self.ground)] * (crop.height - len(rows)))]
        if crop.x or crop.width != self.extent.width:
            found = [strip.crop(crop.x, crop.right) for strip in found]
        return filter_strips(self.app, found)

    def render_line(self, y: int) -> Strip:
        """One kept strip."""
        return self.render_lines(Region(0, y, self.extent.width, 1))[0]


class LineWidget(StripWidget):
    """A widget whose content is a list of lines, made anew from each frame's view."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.view: View | None = None
        self._lines: list[Line | None] = []
        self._lines_width = 0

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        """The content for a size in cells. Changes nothing that is drawn."""
        raise NotImplementedError

    def show(self, view: View) -> list[int]:
        """Make the strips of a frame. Returns the rows that differ from the last one and must be drawn."""
        self.view = view
        width, height = self.extent
        if not width or not height:
            return []
        ground = view.palette.style("text")
        lines: list[Line | None] = [*self.lines(view, width, height)[:height]]
        lines += [()] * (height - len(lines))
        if width != self._lines_width or len(self._lines) != height or ground != self.ground:
            self._lines, self._lines_width, self.ground = [None] * height, width, ground
            self.strips = [Strip.blank(width, self.ground)] * height
        strips = list(self.strips)
        changed = [y for y, line in enumerate(lines) if line != self._lines[y]]
        for y in changed:
            strips[y] = to_strip(lines[y] or (), width, self.ground)
        self.strips, self._lines = strips, lines
        return changed

    def again(self) -> None:
        """Draw the last frame anew, after a change of the widget's own state."""
        if self.view is not None:
            self.draw_rows(self.show(self.view))

    def draw_rows(self, rows: Iterable[int]) -> None:
        """Have Textual draw some rows."""
        regions = [Region(0, y, self.extent.width, 1) for y in rows]
        if regions:
            self.refresh(*regions)

    def on_resize(self, event: events.Resize) -> None:
        """A new size needs other lines."""
        self.extent = event.size
        self.again()
