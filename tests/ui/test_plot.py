"""Plots in characters."""

from __future__ import annotations

import numpy as np

from kvtop.ui.draw.glyphs import ASCII, BLOCK, BRAILLE
from kvtop.ui.draw.plot import area, line_of_eighths, per_cell

NAN = float("nan")


def test_an_area_in_one_row() -> None:
    assert area(np.array([0.0, 1, 4, 8, NAN, 99]), 1, 8, BLOCK) == ["▁▁▄█ █"]


def test_an_area_in_two_rows() -> None:
    assert area(np.array([0.0, 4, 6, 8]), 2, 8, BLOCK) == ["  ▄█", "▁███"]


def test_zero_is_a_line_and_nothing_known_is_blank() -> None:
    assert area(np.array([0.0, NAN, 0]), 2, 0, BLOCK) == ["   ", "▁ ▁"]
    assert area(np.array([NAN]), 1, 0, BRAILLE) == [" "]


def test_braille_has_two_values_a_cell() -> None:
    assert per_cell(BRAILLE) == 2
    assert area(np.array([0.0, 2, 4, 1]), 1, 4, BRAILLE) == ["⣠⣇"]
    assert area(np.array([4.0]), 1, 4, BRAILLE) == ["⢸"]
    assert area(np.array([8.0, 4]), 2, 8, BRAILLE) == ["⡇", "⣿"]


def test_ascii_has_signs_of_its_own() -> None:
    assert area(np.array([8.0, NAN]), 1, 8, ASCII) == [ASCII.eighths[-1] + " "]
    assert "".join(area(np.arange(20.0), 3, 20, ASCII)).isascii()


def test_a_line_says_where() -> None:
    assert line_of_eighths(np.array([0.0, 0.5, 1.0]), BLOCK) == "▁▄▇"
