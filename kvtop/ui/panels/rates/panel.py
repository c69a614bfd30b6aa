"""Rates: figures over time as a plot each, and where somebody was preempted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from kvtop.ui.draw import text
from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.draw.plot import area, levels, per_cell
from kvtop.ui.frame.history import History, Values
from kvtop.ui.frame.view import View
from kvtop.ui.parts.panel import Legend, PanelBody

SCALES = (1, 2, 5, 10, 20)
"""Samples that a value of the plot stands for."""
TWO_COLUMNS = 150
"""Cells from which on plots stand beside each other."""
GAP = 3
NAME, VALUE, RANGE = 13, 8, 14
"""Cells for a plot's name, its newest value, and its highest and lowest at the right."""
STEPS = 8
"""Heights that a row of a plot tells apart."""
SEPARATED = 4
"""Rows from which on a plot has an empty one below it."""
PREEMPTED = "▲"


def _percent(value: float) -> str:
    return f"{value:.0f} %"


def _number(value: float) -> str:
    """A mean of counts: whole where it is."""
    return text.count(round(value)) if value >= 100 or value == round(value) else f"{value:.1f}"


@dataclass(frozen=True, slots=True)
class Plot:
    """One figure of the history, and how it is shown."""

    name: str
    figure: str
    """A name of `history.FIGURES`."""
    ink: str
    words: Callable[[float], str] = _number
    ceiling: float | None = None
    """The value at full height; None takes the highest in sight."""
    above: str = ""
    """A figure that is stacked on it, with its name."""


MAIN = (
    Plot("tokens/s", "tokens_per_second", "primary", text.rate),
    Plot("pool used", "used_percent", "used", _percent, 100, "cached_percent"),
    Plot("running", "running", "good"),
    Plot("waiting", "waiting", "muted"),
    Plot("evicted/s", "evictions_per_second", "warning", text.rate),
    Plot("preempted/s", "preemptions_per_second", "error", text.rate),
)
FURTHER = (
    Plot("KV read/step", "kv_bytes_read", "shared", text.size),
    Plot("step time", "step_seconds", "primary", text.duration),
    Plot("copied/s", "copies_per_second", "good", text.rate),
    Plot("swapped", "swapped", "warning"),
)
"""What is shown where the main ones have two rows each."""


@dataclass(frozen=True, slots=True)
class RatesState:
    """What a person has made of the panel."""

    scale: int = 0
    """Place in SCALES."""


