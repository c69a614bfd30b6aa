"""Rows straight to the terminal.

Textual's way from a changed row to the terminal passes four message queues and renders every widget that
touches the rectangle around all changes; at twenty frames a second that is most of a dashboard's work. The
parts that lie on top of everything need none of it: their rows are written where they are.
"""

from __future__ import annotations

from rich.console import Console
from textual._compositor import CompositorUpdate
from textual.screen import Screen
from textual.strip import Strip

from kvtop.ui.draw.codestrip import CodeStrip
from kvtop.ui.draw.filters import filter_strips

PlacedRow = tuple[int, int, Strip]
"""Column and row of the screen, and what stands there."""


class RowsUpdate(CompositorUpdate):
    """Some rows of the screen, each at its place."""

    def __init__(self, rows: list[PlacedRow]) -> None:
        self.rows = rows

    def render_segments(self, console: Console) -> str:
        """The rows with the escape codes that put them in their places; of strips that know what changed in
        them, the changes alone."""
        return "".join(
            [
                strip.render_changes(console, x, y)
                if isinstance(strip, CodeStrip)
                else f"\x1b[{y + 1};{x + 1}H{strip.render(console)}"
                for x, y, strip in self.rows
            ]
        )


def paint(screen: Screen[None], rows: list[PlacedRow]) -> None:
    """Write rows to the terminal in one piece. The screen must be the one on top; without a terminal
    nothing is written, and a later repaint draws the same strips."""
    strips = filter_strips(screen.app, [strip for _, _, strip in rows])
    placed = [(x, y, strip) for (x, y, _), strip in zip(rows, strips, strict=True)]
    screen.app._display(screen, RowsUpdate(placed))  # type: ignore[arg-type]  # as Textual itself calls it
