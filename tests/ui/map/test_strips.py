"""Strips of codes write what Textual's own would."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from rich.text import Text
from textual.color import Color
from textual.strip import Strip

from kvtop.ui.draw.codestrip import CodeStrip, runs
from kvtop.ui.draw.filters import AsciiFilter, NoColourFilter
from kvtop.ui.draw.glyphs import BLOCK
from kvtop.ui.draw.palette import load_palette
from kvtop.ui.panels.map.looks import MapTables
from tests.ui.map.parts import LETTERS, TABLES


def cells_of(ansi: str) -> list[tuple[str, str, str, bool]]:
    """Character, foreground, background and reverse of every cell."""
    console = Console(width=9999, color_system="truecolor", force_terminal=True)
    found = []
    for text, style, _ in Text.from_ansi(ansi).render(console):
        if text != "\n":
            style = style or Style()
            look = str(style.color), str(style.bgcolor), bool(style.reverse)
            found += [(character, *look) for character in text]
    return found


@pytest.mark.parametrize("system", ["standard", "256", "truecolor"])
def test_code_strips_write_what_segments_would(system: str) -> None:
    rng = np.random.default_rng(1)
    console = Console(color_system=system, force_terminal=True)  # type: ignore[arg-type]
    tables = MapTables(load_palette())  # a Rich style remembers the first colour system it met
    for number in range(60):
        table = tables.pairs if number % 2 else tables.tiles
        length = int(rng.integers(1, 120))
        found = rng.integers(0, len(table.glyphs), length).astype(np.uint16)
        if number % 3:
            found = np.repeat(found, 5)[:length]
        strip, plain = CodeStrip(found, table), Strip(table.segments(found))
        assert cells_of(strip.render(console)) == cells_of(plain.render(console))
        first, last = sorted(rng.integers(0, length + 1, 2).tolist())
        assert strip.crop(first, last).text == plain.crop(first, last).text
        if 0 < first < last < length:
            cuts = [first, last, length]
            assert [list(part) for part in strip.divide(cuts)] == [list(part) for part in plain.divide(cuts)]


def drawn(screen: list[tuple[str, str, str, bool]], ansi: str) -> None:
    """Write text with escape codes into a line of a screen, as a terminal would."""
    for column, text in re.findall(r"\x1b\[5;(\d+)H(.*?)(?=\x1b\[\d+;\d+H|$)", ansi + "$"):
        for offset, cell in enumerate(cells_of(text.removesuffix("$"))):
            screen[int(column) - 1 + offset] = cell


@pytest.mark.parametrize("filters", [[], [NoColourFilter()]])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.9])
def test_changes_alone_make_the_same_line(share: float, filters) -> None:
    rng = np.random.default_rng(3)
    console = Console(color_system="truecolor", force_terminal=True)
    for table in (TABLES.tiles, TABLES.pairs, LETTERS.tiles):
        for _ in range(10):
            before = np.repeat(rng.integers(0, len(table.glyphs), 40), 3).astype(np.uint16)
            after = np.where(rng.random(120) < share, rng.integers(0, 9), before).astype(np.uint16)
            strips = [CodeStrip(before, table), CodeStrip(after, table, after != before)]
            for line_filter in filters:
                strips = [strip.apply_filter(line_filter, Color(0, 0, 0)) for strip in strips]
            old, new = (cells_of(strip.render(console)) for strip in strips)
            screen = [("?", "", "", False)] * 7 + old
            drawn(screen, strips[1].render_changes(console, 7, 4))
            assert screen[7:] == new
            if share < 0.1:
                assert len(strips[1].render_changes(console, 7, 4)) < len(strips[1].render(console)) / 2


@pytest.mark.parametrize("filters", [[NoColourFilter()], [AsciiFilter()], [NoColourFilter(), AsciiFilter()]])
def test_filtered_code_strips_write_what_filtered_segments_would(filters) -> None:
    rng = np.random.default_rng(2)
    console = Console(color_system="truecolor", force_terminal=True)
    ground = Color(0, 0, 0)
    for tables in (MapTables(load_palette("mono"), BLOCK), MapTables(load_palette())):
        found = np.repeat(rng.integers(0, len(tables.tiles.glyphs), 80), 3).astype(np.uint16)
        strip, plain = CodeStrip(found, tables.tiles), Strip(tables.tiles.segments(found))
        for line_filter in filters:
            strip, plain = strip.apply_filter(line_filter, ground), plain.apply_filter(line_filter, ground)
        assert isinstance(strip, CodeStrip)
        assert cells_of(strip.render(console)) == cells_of(plain.render(console))
        if isinstance(filters[0], NoColourFilter):
            assert "38;" not in strip.render(console)
            assert "48;" not in strip.render(console)


def test_a_strip_keeps_what_a_filter_made_of_it() -> None:
    strip, line_filter = CodeStrip(np.arange(20, dtype=np.uint16), TABLES.tiles), AsciiFilter()
    assert strip.apply_filter(line_filter, Color(0, 0, 0)) is strip.apply_filter(line_filter, Color(0, 0, 0))


def test_without_colours_nothing_is_lost() -> None:
    found = np.arange(20, dtype=np.uint16)
    assert TABLES.tiles.render(found, ColorSystem.TRUECOLOR).endswith("\x1b[0m")
    assert CodeStrip(found, TABLES.tiles).cell_length == 20


@given(st.lists(st.integers(0, 3), max_size=50))
def test_runs_add_up(values: list[int]) -> None:
    lengths, found = runs(np.array(values, np.uint16))
    assert [code for length, code in zip(lengths, found, strict=True) for _ in range(length)] == values
    assert all(a != b for a, b in itertools.pairwise(found))