class Rates(PanelBody):
    """As many plots as there is room for, over one axis of time."""

    state: RatesState = RatesState()

    def heading(self, view: View) -> tuple[str, str]:
        _, width = _columns(self.extent.width)
        ages = self._ages(view, _room(width))
        return "Rates", f"last {_time(ages[0])}" if len(ages) and ages[0] > 0 else ""

    def legend(self, view: View) -> Legend:
        ink = view.palette.style
        return (
            (view.glyphs.cached, ink("cached", "cached_track")),
            (" cached   ", ink("muted")),
            (PREEMPTED, ink("error")),
            (" preempted   ← longer → shorter time", ink("muted")),
        )

    def move(self, dx: int, dy: int) -> None:
        """Left shows a longer time, right a shorter one."""
        scale = max(0, min(self.state.scale - dx, len(SCALES) - 1))
        if scale != self.state.scale:
            self.put(scale=scale)
            self.redraw()

    def _ages(self, view: View, room: int) -> Values:
        return view.history.ages(room * per_cell(view.glyphs), SCALES[self.state.scale])

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        if not view.history.kept:
            words = "no figures yet" if view.snapshot is None else "the first figures come within a second"
            return [LineBuilder().put(f" {words}", view.palette.style("faint")).line()]
        number, column = _columns(width)
        plots = _chosen(view.history, height - 1, number)
        each = -(-len(plots) // number)
        columns = [
            self._column(view, plots[start : start + each], column, height)
            for start in range(0, len(plots), each)
        ]
        if len(columns) == 1:
            return columns[0]
        gap = ((" " * GAP, view.palette.style("text")),)
        return [(*left, *gap, *right) for left, right in zip(*columns, strict=True)]

    def _column(self, view: View, plots: list[Plot], width: int, height: int) -> list[Line]:
        """Plots one below the other, and the axis of time. Every line is `width` cells wide."""
        lines: list[Line] = []
        for rows, plot in zip(_shares(height - 1, len(plots)), plots, strict=True):
            shown = rows - 1 if rows >= SEPARATED else rows
            lines += self._plot(view, plot, width, shown)
            lines += [_blank(view, width)] * (rows - shown)
        lines += [_blank(view, width)] * (height - 1 - len(lines))
        return [*lines, self._axis(view, width)]

    def _plot(self, view: View, plot: Plot, width: int, rows: int) -> list[Line]:
        """One figure: name, newest value, area, highest and lowest."""
        ink = view.palette.style
        room = _room(width)
        cells = room * per_cell(view.glyphs)
        values = view.history.columns(plot.figure, cells, SCALES[self.state.scale])
        known = values[np.isfinite(values)]
        newest = values[-1] if len(values) and np.isfinite(values[-1]) else None
        left = [(plot.name, plot.words(newest) if newest is not None else "-")]
        parts: list[list[tuple[str, str, str]]]
        if len(known):
            high, low = float(known.max()), float(known.min())
            right = _range(plot.words(high), plot.words(low), rows)
            # Full height stays below the upper edge, so that plots below each other do not run together.
            steps = rows * STEPS
            top = (plot.ceiling if plot.ceiling is not None else high) * steps / (steps - 1)
            above = view.history.columns(plot.above, cells, SCALES[self.state.scale]) if plot.above else None
            parts = _area(view, plot, values, above, rows, top)
            if above is not None and np.isfinite(above[-1]):
                left.append(("cached", plot.words(above[-1])))
        else:
            right = [""] * rows
            parts = [[("not published".ljust(room)[:room], "faint", "background")]] + [[]] * (rows - 1)
        lines = []
        for row in range(rows):
            name, value = left[row] if row < len(left) else ("", "")
            line = LineBuilder().cell(f" {name}", NAME, ink("muted" if row else "text"))
            line.cell(value, VALUE, ink(plot.ink if not row else "cached", bold=not row), ">")
            line.put(" ", ink("text"))
            line.put(" " * (room - sum(len(piece) for piece, _, _ in parts[row])), ink("text"))
            for piece, fore, back in parts[row]:
                line.put(piece, ink(fore, back))
            lines.append(line.put(" ", ink("text")).cell(right[row], RANGE, ink("faint")).line())
        return lines

    def _axis(self, view: View, width: int) -> Line:
        """How long ago the plots begin, and when somebody was preempted."""
        ink = view.palette.style
        room = _room(width)
        ages = self._ages(view, room)
        line = LineBuilder()
        begins = f"{_time(ages[0])} ago" if len(ages) and ages[0] > 0 else ""
        marks = view.history.columns("preempted", room * per_cell(view.glyphs), SCALES[self.state.scale]) > 0
        if per_cell(view.glyphs) == 2:
            marks = np.concatenate((np.zeros(len(marks) % 2, np.bool_), marks))
            marks = marks[::2] | marks[1::2]
        line.cell(begins, NAME + VALUE + room - len(marks), ink("muted"), ">").put(" ", ink("text"))
        for marked, run in groupby(marks.tolist()):
            length = len(list(run))
            line.put((PREEMPTED if marked else "─") * length, ink("error" if marked else "border"))
        return line.put(" ", ink("text")).cell("now", RANGE, ink("muted")).line()


def _columns(width: int) -> tuple[int, int]:
    """How many plots stand beside each other, and the width of each."""
    return (2, (width - GAP) // 2) if width >= TWO_COLUMNS else (1, width)


def _room(width: int) -> int:
    """Cells of a plot's area."""
    return max(1, width - NAME - VALUE - RANGE - 2)


def _chosen(history: History, rows: int, columns: int) -> list[Plot]:
    """The plots that are shown in so many rows and columns; those with no figure at all come last."""
    plots = list(MAIN)
    if rows >= 2 * -(-len(MAIN + FURTHER) // columns):
        plots += FURTHER
    known = [plot for plot in plots if np.isfinite(history.newest(plot.figure, history.kept)).any()]
    plots = known + [plot for plot in plots if plot not in known]
    return plots[: max(1, rows) * columns]


def _shares(rows: int, plots: int) -> list[int]:
    """Rows for each plot; the first ones get what is left over."""
    least, more = divmod(max(rows, plots), plots)
    return [least + 1] * more + [least] * (plots - more)


def _range(high: str, low: str, rows: int) -> list[str]:
    """What stands at the right of a plot's rows."""
    if rows == 1:
        return [f"{low} - {high}" if low != high else high]
    return [f"{high} max", *[""] * (rows - 2), f"{low} min"]


def _area(
    view: View, plot: Plot, values: Values, above: Values | None, rows: int, top: float
) -> list[list[tuple[str, str, str]]]:
    """Rows of (text, ink, ground); with a figure stacked above, what it covers is marked as cached."""
    areas = area(values, rows, top, view.glyphs)
    if above is None:
        return [[(row, plot.ink, "background")] for row in areas]
    each = per_cell(view.glyphs)
    both = np.where(above > 0, levels(values + above, rows, top, 1), 0)
    used = levels(values, rows, top, STEPS)
    if each == 2:
        pad = [0] * (len(both) % 2)
        both, used = (
            np.concatenate((pad, some)).reshape(-1, 2).max(axis=1).astype(np.int64) for some in (both, used)
        )
    parts: list[list[tuple[str, str, str]]] = []
    for row, glyphs in enumerate(areas):
        height = rows - 1 - row
        covered, filled = both > height, used > STEPS * height
        codes = np.where(filled, np.where(covered, 1, 0), np.where(covered, 2, 0)).tolist()
        parts.append([])
        for code, cells in groupby(zip(codes, glyphs, strict=True), key=lambda cell: cell[0]):
            piece = "".join(glyph for _, glyph in cells)
            if code == 2:
                parts[-1].append((view.glyphs.cached * len(piece), "cached", "cached_track"))
            else:
                parts[-1].append((piece, plot.ink, "cached_track" if code else "background"))
    return parts


def _time(seconds: float) -> str:
    """A time back in words."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _blank(view: View, width: int) -> Line:
    return ((" " * width, view.palette.style("text")),)
