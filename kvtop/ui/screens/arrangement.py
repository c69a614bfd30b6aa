"""Where the parts of the overview stand, for every size of the terminal: one pure function and its layout."""

from __future__ import annotations

from collections.abc import Callable

from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

MINIMUM = Size(60, 18)
"""Below this there is only a line that says so."""
WIDE = 110
"""From this width on map and table stand side by side."""
STACKED = Size(70, 22)
"""From this size on map and table stand one above the other; below, one panel at a time."""
TALL = 30
"""From this height on the meters have their fifth line."""
METERS = 5

Regions = dict[str, Region]


def arrange(size: Size, focus: str, *, block_selected: bool) -> Regions:
    """Regions of `header`, `meters`, `keys` and of the panels `map`, `table`, `log`, `inspector` that fit.

    Where there is room for few panels, the one that has the `focus` is among them, and a selected block
    gets its inspector beside the map. Below the minimum there is only `too-small`.
    """
    width, height = size
    if width < MINIMUM.width or height < MINIMUM.height:
        return {"too-small": Region(0, 0, width, height)}
    meters = METERS if height >= TALL else METERS - 1
    body = Region(0, 1 + meters, width, height - meters - 2)
    regions = {
        "header": Region(0, 0, width, 1),
        "meters": Region(0, 1, width, meters),
        "keys": Region(0, height - 1, width, 1),
    }
    second = "inspector" if block_selected and focus == "map" else "log" if focus == "log" else "table"
    if width >= WIDE:
        regions |= _side_by_side(body, second)
    elif width >= STACKED.width and height >= STACKED.height:
        regions |= _stacked(body, second, block_selected=block_selected)
    elif second == "inspector":
        map_part, rest = body.split_horizontal(body.height - 6)
        regions |= {"map": map_part, "inspector": rest}
    else:
        regions["map" if focus == "map" else second] = body
    return regions


def _side_by_side(body: Region, second: str) -> Regions:
    """Map at the left, tables at the right; below them, where it is tall enough, inspector and log."""
    left, right = body.split_vertical(body.width * 42 // 100)
    if body.height < 22:
        return {"map": left, second: right}
    below = max(9, min(body.height // 3, 18))
    upper_left, lower_left = left.split_horizontal(body.height - below)
    upper_right, lower_right = right.split_horizontal(body.height - below)
    return {"map": upper_left, "inspector": lower_left, "table": upper_right, "log": lower_right}


def _stacked(body: Region, second: str, *, block_selected: bool) -> Regions:
    """Map above, one panel below; a third where it is tall enough."""
    upper, lower = body.split_horizontal(max(10, body.height * 2 // 5))
    if lower.height < 20:
        return {"map": upper, second: lower}
    middle, bottom = lower.split_horizontal(lower.height - max(8, lower.height * 2 // 5))
    return {"map": upper, "table": middle, "inspector" if block_selected else "log": bottom}


class Arrangement(Layout):
    """A layout that places widgets by name; those without a region are not on the screen."""

    name = "arrangement"

    def __init__(self, regions: Callable[[Size], Regions]) -> None:
        self.regions = regions

    def arrange(
        self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True
    ) -> ArrangeResult:
        """A frame `x-frame` gets the region of `x`, and `x` what is inside of it."""
        regions = self.regions(size)
        placements = []
        for child in children:
            name = child.id or ""
            region, order = regions.get(name.removesuffix("-frame")), 0
            if region is None:
                continue
            if f"{name}-frame" in {other.id for other in children}:
                region, order = region.shrink((1, 1, 1, 1)), 1
            placements.append(WidgetPlacement(region, NULL_OFFSET, NULL_SPACING, child, order))
        return placements
