"""From columns of blocks to codes, and from codes to strips."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.console import Console
from rich.text import Text
from textual.strip import Strip

from kvtop.timeline.snapshot import BlockColumns, BlockState
from kvtop.ui import blockgrid as grid
from kvtop.ui.aggregate import Aggregator
from kvtop.ui.codestrip import CodeStrip, runs
from kvtop.ui.palette import LEVELS, load_palette

TABLES = grid.MapTables(load_palette())
BLOCK_SIZE = 16


def columns(state: list[int], ref: list[int] | None = None, fill: list[int] | None = None) -> BlockColumns:
    """Columns of a few blocks, all owned by row 0."""
    states = np.array(state, np.uint8)
    number = len(states)
    refs = np.array(ref if ref is not None else np.maximum(states.astype(int) - 1, 0), np.int32)
    fills = np.array(fill if fill is not None else [BLOCK_SIZE] * number, np.int32)
    owner = np.where(states >= BlockState.USED, 0, -1).astype(np.int32)
    return BlockColumns(states, refs, owner, fills, states == 1, np.zeros(number, np.int32))


def glyphs(found: np.ndarray) -> str:
    return "".join(TABLES.tiles.glyphs[code] for code in found.tolist())


def test_every_state_has_a_glyph_of_its_own() -> None:
    some = columns([0, 1, 2, 2, 2, 3, 3], [0, 0, 1, 1, 1, 3, 12], [0, 16, 16, 8, 1, 16, 16])
    inks = grid.owner_inks(some, np.array([5, grid.DIM], np.uint8), None)
    assert glyphs(grid.tile_looks(some, inks, BLOCK_SIZE, None)) == " ·█▄▁3+"


def test_shared_is_brighter_than_used_and_part_darker() -> None:
    some = columns([2, 3, 2], [1, 2, 1], [16, 16, 4])
    inks = grid.owner_inks(some, np.array([5, grid.DIM], np.uint8), None)
    used, shared, part = grid.half_colours(some, inks, BLOCK_SIZE, None).tolist()
    levels = [(code - 3) % LEVELS for code in (used, shared, part)]
    assert levels[2] < levels[0] < levels[1]


def test_free_and_cached_differ_from_everything_used_on_half_cells() -> None:
    some = columns([0, 1, 2, 3])
    inks = grid.owner_inks(some, np.array([5, grid.DIM], np.uint8), None)
    assert len(set(grid.half_colours(some, inks, BLOCK_SIZE, None).tolist())) == 4


def test_unlit_blocks_are_dimmed() -> None:
    some = columns([2, 2])
    inks = grid.owner_inks(some, np.array([5, grid.DIM], np.uint8), np.array([True, False]))
    assert inks.tolist() == [5, grid.DIM]


def test_the_cursor_keeps_the_glyph() -> None:
    for state, ref in ((0, 0), (1, 0), (2, 1), (3, 2)):
        some = columns([state], [ref])
        inks = grid.owner_inks(some, np.array([5, grid.DIM], np.uint8), None)
        plain, under = (grid.tile_looks(some, inks, BLOCK_SIZE, cursor) for cursor in (None, 0))
        assert glyphs(plain) == glyphs(under)
        assert plain[0] != under[0]


def test_the_second_cell_of_a_wide_tile_repeats_all_but_digits() -> None:
    some = columns([0, 1, 2, 3], [0, 0, 1, 3])
    inks = grid.owner_inks(some, np.array([5, grid.DIM], np.uint8), None)
    looks = grid.tile_looks(some, inks, BLOCK_SIZE, None)
    second = grid.second_cells(looks)
    assert glyphs(second) == " ·█ "
    assert [TABLES.tiles.back[code] for code in second] == [TABLES.tiles.back[code] for code in looks]


@given(st.integers(1, 200_000), st.integers(20, 300), st.integers(4, 90), st.booleans())
def test_every_block_has_a_place(blocks: int, width: int, height: int, mono: bool) -> None:
    shape = grid.layout(blocks, width, height, mono=mono)
    lines = -(-shape.rows // 2) if shape.half else shape.rows
    assert lines <= height
    assert shape.label + shape.columns * max(1, shape.tile) <= width
    assert shape.item_of(blocks - 1) == shape.items - 1
    assert not (mono and shape.half)
    for y in range(0, lines, max(1, lines // 5)):
        item = shape.item_at(shape.label, y)
        assert item is not None
        assert shape.row_block(y) == item * shape.each


def test_tiles_shrink_as_blocks_grow_in_number() -> None:
    shapes = [grid.layout(blocks, 76, 16) for blocks in (100, 1000, 2000, 100_000)]
    assert [(shape.tile, shape.half, shape.each > 1) for shape in shapes] == [
        (2, False, False),
        (1, False, False),
        (0, True, False),
        (0, True, True),
    ]


# -- aggregates -------------------------------------------------------------------------------------------


def random_columns(rng: np.random.Generator, number: int, step: int) -> BlockColumns:
    state = rng.integers(0, 4, number).astype(np.uint8)
    owner = np.where(state >= 2, rng.integers(0, 6, number), -1).astype(np.int32)
    zeros = np.zeros(number, np.int32)
    return BlockColumns(state, zeros, owner, zeros, state == 1, np.full(number, step, np.int32))


def by_hand(some: BlockColumns, inks: np.ndarray, each: int) -> list[int]:
    """What an aggregate's colour should be, cell by cell."""
    colours = []
    for start in range(0, len(some.state), each):
        state = some.state[start : start + each].tolist()
        used = [i for i, value in enumerate(state) if value >= 2]
        if not used:
            colours.append(grid.CACHED_PAIR if 1 in state else grid.FREE_PAIR)
            continue
        held = [int(inks[some.owner[start + i]]) for i in used]
        most = max(sorted(set(held)), key=held.count)
        level = 5 if state.count(3) * 2 > len(state) else max(0, min(4, -(-len(used) * 5 // len(state)) - 1))
        colours.append(3 + LEVELS * (most + 1) + level)
    return colours


@pytest.mark.parametrize("number", [1000, 997])
def test_aggregates_show_use_sharing_and_the_largest_owner(number: int) -> None:
    rng = np.random.default_rng(3)
    inks = np.array([0, 4, 9, 13, 17, 23, grid.DIM], np.uint8)
    cells = Aggregator(10)
    for step in range(1, 4):
        some = random_columns(rng, number, step)
        cells.update(some, inks, None, step)
        assert cells.colours(None).tolist() == by_hand(some, inks, 10)


def test_aggregates_count_again_what_was_touched_only() -> None:
    rng = np.random.default_rng(4)
    inks = np.array([0, 4, 9, 13, 17, 23, grid.DIM], np.uint8)
    cells = Aggregator(10)
    some = random_columns(rng, 995, 1)
    cells.update(some, inks, None, 1)
    later = BlockColumns(*(getattr(some, name).copy() for name in BlockColumns.__slots__))
    later.state[500:510], later.owner[500:510] = 2, 5
    later.state[990:], later.owner[990:] = 2, 1
    later.touched[500:510] = later.touched[990:] = 2
    cells.update(later, inks, None, 2)
    assert cells.colours(None).tolist() == by_hand(later, inks, 10)


def test_a_step_back_counts_everything_again() -> None:
    rng = np.random.default_rng(5)
    inks = np.array([0, 4, 9, 13, 17, 23, grid.DIM], np.uint8)
    cells = Aggregator(10)
    cells.update(random_columns(rng, 200, 9), inks, None, 9)
    earlier = random_columns(rng, 200, 2)
    cells.update(earlier, inks, None, 3)
    assert cells.colours(None).tolist() == by_hand(earlier, inks, 10)


def test_whole_cells_say_by_their_glyph_how_full_they_are() -> None:
    some = columns([2] * 8 + [2] * 4 + [0] * 4 + [1] * 8 + [0] * 8)
    cells = Aggregator(8)
    cells.update(some, np.array([5, grid.DIM], np.uint8), None, 1)
    assert glyphs(cells.looks(None)) == "█▄· "


# -- strips -----------------------------------------------------------------------------------------------


def cells_of(ansi: str) -> list[tuple[str, str, str]]:
    """Character, foreground and background of every cell."""
    console = Console(width=9999, color_system="truecolor", force_terminal=True)
    found = []
    for text, style, _ in Text.from_ansi(ansi).render(console):
        if text != "\n":
            assert style is not None
            found += [(character, str(style.color), str(style.bgcolor)) for character in text]
    return found


@pytest.mark.parametrize("system", ["standard", "256", "truecolor"])
def test_code_strips_write_what_segments_would(system: str) -> None:
    rng = np.random.default_rng(1)
    console = Console(color_system=system, force_terminal=True)  # type: ignore[arg-type]
    tables = grid.MapTables(load_palette())  # a Rich style remembers the first colour system it met
    for number in range(60):
        table = tables.pairs if number % 2 else tables.tiles
        length = int(rng.integers(1, 120))
        codes = rng.integers(0, len(table.glyphs), length).astype(np.uint16)
        if number % 3:
            codes = np.repeat(codes, 5)[:length]
        strip, plain = CodeStrip(codes, table), Strip(table.segments(codes))
        assert cells_of(strip.render(console)) == cells_of(plain.render(console))
        first, last = sorted(rng.integers(0, length + 1, 2).tolist())
        assert strip.crop(first, last).text == plain.crop(first, last).text
        if 0 < first < last < length:
            cuts = [first, last, length]
            assert [list(part) for part in strip.divide(cuts)] == [list(part) for part in plain.divide(cuts)]


def test_without_colours_nothing_is_lost() -> None:
    codes = np.arange(20, dtype=np.uint16)
    assert TABLES.tiles.render(codes, ColorSystem.TRUECOLOR).endswith("\x1b[0m")
    assert CodeStrip(codes, TABLES.tiles).cell_length == 20


@given(st.lists(st.integers(0, 3), max_size=50))
def test_runs_add_up(values: list[int]) -> None:
    lengths, codes = runs(np.array(values, np.uint16))
    assert [code for length, code in zip(lengths, codes, strict=True) for _ in range(length)] == values
    assert all(a != b for a, b in itertools.pairwise(codes))
