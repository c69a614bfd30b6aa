"""The block map: every block of the pool, coloured by owner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from textual import events
from textual.strip import Strip

from kvtop.timeline.snapshot import BlockState, Snapshot
from kvtop.ui.commands.intents import Focus, Select
from kvtop.ui.draw.codestrip import Codes, CodeStrip
from kvtop.ui.draw.lines import Line, LineBuilder, to_strip
from kvtop.ui.draw.palette import Palette
from kvtop.ui.draw.text import visible, wrap
from kvtop.ui.frame.row import RowKey
from kvtop.ui.frame.rows import blocks_of
from kvtop.ui.frame.view import Selection, View
from kvtop.ui.panels.map import words
from kvtop.ui.panels.map.drawing import Drawing
from kvtop.ui.panels.map.flashes import Flashes
from kvtop.ui.panels.map.geometry import Geometry, Scale, fitting, following, next_scale, scrolled, zoomed
from kvtop.ui.panels.map.looks import MapTables
from kvtop.ui.parts.panel import Legend, PanelBody

PAN = 4
"""Lines that the wheel scrolls a window with Shift or Ctrl."""


@dataclass(frozen=True, slots=True)
class MapState:
    """What a person has made of the panel."""

    window: Geometry | None = None
    """What is zoomed in on; None shows the whole pool."""


class BlockMap(PanelBody):
    """A grid of blocks with a cursor. Only lines whose codes changed are drawn again.

    The whole pool is shown, or, zoomed in, a window of it. The window follows the cursor; the wheel and the
    mouse look elsewhere without it.
    """

    every_frame = True
    state: MapState = MapState()

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.geometry: Geometry | None = None
        self._fit: Scale | None = None
        """The scale in which the whole pool fits."""
        self._followed: int | None = None
        """The block that the window was last brought to."""
        self._drawing: Drawing | None = None
        self._tables: MapTables | None = None
        self._flashes = Flashes()
        self._grid: Codes | None = None
        self._rows: list[CodeStrip] = []
        self._pointer: tuple[int, int] | None = None
        self._tip: tuple[int, int, str] | None = None
        """Place and text of what is said about the cell under the mouse."""

    def heading(self, view: View) -> tuple[str, str]:
        if view.snapshot is None or self.geometry is None:
            return "Blocks", ""
        return words.heading(self.geometry, self.extent.width - 8)

    def legend(self, view: View) -> Legend:
        if self.geometry is None or view.snapshot is None or self._tables is None:
            return ()
        room, muted = self.extent.width - 4, view.palette.style("muted")
        return words.legend(
            self._tables, self.geometry, muted, room, flashing=view.flashing, lit=bool(view.lit)
        )

    # -- drawing ------------------------------------------------------------------------------------------

    def show(self, view: View) -> list[int]:
        """Make the strips of a frame: the map, or how far loading has come."""
        snapshot = view.snapshot
        if view.loading or snapshot is None:
            self._grid = None
            return super().show(view)
        self.view = view
        if not self.extent.width or not self.extent.height:
            return []
        tables = self._tables_of(view)
        cursor = view.selection.block
        if cursor is not None and cursor >= len(snapshot.blocks.state):
            cursor = None
        geometry = self._place(len(snapshot.blocks.state), cursor, tables)
        drawing = self._drawing
        if drawing is None or drawing.geometry != geometry or drawing.tables is not tables:
            drawing = self._drawing = Drawing(geometry, tables)
        self._flashes.update(snapshot, view.clock, wanted=view.flashing)
        fading = [*self._flashes.fading(view.clock, tables.flash_steps)]
        self.animating = self._flashes.active
        changed = self._swap(drawing.draw(snapshot, view.lit, cursor, fading), drawing)
        return self._overlay(self._hover(view, snapshot, geometry), view.palette, changed)

    def _tables_of(self, view: View) -> MapTables:
        """The look-up tables of the view's colours and characters, made anew when these are others."""
        tables = self._tables
        if tables is None or tables.palette is not view.palette or tables.glyphs is not view.glyphs:
            tables = self._tables = MapTables(view.palette, view.glyphs, no_color=view.no_color)
            self._grid = None
            self.ground = view.palette.style("text")
        return tables

    def _place(self, blocks: int, cursor: int | None, tables: MapTables) -> Geometry:
        """The geometry of this frame: the whole pool, or the window where it is or follows the cursor to."""
        width, height = self.extent
        fit = fitting(blocks, width, height, halves=tables.halves)
        self._fit = fit.scale
        window = self.state.window
        if window is not None:
            if window.blocks != blocks or window.scale.fineness <= fit.scale.fineness:
                window = None
            elif (window.width, window.height) != (width, height):
                window = zoomed(blocks, width, height, window.scale, around=window.first)
            if window is not None and cursor is not None and cursor != self._followed:
                window = following(window, cursor)
        self.put(window=window)
        self._followed = cursor
        self.geometry = window or fit
        return self.geometry

    def _swap(self, grid: Codes, drawing: Drawing) -> list[int]:
        """Keep a new grid: strips for the rows that differ, which are returned."""
        old, self._grid, self._lines = self._grid, grid, []
        if (
            old is None
            or old.shape != grid.shape
            or not self._rows
            or self._rows[0].table is not drawing.table
        ):
            self._rows = [CodeStrip(row, drawing.table) for row in grid]
            self.strips, self._tip = list(self._rows), None
            return list(range(len(grid)))
        differs = grid != old
        changed: list[int] = np.flatnonzero(differs.any(axis=1)).tolist()
        if changed:
            strips = list(self.strips)
            for y in changed:
                strips[y] = self._rows[y] = CodeStrip(grid[y], drawing.table, differs[y])
            self.strips = strips
        return changed

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

    # -- what the mouse is on -----------------------------------------------------------------------------

    def _hover(self, view: View, snapshot: Snapshot, geometry: Geometry) -> tuple[int, int, str] | None:
        """What is said about the cell under the mouse, and where: below it, above it at the lower edge."""
        if self._pointer is None:
            return None
        x, y = self._pointer
        items = geometry.items_at(x, y)
        if not items:
            return None
        text = f" {words.describe(snapshot, geometry, items, self.extent.width - 2)} "
        row = y + 1 if y + 1 < self.extent.height else y - 1
        return max(0, min(x + 1, self.extent.width - len(text))), row, text

    def _overlay(self, tip: tuple[int, int, str] | None, palette: Palette, changed: list[int]) -> list[int]:
        """Lay the tooltip over its row. Returns the rows to draw: those that changed, and its old row."""
        old, self._tip = self._tip, tip
        if tip == old and (tip is None or tip[1] not in changed):
            return changed
        rows = {*changed, *(found[1] for found in (old, tip) if found is not None)}
        strips = list(self.strips)
        if old is not None and old[1] < len(self._rows):
            row = self._rows[old[1]]
            strips[old[1]] = CodeStrip(row.codes, row.table)  # all of it: the box stands there
        if tip is not None and 0 <= tip[1] < len(strips):
            x, y, text = tip
            box = to_strip(((text, palette.style("background", "text")),), len(text), self.ground)
            row = self._rows[y]
            strips[y] = Strip.join([row.crop(0, x), box, row.crop(x + len(text))])
        self.strips = strips
        return sorted(y for y in rows if 0 <= y < len(strips))

    def _point(self, place: tuple[int, int] | None) -> None:
        """The mouse is on another cell, or has left."""
        if place == self._pointer:
            return
        self._pointer = place
        view = self.view
        if view is None or view.snapshot is None or self.geometry is None or self._grid is None:
            return
        self.draw_rows(self._overlay(self._hover(view, view.snapshot, self.geometry), view.palette, []))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Say what is under the mouse."""
        self._point((event.x, event.y))

    def on_leave(self, event: events.Leave) -> None:
        """Say nothing more."""
        self._point(None)

    def on_click(self, event: events.Click) -> None:
        """Select the block under the mouse, of two half cells the lower one the second time; beside the map,
        let go. A double click zooms in on many."""
        geometry = self.geometry
        if geometry is None or self.view is None or self.view.snapshot is None:
            return
        blocks = [geometry.block_of(item) for item in geometry.items_at(event.x, event.y)]
        if event.chain == 2 and geometry.each > 1 and blocks:
            self._zoom(1, blocks[0])
            return
        again = len(blocks) == 2 and self.view.selection.block == blocks[0]
        self._select(blocks[-1 if again else 0] if blocks else None)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Zoom in on what is under the mouse; with Shift or Ctrl, scroll back."""
        self._wheel(event, 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Zoom out; with Shift or Ctrl, scroll on."""
        self._wheel(event, -1)

    def _wheel(self, event: events.MouseEvent, step: int) -> None:
        event.stop()
        geometry = self.geometry
        if geometry is None:
            return
        if event.shift or event.ctrl:
            if self.state.window is not None:
                self.put(window=scrolled(geometry, -step * PAN))
                self.redraw()
            return
        items = geometry.items_at(event.x, event.y)
        self._zoom(step, geometry.block_of(items[0]) if items else None)

    # -- zoom ---------------------------------------------------------------------------------------------

    def _zoom(self, step: int, block: int | None = None) -> bool:
        """Show the pool around a block (or the cursor, the first block in use, the middle) finer or coarser,
        the block's line where it was. False when it is as fine or coarse already as it gets."""
        geometry, fit, tables = self.geometry, self._fit, self._tables
        if geometry is None or fit is None or tables is None or self.view is None:
            return False
        scale = next_scale(fit, geometry.scale, step, halves=tables.halves)
        if scale == geometry.scale:
            return False
        if block is None:
            block = self.view.selection.block
        if block is None or not geometry.holds(block):
            block = self._centre(geometry) if step > 0 else geometry.block_of(geometry.items // 2)
        row = geometry.row_of(block)
        self.put(
            window=(
                None
                if scale == fit
                else zoomed(geometry.blocks, geometry.width, geometry.height, scale, around=block, row=row)
            )
        )
        self.redraw()
        return True

    def _centre(self, geometry: Geometry) -> int:
        """What to zoom in on without a cursor: the first block shown that is in use, else the middle."""
        snapshot = self.view.snapshot if self.view is not None else None
        if snapshot is not None:
            used = snapshot.blocks.state[geometry.first : geometry.last] >= BlockState.USED
            if used.any():
                return geometry.first + int(np.argmax(used))
        return geometry.block_of(geometry.items // 2)

    def do_expand(self) -> None:
        """Zoom in around the cursor."""
        self._zoom(1)

    def do_collapse(self) -> None:
        """Zoom out."""
        self._zoom(-1)

    def take_inspect(self) -> bool:
        """Zoom in while a cell stands for many blocks; on single blocks Enter leads to the owner."""
        if self.geometry is not None and self.geometry.each > 1 and self._zoom(1):
            return True
        view = self.view
        detail = view.snapshot.block_detail if view is not None and view.snapshot is not None else None
        if view is not None and detail is not None and detail.block == view.selection.block and detail.owners:
            self.perform(Select(Selection(RowKey.of(detail.owners[0].sequence), detail.block)))
            self.perform(Focus("sequences"))
        return True

    def take_back(self) -> bool:
        """Zoom out, until the whole pool is shown."""
        return self.state.window is not None and self._zoom(-1)

    # -- cursor -------------------------------------------------------------------------------------------

    def move(self, dx: int, dy: int) -> None:
        """Move the block cursor. The first move puts it on the first block, or on the selected row's."""
        view, geometry = self.view, self.geometry
        if view is None or view.snapshot is None or geometry is None:
            return
        selection = view.selection
        block = selection.block
        if block is None:
            lit = blocks_of(view.snapshot, selection.row) if selection.row is not None else None
            self._select(int(np.argmax(lit)) if lit is not None else geometry.first)
            return
        item, items = block // geometry.each, -(-geometry.blocks // geometry.each)
        target = item + dx + dy * geometry.columns
        if not 0 <= target < items:
            if abs(dy) < -(-items // geometry.columns) and not dx:
                return
            target = max(0, min(target, items - 1))
        if target != item:
            self._select(target * geometry.each)

    def _select(self, block: int | None) -> None:
        """Put the cursor on a block, or let go of it."""
        row = self.view.selection.row if self.view is not None else None
        self.perform(Select(Selection(row, block)))

    def page(self) -> int:
        """Half of what is shown, in lines of blocks."""
        geometry = self.geometry
        return max(1, -(-geometry.items // geometry.columns) // 2) if geometry is not None else 8


def _centred(line: LineBuilder, width: int, view: View) -> Line:
    """The line in the middle of `width` cells."""
    left = max(0, (width - line.width) // 2)
    return ((" " * left, view.palette.style("text")), *line.line())
