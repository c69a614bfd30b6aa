"""Where blocks lie in the map: how many cells each, how many blocks a cell, and which part of the pool.

What fits is drawn with the largest tiles there is room for: a tile of two cells a block, of one, half a cell
a block, half a cell for N blocks. Zooming in goes the other way, from N blocks in steps down to two cells a
block, and shows a window of the pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

HALF = 0
"""The tile of half a cell."""
FACTOR = 4
"""How many times finer the next zoom is, about."""
LABELLED = 24
"""The narrowest map, in cells, whose lines begin with a block id."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How large blocks are drawn."""

    each: int
    """Blocks that an item (a tile, or half a cell) stands for."""
    tile: int
    """Cells an item; HALF when two items share one."""

    @property
    def fineness(self) -> tuple[int, int]:
        """Orders scales: the larger blocks are drawn, the higher."""
        return -self.each, self.tile


@dataclass(frozen=True, slots=True)
class Geometry:
    """Blocks laid out in `width` x `height` cells, labels of the lines' first blocks included."""

    width: int
    height: int
    blocks: int
    """Blocks of the pool, in the window or not."""
    label: int
    """Cells at the left for the block id; 0 leaves it out."""
    scale: Scale
    columns: int
    """Items in a line of the map."""
    first: int = 0
    """The first block shown: a multiple of what a line holds."""

    @property
    def each(self) -> int:
        """Blocks that an item stands for."""
        return self.scale.each

    @property
    def half(self) -> bool:
        """Whether two lines of items share a line of the screen."""
        return self.scale.tile == HALF

    @property
    def tile(self) -> int:
        """Cells an item is wide; half a cell counts as one."""
        return max(self.scale.tile, 1)

    @property
    def line(self) -> int:
        """Blocks in a line of items."""
        return self.columns * self.each

    @property
    def lines(self) -> int:
        """Lines of items that the height has room for."""
        return self.height * (2 if self.half else 1)

    @property
    def items(self) -> int:
        """Items shown."""
        return min(self.columns * self.lines, -(-(self.blocks - self.first) // self.each))

    @property
    def last(self) -> int:
        """The block after the last one shown."""
        return min(self.blocks, self.first + self.items * self.each)

    @property
    def whole(self) -> bool:
        """Whether all blocks are shown."""
        return self.first == 0 and self.last == self.blocks

    def holds(self, block: int) -> bool:
        """Whether a block is in the window."""
        return self.first <= block < self.last

    def item_of(self, block: int) -> int:
        """The item that shows a block of the window, counted from the window's first."""
        return (block - self.first) // self.each

    def block_of(self, item: int) -> int:
        """The first block of an item."""
        return self.first + item * self.each

    def blocks_of(self, item: int) -> range:
        """The blocks of an item."""
        first = self.block_of(item)
        return range(first, min(first + self.each, self.blocks))

    def items_at(self, x: int, y: int) -> tuple[int, ...]:
        """The items at a cell of the panel: two where half cells hold one each, none beside the map."""
        column = (x - self.label) // self.tile
        if x < self.label or column >= self.columns or not 0 <= y < self.height:
            return ()
        lines = (2 * y, 2 * y + 1) if self.half else (y,)
        items = (line * self.columns + column for line in lines)
        return tuple(takewhile(lambda item: item < self.items, items))

    def row_block(self, y: int) -> int | None:
        """The first block of screen line `y`; None below the map."""
        block = self.first + (2 * y if self.half else y) * self.line
        return block if block < self.last else None

    def row_of(self, block: int) -> int:
        """The screen line of a block of the window."""
        line = (block - self.first) // self.line
        return line // 2 if self.half else line


def fitting(blocks: int, width: int, height: int, *, halves: bool = True) -> Geometry:
    """The largest tiles that show all `blocks`; failing those half cells; failing those N blocks an item.

    A line holds a round number of blocks where that costs no size. Without `halves` there are no half cells,
    which tell states apart by colour only; rather than N blocks an item, the labels go then.
    """
    label = _label(blocks, width)
    room = max(width - label, 1)
    choices = [(2, label, _columns(room // 2, blocks)), (1, label, _columns(room, blocks)), (1, label, room)]
    if not halves:
        choices.append((1, 0, width))
    for tile, left, columns in choices:
        if columns and -(-blocks // columns) <= height:
            return Geometry(width, height, blocks, left, Scale(1, tile), min(columns, blocks))
    lines = 2 * height if halves else height
    each = _round_up(max(1, -(-blocks // max(room * lines, 1))))
    columns = _columns(room, -(-blocks // each))
    if columns * lines * each < blocks:
        columns = room
    return Geometry(width, height, blocks, label, Scale(each, HALF if halves else 1), columns)


def zoomed(blocks: int, width: int, height: int, scale: Scale, *, around: int = 0, row: int = 0) -> Geometry:
    """A window of `scale` that has the block `around` in screen line `row`, as nearly as the pool's ends
    allow. A window is never scrolled beyond them."""
    label = _label(blocks, width)
    columns = max(1, _columns(max(width - label, 1) // max(scale.tile, 1), -(-blocks // scale.each)))
    line = columns * scale.each
    step = 2 if scale.tile == HALF else 1
    rows = -(-blocks // (line * step))
    first = max(0, min(around // (line * step) - row, rows - height))
    return Geometry(width, height, blocks, label, scale, columns, first * line * step)


def scrolled(geometry: Geometry, rows: int) -> Geometry:
    """The window some screen lines further on, or back."""
    first, size = geometry.first, (geometry.width, geometry.height)
    step = geometry.line * (2 if geometry.half else 1)
    return zoomed(geometry.blocks, *size, geometry.scale, around=max(0, first + rows * step))


def following(geometry: Geometry, block: int) -> Geometry:
    """The window, scrolled as little as shows a block."""
    if geometry.holds(block):
        return geometry
    row = 0 if block < geometry.first else geometry.height - 1
    return zoomed(geometry.blocks, geometry.width, geometry.height, geometry.scale, around=block, row=row)


def scales(fit: Scale, *, halves: bool = True) -> tuple[Scale, ...]:
    """The scales to zoom through, from the one that fits to two cells a block."""
    found = [fit]
    each, tile = 1, HALF if halves else 1
    while each * FACTOR * 2 <= fit.each:
        each *= FACTOR
    while each > 1:
        found.append(Scale(each, tile))
        each //= FACTOR
    single = (Scale(1, HALF), Scale(1, 1), Scale(1, 2)) if halves else (Scale(1, 1), Scale(1, 2))
    found += [scale for scale in single if scale.fineness > fit.fineness]
    return tuple(found)


def next_scale(fit: Scale, now: Scale, step: int, *, halves: bool = True) -> Scale:
    """The next finer scale (`step` 1) or coarser one (-1); `now` itself where there is none."""
    all_scales = scales(fit, halves=halves)
    if step > 0:
        return next((scale for scale in all_scales if scale.fineness > now.fineness), now)
    return next((scale for scale in reversed(all_scales) if scale.fineness < now.fineness), fit)


def _label(blocks: int, width: int) -> int:
    """Cells for the ids at the left: all of one length, between blanks; none where the map is narrow."""
    return 0 if width < LABELLED else max(4, len(str(max(blocks - 1, 0)))) + 2


def _columns(room: int, items: int) -> int:
    """Items in a line: all when they fit, else a round number that makes the labels readable."""
    if items <= room:
        return max(items, 1)
    for step in (64, 32, 16, 8):
        # The roundest step that leaves little of the line empty.
        if room >= step and room % step <= room // 6:
            return room // step * step
    return max(room, 1)


def _round_up(each: int) -> int:
    """A number of at least `each` with at most two digits that are not 0."""
    unit = int(10 ** max(0, len(str(each)) - 2))
    return -(-each // unit) * unit
