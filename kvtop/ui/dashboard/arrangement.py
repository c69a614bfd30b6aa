"""Where the parts of the dashboard stand: regions cut out of the screen by a tree of movable splits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

MINIMUM = Size(60, 18)
"""Below this there is only a line that says so."""

Regions = dict[str, Region]
Shares = Mapping[str, float]
"""Name of a split -> share of the room that its first part has, where a person has moved it."""


@dataclass(frozen=True, slots=True)
class Split:
    """Two parts beside (`across`) or above each other. Splits of one name move together."""

    name: str
    across: bool
    first: Node
    second: Node
    share: float
    """Share of the first part until somebody moves the border."""
    least: tuple[int, int] = (8, 6)
    """Cells or rows that each part keeps."""

    def cut(self, room: int, shares: Shares) -> int:
        """Cells (or rows) of the first part in `room` of them. The second part's least comes last."""
        size = round(room * shares.get(self.name, self.share))
        return max(1, min(max(size, self.least[0]), max(room - self.least[1], room // 2), room - 1))


Node = str | Split
"""A panel's name, or a split of two nodes."""


def place(node: Node, region: Region, shares: Shares) -> Regions:
    """The region of every panel of a tree."""
    if isinstance(node, str):
        return {node: region}
    first, second = _halves(node, region, shares)
    return place(node.first, first, shares) | place(node.second, second, shares)


def panels(node: Node) -> tuple[str, ...]:
    """The panels of a tree, from the first to the last."""
    return (node,) if isinstance(node, str) else panels(node.first) + panels(node.second)


def _halves(split: Split, region: Region, shares: Shares) -> tuple[Region, Region]:
    room = region.width if split.across else region.height
    cut = split.cut(room, shares)
    return region.split_vertical(cut) if split.across else region.split_horizontal(cut)


def borders(node: Node, region: Region, shares: Shares) -> Iterator[tuple[Split, Region]]:
    """Every split of a tree with the region that it divides, the outermost first."""
    if isinstance(node, Split):
        yield node, region
        first, second = _halves(node, region, shares)
        yield from borders(node.first, first, shares)
        yield from borders(node.second, second, shares)


def border_at(node: Node, region: Region, shares: Shares, x: int, y: int) -> tuple[Split, Region] | None:
    """The split whose border passes through a cell, with the region it divides.

    A border is the last column (row) of the first part and the first one of the second.
    """
    found = None
    for split, whole in borders(node, region, shares):
        first, _ = _halves(split, whole, shares)
        edge = first.right if split.across else first.bottom
        if whole.contains(x, y) and (x if split.across else y) in (edge - 1, edge):
            found = split, whole
    return found


def border_of(node: Node, panel: str, *, across: bool) -> Split | None:
    """The innermost split in a direction that has the panel on one side."""
    if isinstance(node, str) or panel not in panels(node):
        return None
    inner = border_of(node.first if panel in panels(node.first) else node.second, panel, across=across)
    return inner or (node if node.across is across else None)


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
        names = {child.id for child in children}
        placements = []
        for child in children:
            name = child.id or ""
            region, order = regions.get(name.removesuffix("-frame")), 0
            if region is None:
                continue
            if f"{name}-frame" in names:
                region, order = region.shrink((1, 1, 1, 1)), 1
            placements.append(WidgetPlacement(region, NULL_OFFSET, NULL_SPACING, child, order))
        return placements
