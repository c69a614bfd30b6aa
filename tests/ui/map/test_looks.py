"""What a block looks like, by state, owner, cursor and flash."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from textual.color import Color

from kvtop.ui.draw.filters import NoColourFilter
from kvtop.ui.draw.glyphs import ASCII
from kvtop.ui.draw.palette import HUES, LEVELS, ink_index, load_palette
from kvtop.ui.frame.row import RowKey
from kvtop.ui.panels.map import codes, looks
from kvtop.ui.panels.map.looks import DIM, MapTables
from tests.ui.map.parts import BLOCK_SIZE, INKS, LETTERS, TABLES, columns, glyphs, row


def test_every_state_has_a_glyph_of_its_own() -> None:
    some = columns([0, 1, 2, 2, 2, 3, 3], [0, 0, 1, 1, 1, 3, 12], [0, 16, 16, 8, 1, 16, 16])
    inks = codes.block_inks(some, INKS, None)
    assert glyphs(codes.tile_codes(some, inks, BLOCK_SIZE)) == " ·█▄▁3+"


@pytest.mark.parametrize("theme", ["mono", "dark"])
@pytest.mark.parametrize("tile", [1, 2])
def test_letters_tell_every_state_of_eight_owners_apart(theme: str, tile: int) -> None:
    tables = MapTables(load_palette(theme), ASCII)
    shown = {}
    for request, (state, fill) in itertools.product(range(HUES), [(2, 16), (3, 16), (2, 5)]):
        some = columns([state], None, [fill])
        inks = codes.block_inks(some, np.array([ink_index(request), DIM], np.uint8), None)
        found = codes.tile_codes(some, inks, BLOCK_SIZE)
        cells = [found] if tile == 1 else [cell.take(found) for cell in tables.wide]
        shown[request, state, fill] = "".join(glyphs(cell, tables) for cell in cells)
    for state in (0, 1):
        some = columns([state])
        shown[None, state] = glyphs(
            codes.tile_codes(some, codes.block_inks(some, INKS, None), BLOCK_SIZE), tables
        )
    assert len(set(shown.values())) == len(shown) == 3 * HUES + 2
    assert all(text.isascii() for text in shown.values())
    if tile == 1:
        assert [shown[0, 2, 16], shown[0, 3, 16], shown[0, 2, 5]] == ["a", "A", "1"]
    else:
        assert [shown[0, 2, 16], shown[0, 3, 16], shown[0, 2, 5]] == ["aa", "A2", "a:"]


def test_half_cells_tell_states_apart_in_every_theme() -> None:
    for theme in ("dark", "light", "high-contrast", "colour-blind"):
        tables = MapTables(load_palette(theme))
        assert tables.halves
        for ink in range(HUES):
            found = {
                tables.pairs.colours[looks.colour_of(ink, level)].name
                for level in (looks.PART, looks.USED, looks.STRONG)
            }
            states = (looks.FREE_COLOUR, looks.CACHED_COLOUR, looks.CURSOR_COLOUR)
            found |= {tables.pairs.colours[state].name for state in states}
            assert len(found) == 6


def test_dimmed_half_cells_look_like_no_other_state() -> None:
    for theme in ("dark", "light", "high-contrast", "colour-blind"):
        tables = MapTables(load_palette(theme))
        seen = [tables.pairs.colours[colour].triplet for colour in (looks.CACHED_COLOUR, looks.FREE_COLOUR)]
        seen += [
            tables.pairs.colours[looks.colour_of(ink, looks.USED)].triplet for ink in range(HUES)
        ]  # fmt: skip
        for level in (looks.PART, looks.USED, looks.STRONG):
            dimmed = tables.pairs.colours[looks.colour_of(DIM, level)].triplet
            assert max(dimmed) - min(dimmed) > 25, "a tint, where cached blocks are grey"
            assert all(sum(abs(a - b) for a, b in zip(dimmed, other, strict=True)) > 25 for other in seen)


def test_named_colours_and_letters_use_no_half_cells() -> None:
    assert not MapTables(load_palette("16-colour")).halves
    assert not MapTables(load_palette("mono")).halves
    assert not MapTables(load_palette(), ASCII).halves
    assert not MapTables(load_palette(), no_color=True).halves


def test_shared_is_brighter_than_used_and_part_darker() -> None:
    some = columns([2, 3, 2], [1, 2, 1], [16, 16, 4])
    inks = codes.block_inks(some, INKS, None)
    used, shared, part = codes.half_colours(some, inks, BLOCK_SIZE).tolist()
    levels = [(colour - looks.FIRST_COLOUR) % LEVELS for colour in (used, shared, part)]
    assert levels[2] < levels[0] < levels[1]
    brightness = [sum(TABLES.pairs.colours[colour].triplet) for colour in (part, used, shared)]
    assert brightness == sorted(brightness)


def test_unlit_blocks_are_dimmed() -> None:
    some = columns([2, 2, 2])
    assert codes.block_inks(some, INKS, np.array([0], np.int32)).tolist() == [5, DIM, DIM]
    assert codes.block_inks(some, INKS, np.array([99, 101], np.int32), 100).tolist() == [DIM, 5, DIM]


def test_lit_blocks_are_those_of_rows_and_groups_on_the_device(snapshot) -> None:
    rows = (row(1, [4, 5]), row(2, [1], branch=1), row(2, [2], branch=2), row(3, [7], on_host=True))
    some = dataclasses.replace(snapshot, sequences=rows)
    assert codes.lit_blocks(some, [RowKey(1, 0), RowKey(2, 2)]).tolist() == [4, 5, 2]
    assert codes.lit_blocks(some, [RowKey(2, None)]).tolist() == [1, 2]
    assert codes.lit_blocks(some, [RowKey(3, 0)]) is None
    assert codes.lit_blocks(some, []) is None


@pytest.mark.parametrize("tables", [TABLES, LETTERS], ids=["hues", "letters"])
def test_the_cursor_keeps_the_glyph_and_changes_the_look(tables: MapTables) -> None:
    for state, ref in ((0, 0), (1, 0), (2, 1), (3, 2)):
        some = columns([state], [ref])
        plain = codes.tile_codes(some, codes.block_inks(some, INKS, None), BLOCK_SIZE)
        under = tables.cursor.take(plain)
        assert glyphs(plain, tables) == glyphs(under, tables)
        assert tables.tiles.style(int(plain[0])) != tables.tiles.style(int(under[0]))


def test_without_colours_the_cursor_is_the_only_reverse() -> None:
    tables = MapTables(load_palette("mono"))
    filtered = tables.tiles.filtered(NoColourFilter("#000000"), Color(0, 0, 0))
    for state, ref in ((0, 0), (1, 0), (2, 1), (3, 2)):
        some = columns([state], [ref])
        plain = codes.tile_codes(some, codes.block_inks(some, INKS, None), BLOCK_SIZE)
        assert not filtered.segment(int(plain[0])).style.reverse
        assert filtered.segment(int(tables.cursor[plain[0]])).style.reverse


def test_flashes_differ_by_kind_and_fade() -> None:
    full = looks.code_of(5, looks.FULL)
    styles = [[TABLES.tiles.style(int(step[full])) for step in kind] for kind in TABLES.flashes]
    assert len({style for kind in styles for style in kind}) == 12
    assert len({int(colour) for kind in TABLES.flash_colours for colour in kind}) == 12
    signs = [glyphs(np.array([kind[0][full]]), LETTERS) for kind in LETTERS.flashes]
    assert signs == ["+", "^", "!"]


def test_a_wide_tile_ends_before_the_next_and_keeps_its_colours() -> None:
    some = columns([0, 1, 2, 3], [0, 0, 1, 3])
    found = codes.tile_codes(some, codes.block_inks(some, INKS, None), BLOCK_SIZE)
    first, second = (cell.take(found) for cell in TABLES.wide)
    assert glyphs(first) == " ·█3"
    assert glyphs(second) == " ·▊▊"
    colours = TABLES.tiles
    assert colours.fore[second[2]] == colours.fore[first[2]]
    assert colours.fore[second[3]] == colours.back[first[3]]
