"""Lines of text: parts with their styles, put together by a builder and made into strips."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from kvtop.ui.draw.text import fit, head

Line = tuple[tuple[str, Style], ...]
"""Text and style of a line's parts, left to right."""


class LineBuilder:
    """Puts a line together and keeps count of its cells."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, Style]] = []
        self.width = 0

    def put(self, text: str, style: Style) -> LineBuilder:
        """Append text."""
        if text:
            self.parts.append((text, style))
            self.width += cell_len(text)
        return self

    def cell(self, text: str, width: int, style: Style, align: str = "<") -> LineBuilder:
        """Append text cut or padded to `width` cells."""
        if width > 0:
            self.parts.append((fit(text, width, align), style))
            self.width += width
        return self

    def space_to(self, column: int, style: Style) -> LineBuilder:
        """Append blanks up to `column`."""
        if column > self.width:
            self.parts.append((" " * (column - self.width), style))
            self.width = column
        return self

    def line(self) -> Line:
        """The line."""
        return tuple(self.parts)


def to_strip(line: Line, width: int, blank: Style) -> Strip:
    """A strip of exactly `width` cells; neighbours of one style become one segment."""
    segments: list[Segment] = []
    texts: list[str] = []
    current: Style | None = None
    used = 0
    for text, style in line:
        size = len(text) if text.isascii() else cell_len(text)
        if used + size > width:
            text = fit(head(text, width - used), width - used)
            size = width - used
        if not size:
            continue
        if style is not current and texts:
            segments.append(Segment("".join(texts), current))
            texts = []
        current = style
        texts.append(text)
        used += size
    if texts:
        segments.append(Segment("".join(texts), current))
    if used < width:
        segments.append(Segment(" " * (width - used), blank))
    return Strip(segments, width)
