"""Screens that leave the one below in sight: a line of input, a list to choose from."""

from __future__ import annotations

from textual.geometry import NULL_REGION, Region
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.strip import Strip

from kvtop.ui.terminal.paint import PlacedRow


class Overlay(ModalScreen[ScreenResultType]):
    """A modal screen over a part of the one below, which goes on in full colours.

    What the screen below draws outside of `covered` it may write straight to the terminal.
    """

    covered: Region = NULL_REGION
    """What of the screen it covers, in cells."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows of the screen below, as they are now."""
        compositor = self._below()._compositor
        chops = compositor._render_chops(self.size.region, lambda y: crop.y <= y < crop.bottom)
        rows = [Strip.join(chops[y].values()) for y in range(crop.y, min(crop.bottom, len(chops)))]
        return [row.crop(crop.x, crop.right) for row in rows]

    def _below(self) -> Screen[object]:
        """The screen that it lies on."""
        stack = self.app.screen_stack
        return stack[stack.index(self) - 1]


def uncovered(row: PlacedRow, covered: Region) -> list[PlacedRow]:
    """What of a row can be seen beside a region that lies over it."""
    x, y, strip = row
    end = x + strip.cell_length
    if not (covered.y <= y < covered.bottom and x < covered.right and covered.x < end):
        return [row]
    pieces: list[PlacedRow] = []
    if x < covered.x:
        pieces.append((x, y, strip.crop(0, covered.x - x)))
    if covered.right < end:
        pieces.append((covered.right, y, strip.crop(covered.right - x, strip.cell_length)))
    return pieces
