"""The block map: every block of the pool, coloured by owner."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from textual import events
from textual.message import Message

from kvtop.timeline.snapshot import Snapshot
from kvtop.ui.aggregate import Aggregator
from kvtop.ui.blockgrid import (
    DIM,
    Geometry,
    MapTables,
    half_colours,
    layout,
    owner_inks,
    second_cells,
    tile_looks,
)
from kvtop.ui.codestrip import Codes, CodeStrip
from kvtop.ui.palette import ink_index
from kvtop.ui.rows import RowKey, blocks_of, blocks_of_rows
from kvtop.ui.text import count, visible, wrap
from kvtop.ui.view import View
from kvtop.ui.widgets.lines import Line, LineBuilder
from kvtop.ui.widgets.panel import Legend, PanelBody


class BlockMap(PanelBody):
    """A grid of blocks with a cursor. Only lines whose codes changed are drawn again."""

    class Moved(Message):
        """The cursor is on another block."""

        def __init__(self, block: int | None) -> None:
            super().__init__()
            self.block = block

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.geometry: Geometry | None = None
        self._tables: MapTables | None = None
        self._palette_name = ""
        self._grid: Codes | None = None
        self._empty: Codes | None = None
        self._aggregator: Aggregator | None = None
        self._lit_rows: frozenset[RowKey] = frozenset()
        self.animating = False
        """Whether something in the map fades, so that it has to be drawn though nothing changes."""

    def heading(self, view: View) -> tuple[str, str]:
        geometry = self.geometry
        if view.snapshot is None or geometry is None:
            return "Blocks", ""
        total = count(view.snapshot.counters.total_blocks)
        unit = "half cell" if geometry.half else "cell"
        scale = f"1 {unit} = {count(geometry.each)} block{'s' if geometry.each > 1 else ''}"
        return f"Blocks ({total})", scale if geometry.each > 1 or geometry.half else ""

    def legend(self, view: View) -> Legend:
        ink = view.palette.style
        muted = ink("muted")
        if self.geometry is None or view.snapshot is None:
            return ()
        if self.geometry.each > 1:
            return (
                ("colour: largest owner   bright: more in use   ", muted),
                ("▀", ink("faint")),
                (" cached", muted),
            )
        if self.geometry.half:
            return (
                ("█", ink("used")), (" used ", muted), ("█", ink("shared")), (" shared ", muted),
                ("█", ink("row")), (" part ", muted), ("█", ink("faint")), (" cached", muted),
            )  # fmt: skip
        return (
            ("█", ink("used")), (" used ", muted), ("3", ink("background", "shared")), (" shared ", muted),
            ("▃", ink("used", "track")), (" part ", muted),
            ("·", ink("cached", "cached_track")), (" cached ", muted),
            (" ", ink("text", "track")), (" free", muted),
        )  # fmt: skip

    # -- drawing ------------------------------------------------------------------------------------------

    def show(self, view: View) -> list[int]:
        """Make the strips of a frame: the map, or how far loading has come."""
        snapshot = view.snapshot
        if view.loading or snapshot is None:
            self._grid = None
            return super().show(view)
        self.view = view
        width, height = self.extent
        if not width or not height:
            return []
        if self._tables is None or self._palette_name != view.palette.name:
            self._tables, self._palette_name, self._grid = MapTables(view.palette), view.palette.name, None
            self.ground = view.palette.style("text")
        geometry = layout(len(snapshot.blocks.state), width, height, mono=self.app.no_color)
        if geometry != self.geometry or self._empty is None:
            self.geometry, self._grid, self._aggregator = geometry, None, None
            self._empty = _labelled(geometry, self._tables)
        return self._swap(
            self._draw(view, snapshot, geometry, self._tables, self._empty.copy()), self._tables
        )

    def _swap(self, grid: Codes, tables: MapTables) -> list[int]:
        """Keep a new grid: strips for the rows that differ, which are returned."""
        old, self._grid, self._lines = self._grid, grid, []
        table = tables.pairs if self.geometry is not None and self.geometry.half else tables.tiles
        if old is None or old.shape != grid.shape:
            self.strips = [CodeStrip(row, table) for row in grid]
            return list(range(len(grid)))
        changed: list[int] = np.flatnonzero((grid != old).any(axis=1)).tolist()
        if changed:
            strips = list(self.strips)
            for y in changed:
                strips[y] = CodeStrip(grid[y], table)
            self.strips = strips
        return changed

    def _draw(
        self, view: View, snapshot: Snapshot, geometry: Geometry, tables: MapTables, grid: Codes
    ) -> Codes:
        """Fill the labelled grid with the blocks' codes."""
        columns, block_size = snapshot.blocks, snapshot.source.block_size
        inks = np.full(len(snapshot.sequences) + 1, DIM, np.uint8)
        for index, row in enumerate(snapshot.sequences):
            inks[index] = ink_index(row.request, row.branch)
        lit = blocks_of_rows(snapshot, view.lit) if view.lit else None
        cursor = view.selection.block
        if cursor is not None and cursor >= len(columns.state):
            cursor = None
        if geometry.each > 1:
            aggregator = self._aggregator
            if aggregator is None:
                aggregator = self._aggregator = Aggregator(geometry.each)
            if view.lit or self._lit_rows:
                aggregator.reset()
            self._lit_rows = view.lit
            aggregator.update(columns, inks, lit, snapshot.step)
            place = None if cursor is None else geometry.item_of(cursor)
            if geometry.half:
                return _place_half(geometry, tables, grid, aggregator.colours(place))
            return _place_tiles(geometry, tables, grid, aggregator.looks(place))
        found = owner_inks(columns, inks, lit)
        if geometry.half:
            return _place_half(geometry, tables, grid, half_colours(columns, found, block_size, cursor))
        return _place_tiles(geometry, tables, grid, tile_looks(columns, found, block_size, cursor))

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        """The loading picture."""
        ink = view.palette.style
        status = view.status
        message = wrap(visible(status.message or "Loading"), max(10, width - 8))[: max(1, height - 3)]
        length = min(40, max(8, width - 16))
        progress = LineBuilder()
        if status.progress is not None:
            done = round(min(1.0, max(0.0, status.progress)) * length)
            progress.put("━" * done, ink("primary")).put("─" * (length - done), ink("border"))
            progress.put(f" {100 * status.progress:3.0f} %", ink("text"))
        else:
            place = view.beat % max(1, length - 4)
            progress.put("─" * place, ink("border")).put("━" * 4, ink("primary"))
            progress.put("─" * (length - 4 - place), ink("border"))
        lines: list[Line] = [()] * max(0, (height - len(message) - 2) // 2)
        for text in message:
            lines.append(_centred(LineBuilder().put(text, ink("text")), width, view))
        lines.append(())
        lines.append(_centred(progress, width, view))
        return lines

    # -- cursor -------------------------------------------------------------------------------------------

    def move(self, dx: int, dy: int) -> None:
        """Move the block cursor. The first move puts it on the first block, or on the selected row's."""
        view, geometry = self.view, self.geometry
        if view is None or view.snapshot is None or geometry is None:
            return
        block = view.selection.block
        if block is None:
            lit = blocks_of(view.snapshot, view.selection.row) if view.selection.row is not None else None
            first = int(np.argmax(lit)) if lit is not None else 0
            self.post_message(self.Moved(first))
            return
        item = geometry.item_of(block)
        target = item + dx + dy * geometry.columns
        if not 0 <= target < geometry.items:
            if abs(dy) < geometry.rows and not dx:
                return
            target = max(0, min(target, geometry.items - 1))
        if target != item:
            self.post_message(self.Moved(target * geometry.each))

    def page(self) -> int:
        return max(1, (self.geometry.rows if self.geometry is not None else 8) // 2)

    def on_click(self, event: events.Click) -> None:
        """Select the block under the mouse; beside the map, let go."""
        if self.geometry is not None and self.view is not None and self.view.snapshot is not None:
            item = self.geometry.item_at(event.x, event.y)
            self.post_message(self.Moved(None if item is None else item * self.geometry.each))


def _centred(line: LineBuilder, width: int, view: View) -> Line:
    """The line in the middle of `width` cells."""
    left = max(0, (width - line.width) // 2)
    return ((" " * left, view.palette.style("text")), *line.line())


def _labelled(geometry: Geometry, tables: MapTables) -> Codes:
    """A grid of blanks with the id of every line's first block at the left."""
    labels = tables.pair_labels if geometry.half else tables.tile_labels
    grid = np.full((geometry.height, geometry.width), labels.blank, np.uint16)
    if geometry.label:
        for y in range(geometry.height):
            if (block := geometry.row_block(y)) is not None:
                digits = f"{block:0{geometry.label - 2}}"
                grid[y, 1 : 1 + len(digits)] = [labels.digits[int(digit)] for digit in digits]
    return grid


def _place_half(geometry: Geometry, tables: MapTables, grid: Codes, colours: NDArray[np.uint8]) -> Codes:
    """Put colours of half cells into the grid, two lines of them in each line of the screen."""
    lines = -(-geometry.rows // 2)
    padded = np.full(lines * 2 * geometry.columns, tables.outside, np.uint8)
    padded[: len(colours)] = colours
    halves = padded.reshape(lines, 2, geometry.columns)
    codes = halves[:, 0].astype(np.uint16)
    codes *= tables.colours
    codes += halves[:, 1]
    grid[:lines, geometry.label : geometry.label + geometry.columns] = codes[: geometry.height]
    return grid


def _place_tiles(geometry: Geometry, tables: MapTables, grid: Codes, looks: Codes) -> Codes:
    """Put tiles of one or two cells into the grid."""
    rows, columns, tile, left = geometry.rows, geometry.columns, geometry.tile, geometry.label
    right = left + columns * tile
    for cell, codes in ((0, looks), (1, second_cells(looks) if tile > 1 else looks)):
        if cell < tile:
            padded = np.full(rows * columns, tables.tile_labels.blank, np.uint16)
            padded[: len(codes)] = codes
            grid[:rows, left + cell : right : tile] = padded.reshape(rows, columns)[: geometry.height]
    return grid
