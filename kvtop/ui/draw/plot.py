"""Plots in characters: values over time become rows of text, top row first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvtop.ui.draw.glyphs import Glyphs

Values = NDArray[np.float64]

# Dots of a braille cell filled from the bottom: none to four, in the left and in the right column.
_LEFT = np.array([0x00, 0x40, 0x44, 0x46, 0x47])
_RIGHT = np.array([0x00, 0x80, 0xA0, 0xB0, 0xB8])


def per_cell(glyphs: Glyphs) -> int:
    """Values that stand side by side in one cell of a plot."""
    return 2 if glyphs.plot == "braille" else 1


def levels(values: Values, height: int, top: float, steps: int) -> NDArray[np.int64]:
    """How high each value stands, in `steps` a row, from 1 to `height * steps`; 0 where there is no value.

    A known value has one step at least, so that zero can be told from nothing known.
    """
    known = np.isfinite(values)
    most = height * steps
    share = np.where(known, values, 0.0) / top if top > 0 else np.zeros(len(values))
    return np.where(known, np.clip(np.rint(share * most), 1, most), 0).astype(np.int64)


def area(values: Values, height: int, top: float, glyphs: Glyphs) -> list[str]:
    """The area under `values` in `height` rows, where `top` is full height; zero is a line at the bottom.

    A row has one cell for each value, or for two of them in braille; cells without a value are blank.
    """
    if glyphs.plot == "braille":
        return _braille(values, height, top)
    stand = levels(values, height, top, 8)
    marks = np.array([" ", *glyphs.eighths])
    return ["".join(marks[np.clip(stand - 8 * row, 0, 8)].tolist()) for row in range(height - 1, -1, -1)]


def _braille(values: Values, height: int, top: float) -> list[str]:
    """The same with two values a cell and four dots a row."""
    stand = levels(values, height, top, 4)
    if len(stand) % 2:
        stand = np.concatenate(([0], stand))
    rows = []
    for row in range(height - 1, -1, -1):
        dots = np.clip(stand - 4 * row, 0, 4)
        cells = _LEFT[dots[::2]] + _RIGHT[dots[1::2]]
        rows.append("".join(chr(0x2800 + cell) if cell else " " for cell in cells.tolist()))
    return rows


def line_of_eighths(values: Values, glyphs: Glyphs) -> str:
    """Values from 0 to 1 as one row that shows where, not how much: 0 is at the bottom of the cell. The last
    eighth stays free, so that rows below each other do not run together."""
    stand = np.clip(np.rint(values * 6), 0, 6).astype(np.int64)
    return "".join(np.array(list(glyphs.eighths))[stand].tolist())
