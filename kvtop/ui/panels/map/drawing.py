"""The map as a grid of codes: labels, blocks, and what lies over them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kvtop.timeline.snapshot import Snapshot
from kvtop.ui.draw.codestrip import Codes, CodeTable
from kvtop.ui.frame.row import RowKey
from kvtop.ui.panels.map.aggregate import Aggregator
from kvtop.ui.panels.map.codes import block_inks, half_colours, lit_blocks, sequence_inks, tile_codes, window
from kvtop.ui.panels.map.flashes import Flashing
from kvtop.ui.panels.map.geometry import Geometry
from kvtop.ui.panels.map.looks import CURSOR_COLOUR, MapTables

Items = NDArray[np.intp]


class Drawing:
    """Draws snapshots in one geometry and with one set of tables; keeps what the next frame needs."""

    def __init__(self, geometry: Geometry, tables: MapTables) -> None:
        self.geometry, self.tables = geometry, tables
        self.table: CodeTable = tables.pairs if geometry.half else tables.tiles
        self._empty = np.full((geometry.height, geometry.width), self._blank, np.uint16)
        for row in range(geometry.height):
            self._label(self._empty, row, lit=False)
        self._aggregator = Aggregator(geometry) if geometry.each > 1 else None

    def draw(
        self,
        snapshot: Snapshot,
        lit: Iterable[RowKey] = (),
        cursor: int | None = None,
        flashes: Iterable[Flashing] = (),
    ) -> Codes:
        """The grid of a frame, `height` x `width` codes of `table`."""
        grid = self._blocks(snapshot, lit, cursor, flashes)
        if cursor is not None and self.geometry.holds(cursor):
            self._label(grid, self.geometry.row_of(cursor), lit=True)
        return grid

    @property
    def _blank(self) -> int:
        return self.tables.pair_blank if self.geometry.half else self.tables.tile_blank

    def _label(self, grid: Codes, row: int, *, lit: bool) -> None:
        """Put the id of a line's first block at its left; lit for the line that the cursor is in."""
        block = self.geometry.row_block(row)
        if self.geometry.label and block is not None:
            digits = self.tables.pair_digits if self.geometry.half else self.tables.tile_digits
            label = f"{block:0{self.geometry.label - 2}}"
            grid[row, 1 : 1 + len(label)] = [digits[lit][int(digit)] for digit in label]

    def _blocks(
        self, snapshot: Snapshot, lit: Iterable[RowKey], cursor: int | None, flashes: Iterable[Flashing]
    ) -> Codes:
        """The grid without the cursor's label."""
        geometry = self.geometry
        inks, blocks = sequence_inks(snapshot.sequences), lit_blocks(snapshot, lit)
        over = [(flash, self._items(flash.blocks)) for flash in flashes]
        place = geometry.item_of(cursor) if cursor is not None and geometry.holds(cursor) else None
        aggregator, size = self._aggregator, snapshot.source.block_size
        if aggregator is not None:
            aggregator.update(snapshot.blocks, inks, snapshot.step)
            aggregator.light(blocks)
            if geometry.half:
                return self._halves(aggregator.colours(), over, place)
            codes = aggregator.letters() if self.tables.letters else aggregator.codes()
            return self._tiles(codes, over, place)
        columns = window(snapshot.blocks, geometry)
        found = block_inks(columns, inks, blocks, geometry.first)
        if geometry.half:
            return self._halves(half_colours(columns, found, size), over, place)
        return self._tiles(tile_codes(columns, found, size), over, place)

    def _items(self, blocks: NDArray[np.int32]) -> Items:
        """The items that show some blocks; those beyond the window are left out."""
        inside = blocks[(blocks >= self.geometry.first) & (blocks < self.geometry.last)]
        return ((inside - self.geometry.first) // self.geometry.each).astype(np.intp)

    def _halves(
        self, colours: NDArray[np.uint8], over: list[tuple[Flashing, Items]], cursor: int | None
    ) -> Codes:
        """Half cells: two lines of colours in each line of the screen."""
        geometry, tables, grid = self.geometry, self.tables, self._empty.copy()
        for flash, items in over:
            colours[items] = tables.flash_colours[flash.kind, flash.step]
        if cursor is not None:
            # The other half is black: white alone is hard to find among bright blocks.
            other = cursor + geometry.columns * (-1 if cursor // geometry.columns % 2 else 1)
            colours[other : other + 1] = tables.outside
            colours[cursor] = CURSOR_COLOUR
        rows = -(-len(colours) // (2 * geometry.columns))
        padded = np.full(rows * 2 * geometry.columns, tables.outside, np.uint8)
        padded[: len(colours)] = colours
        halves = padded.reshape(rows, 2, geometry.columns)
        codes = halves[:, 0].astype(np.uint16)
        codes *= tables.colours
        codes += halves[:, 1]
        grid[:rows, geometry.label : geometry.label + geometry.columns] = codes
        return grid

    def _tiles(self, codes: Codes, over: list[tuple[Flashing, Items]], cursor: int | None) -> Codes:
        """Tiles of one or two cells."""
        geometry, tables, grid = self.geometry, self.tables, self._empty.copy()
        columns, tile, left = geometry.columns, geometry.tile, geometry.label
        rows = -(-len(codes) // columns)
        right = left + columns * tile
        for cell in range(tile):
            plain = codes if tile == 1 else tables.wide[cell].take(codes)
            found = plain.copy() if over else plain
            for flash, items in over:
                found[items] = tables.flashes[flash.kind, flash.step].take(plain[items])
            if cursor is not None:
                found[cursor] = tables.cursor[plain[cursor]]
            padded = np.full(rows * columns, tables.tile_blank, np.uint16)
            padded[: len(found)] = found
            grid[:rows, left + cell : right : tile] = padded.reshape(rows, columns)
        return grid
