"""What the map says of itself: mapping, tooltips, legend."""

from __future__ import annotations

import pytest
from rich.style import Style

from kvtop.ui.draw.palette import load_palette
from kvtop.ui.panels.map import geometry, words
from kvtop.ui.panels.map.geometry import Geometry, Scale
from kvtop.ui.panels.map.looks import MapTables


def test_the_mapping_is_said_at_every_width() -> None:
    window = Geometry(76, 16, 1_000_000, 8, Scale(64, 0), 64, 4096)
    assert words.heading(window, 99) == ("Blocks 4,096-135,167 of 1,000,000", "1 half cell = 64 blocks")
    for room in range(31, 99):
        title, scale = words.heading(window, room)
        assert len(title) + len(scale) <= room
        assert "4,096" in title
        assert scale.endswith("cell = 64 blocks")
    pool = geometry.fitting(1_000_000, 48, 17)
    assert words.heading(pool, 40) == ("Blocks", "1 half cell = 740 blocks")
    assert words.heading(pool, 42) == ("Blocks (1,000,000)", "1 half cell = 740 blocks")
    assert words.heading(pool, 25) == ("Blocks", "½ cell = 740 blocks")
    assert words.heading(geometry.fitting(1000, 76, 16), 60) == ("Blocks (1,000)", "1 cell = 1 block")


def test_a_block_is_described_with_state_owner_and_fill(snapshot) -> None:
    shape = geometry.fitting(10, 40, 5)
    said = [words.describe(snapshot, shape, (item,), 60) for item in (0, 2, 4, 5, 8)]
    assert said == [
        "block 0 · used · 1[0] · full",
        "block 2 · shared 2 · 1[2] · full",
        "block 4 · used · 2[2] · 7 of 16 slots",
        "block 5 · cached, idle since step 0",
        "block 8 · free",
    ]


def test_many_blocks_are_described_by_their_numbers(snapshot) -> None:
    shape = Geometry(5, 1, 10, 0, Scale(5, 0), 1)
    assert words.describe(snapshot, shape, (0,), 60) == "blocks 0-4: 5 used (1 shared) · most by 1"
    assert words.describe(snapshot, shape, (1,), 60) == "blocks 5-9: 2 cached, 3 free"
    both = words.describe(snapshot, shape, (0, 1), 90)
    assert both.startswith("▀ blocks 0-4: ")
    assert "▄ blocks 5-9: " in both
    assert words.describe(snapshot, shape, (0, 1), 50) == "blocks 0-4: 5 used (1 shared) · most by 1"


@pytest.mark.parametrize("theme", ["dark", "light", "16-colour", "mono"])
@pytest.mark.parametrize("each", [1, 64])
def test_the_legend_shows_looks_of_the_tables_and_fits(theme: str, each: int) -> None:
    tables = MapTables(load_palette(theme))
    shape = Geometry(76, 16, 10_000, 6, Scale(each, 0 if tables.halves else 1), 64)
    table = tables.pairs if shape.half else tables.tiles
    drawn = {(glyph, table.style(code)) for code, glyph in enumerate(table.glyphs)}
    for room in range(42, 120):
        parts = words.legend(tables, shape, Style(), room)
        assert 0 < sum(len(text) for text, _ in parts) <= room
        swatches = [part for part in parts if len(part[0]) == 1]
        assert len(swatches) >= 4 - (each > 1)
        assert all(swatch in drawn for swatch in swatches)
        assert len({(text, str(style)) for text, style in swatches}) == len(swatches)


@pytest.mark.parametrize("theme", ["dark", "16-colour", "mono"])
@pytest.mark.parametrize("each", [1, 64])
@pytest.mark.parametrize("lit", [False, True])
def test_the_legend_names_what_flashes_even_where_it_is_narrow(theme: str, each: int, lit: bool) -> None:
    tables = MapTables(load_palette(theme))
    shape = Geometry(46, 16, 10_000, 6, Scale(each, 0 if tables.halves else 1), 40)
    for room in (44, 74, 120):
        said = "".join(text for text, _ in words.legend(tables, shape, Style(), room, lit=lit))
        assert all(word in said for word in ("cop", "evict", "preempt", "cached"))
        assert ("others" in said) == lit
        calm = "".join(text for text, _ in words.legend(tables, shape, Style(), room, flashing=False))
        assert "evict" not in calm
