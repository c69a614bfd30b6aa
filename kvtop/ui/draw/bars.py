"""Bars: amounts side by side on one scale."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style

from kvtop.ui.draw.lines import LineBuilder
from kvtop.ui.draw.palette import Palette

Part = tuple[int, str, Style]
"""An amount, the glyph it is drawn with, and its style."""


def split(parts: Sequence[int], total: int, width: int) -> list[int]:
    """Cells for each part of a bar of `width` cells for `total`. Parts that are not 0 get a cell at least,
    as long as there are cells, and the sum is never above `width`."""
    if total <= 0 or width <= 0:
        return [0] * len(parts)
    cells, seen, drawn = [], 0, 0
    for part in parts:
        seen += part
        end = min(width, round(seen * width / total))
        number = max(end - drawn, 1 if part and drawn < width else 0)
        cells.append(number)
        drawn += number
    return cells


def bar(line: LineBuilder, parts: Sequence[Part], total: int, width: int, palette: Palette) -> None:
    """Append a bar of `width` cells, brackets included."""
    line.put("[", palette.style("muted"))
    inner = width - 2
    cells = split([part[0] for part in parts], total, inner)
    for (_, glyph, style), number in zip(parts, cells, strict=True):
        line.put(glyph * number, style)
    line.put(" " * (inner - sum(cells)), palette.style("text", "track")).put("]", palette.style("muted"))
