"""From the snapshot's columns to the codes of the block map: pure NumPy, no widget.

Three ways to draw, whichever first fits: a tile of one or two cells a block with a glyph for its state;
a half cell a block; a half cell for N blocks, shaded by use and coloured by the owner that holds most.
Where colours cannot be told apart, N blocks share a whole cell whose glyph says how full it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvtop.timeline.snapshot import BlockColumns, BlockState
from kvtop.ui.codestrip import Codes, CodeTable, pair_table
from kvtop.ui.palette import HUES, LEVELS, VARIANTS, Palette

INKS = HUES * VARIANTS
DIM = INKS
"""The ink of blocks that do not belong to the selected sequence."""

EIGHTHS = "▁▂▃▄▅▆▇█"
MAX_DIGIT = 9
_SHARED = len(EIGHTHS)
"""Shapes: 0-7 filled to that many eighths and one, then ref counts 2 ... 9 and more, then blank."""
_BLANK = _SHARED + MAX_DIGIT
SHAPES = _BLANK + 1
FREE_LOOK, CACHED_LOOK, FREE_CURSOR, CACHED_CURSOR = range(4)
_FIRST_LOOK = 4
_CURSOR_INK = INKS + 1

FREE_PAIR, CACHED_PAIR, CURSOR_PAIR = range(3)
_FIRST_PAIR = 3


@dataclass(frozen=True, slots=True)
class Geometry:
    """How `blocks` are laid out in `width` x `height` cells, labels of the rows' first blocks included."""

    width: int
    height: int
    blocks: int
    label: int
    """Cells at the left for the block id; 0 leaves it out."""
    tile: int
    """Cells a block; 0 when blocks take half cells or less."""
    half: bool
    columns: int
    """Blocks or aggregates in a line of the map."""
    each: int
    """Blocks that one cell (half cell when `half`) stands for."""

    @property
    def items(self) -> int:
        """Cells or half cells that hold a block."""
        return -(-self.blocks // self.each)

    @property
    def rows(self) -> int:
        """Lines of items; two of them share a line of the screen when `half`."""
        return -(-self.items // self.columns)

    def item_of(self, block: int) -> int:
        """The item that shows a block."""
        return block // self.each

    def item_at(self, x: int, y: int) -> int | None:
        """The item at a cell of the panel; None beside the map. Of two half cells the upper one."""
        column = (x - self.label) // max(self.tile, 1)
        row = y * 2 if self.half else y
        item = row * self.columns + column
        return item if x >= self.label and column < self.columns and item < self.items else None

    def row_block(self, y: int) -> int | None:
        """The first block of screen line `y`; None below the map."""
        block = (y * 2 if self.half else y) * self.columns * self.each
        return block if block < self.blocks else None


def layout(blocks: int, width: int, height: int, *, mono: bool = False) -> Geometry:
    """The largest tiles that show all `blocks`; failing those half cells; failing those aggregates.

    With `mono`, half cells are not used: they tell states apart by colour only.
    """
    label = max(4, len(str(max(blocks - 1, 0)))) + 2
    if width < 40:
        label = 0
    room = max(width - label, 1)
    for tile in (2, 1):
        columns = _columns(room // tile, blocks)
        if columns and -(-blocks // columns) <= height:
            return Geometry(width, height, blocks, label, tile, False, columns, 1)
    lines = height if mono else 2 * height
    columns = _columns(room, blocks)
    if columns * lines < blocks <= room * lines:
        columns = room
    each = max(1, -(-blocks // max(columns * lines, 1)))
    return Geometry(width, height, blocks, label, 1 if mono else 0, not mono, columns, each)


def _columns(room: int, blocks: int) -> int:
    """Items in a line: all when they fit, else a round number that makes the labels readable."""
    if blocks <= room:
        return max(blocks, 1)
    for step in (64, 32, 16, 8):
        # The roundest step that leaves little of the line empty.
        if room >= step and room % step <= room // 6:
            return room // step * step
    return max(room, 1)


@dataclass(frozen=True, slots=True)
class Labels:
    """The codes of what stands beside the blocks, in one table."""

    blank: int
    digits: tuple[int, ...]


class MapTables:
    """The look-up tables of a palette: tiles by look, half cells by pairs of colours."""

    def __init__(self, palette: Palette) -> None:
        self.tiles = _tile_table(palette)
        self.tile_labels = _labels(self.tiles, len(self.tiles.colours) - 1, 0)
        # On a half cell there is no room for a dot: a cached block is a grey between free and used.
        colours = [palette.track, palette.faint, palette.cursor, *palette.dimmed]
        colours += [colour for ink in palette.inks for colour in ink]
        colours += [palette.background, palette.faint]
        self.outside = len(colours) - 2
        """The colour of half cells beyond the last block."""
        self.colours = len(colours)
        self.pairs = pair_table(colours)
        self.pair_labels = _labels(self.pairs, self.outside + 1, self.outside)


def _labels(table: CodeTable, ink: int, back: int) -> Labels:
    """Add the codes of labels to a table."""
    digits = tuple(table.add(digit, ink, back) for digit in "0123456789")
    return Labels(table.add(" ", ink, back), digits)


def _tile_table(palette: Palette) -> CodeTable:
    """Looks 0-3 are free, cached and both under the cursor; then every shape in every ink."""
    colours = [palette.background, palette.track, palette.cached_track, palette.cached, palette.cursor]
    glyphs = [" ", "·", " ", "·"]
    fore, back = [1, 3, 0, 0], [1, 2, 4, 4]
    inks = [*palette.inks, palette.dimmed, (palette.cursor,) * LEVELS]
    for ink in inks:
        plain, bright = len(colours), len(colours) + 1
        colours += [ink[4], ink[5]]
        glyphs += [*EIGHTHS, *"23456789", "+", " "]
        fore += [plain] * len(EIGHTHS) + [0] * (MAX_DIGIT + 1)
        back += [1] * len(EIGHTHS) + [bright] * (MAX_DIGIT + 1)
    return CodeTable([*colours, palette.faint], glyphs, fore, back)


def owner_inks(
    columns: BlockColumns, inks: NDArray[np.uint8], lit: NDArray[np.bool_] | None
) -> NDArray[np.uint8]:
    """The ink of every block. `inks` has one for each snapshot row, and one more for "no owner".

    `lit` marks the blocks of the selected sequence; the others are dimmed.
    """
    found = inks.take(columns.owner, mode="wrap")  # -1 is the last
    return found if lit is None else np.where(lit, found, np.uint8(DIM))


def tile_looks(columns: BlockColumns, inks: NDArray[np.uint8], block_size: int, cursor: int | None) -> Codes:
    """The look of every block, for `MapTables.tiles`."""
    eighths = columns.fill * 8
    eighths -= 1
    eighths //= block_size
    shape = np.clip(eighths, 0, 7)
    shared = columns.state == BlockState.SHARED
    if shared.any():
        references = np.minimum(columns.ref_count, MAX_DIGIT + 1)
        shape = np.where(shared, references + (_SHARED - 2), shape)
    looks = shape_looks(inks, shape)
    looks[columns.state == BlockState.FREE] = FREE_LOOK
    looks[columns.state == BlockState.CACHED] = CACHED_LOOK
    if cursor is not None:
        looks[cursor] = under_cursor(int(looks[cursor]))
    return looks


def shape_looks(inks: NDArray[np.uint8], shapes: NDArray[Any]) -> Codes:
    """The look of every shape in its ink."""
    looks = inks.astype(np.uint16)
    looks *= SHAPES
    looks += shapes.astype(np.uint16)
    looks += _FIRST_LOOK
    return looks


def under_cursor(look: int) -> int:
    """The same look under the cursor."""
    if look < FREE_CURSOR:
        return look + FREE_CURSOR
    return _FIRST_LOOK + _CURSOR_INK * SHAPES + (look - _FIRST_LOOK) % SHAPES


def second_cells(looks: Codes) -> Codes:
    """What stands in a tile's second cell: the same, but the blank for a digit, nothing for a dot."""
    shapes = (looks - _FIRST_LOOK) % SHAPES
    second = looks + np.where(shapes >= _SHARED, _BLANK - shapes, 0).astype(np.uint16)
    return np.where(looks < _FIRST_LOOK, looks, second).astype(np.uint16)


def half_colours(
    columns: BlockColumns, inks: NDArray[np.uint8], block_size: int, cursor: int | None
) -> NDArray[np.uint8]:
    """The colour of every block on half cells: dark when partly filled, bright when shared."""
    level = np.full(len(inks), 3, np.uint8)
    level[columns.fill < block_size] = 1
    level[columns.state == BlockState.SHARED] = 5
    colours = pair_colours(inks, level)
    colours[columns.state == BlockState.FREE] = FREE_PAIR
    colours[columns.state == BlockState.CACHED] = CACHED_PAIR
    if cursor is not None:
        colours[cursor] = CURSOR_PAIR
    return colours


def pair_colours(inks: NDArray[np.uint8], level: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Colour index for ink and level; the dimmed ink comes first in the table."""
    place = np.where(inks == DIM, 0, inks + 1).astype(np.uint8)
    place *= LEVELS
    place += level
    place += _FIRST_PAIR
    return place
