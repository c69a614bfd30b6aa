"""The map without its widget: geometry, looks, counts of many blocks, flashes, words, strips."""

from __future__ import annotations

import dataclasses
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

from kvtop.timeline.snapshot import BlockColumns, BlockState, Flash, FlashKind, SequenceRow
from kvtop.ui.codestrip import CodeStrip, runs
from kvtop.ui.filters import AsciiFilter, NoColourFilter
from kvtop.ui.glyphs import ASCII, BLOCK
from kvtop.ui.map import codes, geometry, looks, words
from kvtop.ui.map.aggregate import Aggregator
from kvtop.ui.map.drawing import Drawing
from kvtop.ui.map.flashes import Flashes, Flashing
from kvtop.ui.map.geometry import Geometry, Scale
from kvtop.ui.map.looks import DIM, MapTables
from kvtop.ui.palette import HUES, LEVELS, ink_index, load_palette
from kvtop.ui.rows import RowKey

TABLES = MapTables(load_palette())
LETTERS = MapTables(load_palette("mono"))
BLOCK_SIZE = 16
INKS = np.array([5, DIM], np.uint8)


def columns(state: list[int], ref: list[int] | None = None, fill: list[int] | None = None) -> BlockColumns:
    """Columns of a few blocks, all owned by row 0."""
    states = np.array(state, np.uint8)
    number = len(states)
    refs = np.array(ref if ref is not None else np.maximum(states.astype(int) - 1, 0), np.int32)
    fills = np.array(fill if fill is not None else [BLOCK_SIZE] * number, np.int32)
    owner = np.where(states >= BlockState.USED, 0, -1).astype(np.int32)
    return BlockColumns(states, refs, owner, fills, states == 1, np.zeros(number, np.int32))


def glyphs(found: np.ndarray, tables: MapTables = TABLES) -> str:
    return "".join(tables.tiles.glyphs[code] for code in found.tolist())


def row(request: int, table: list[int], *, branch: int = 0, on_host: bool = False) -> SequenceRow:
    name = f"{request}.{branch}" if branch else str(request)
    return SequenceRow(
        id=request << 16 | branch, name=name, request=request, branch=branch, label="", state="running",
        wait_reason="", prompt_tokens=1, generated_tokens=0, stored_tokens=0, max_new_tokens=1, n=1,
        beam_width=1, blocks=len(table), on_host=on_host, shared_blocks=0, waste_slots=0,
        prefix_hit_tokens=0, preemptions=0, table=np.array(table, np.int32), tail=(),
    )  # fmt: skip


@pytest.fixture
def snapshot(session):
    """Two sequences in ten blocks: 0-2 of the first, 2-4 of the second, 5 and 6 cached."""
    some = columns([2, 2, 3, 2, 2, 1, 1, 0, 0, 0], [1, 1, 2, 1, 1, 0, 0, 0, 0, 0], [16] * 4 + [7] + [16] * 5)
    some = dataclasses.replace(some, owner=np.array([0, 0, 0, 1, 1, -1, -1, -1, -1, -1], np.int32))
    rows = (row(1, [0, 1, 2]), row(2, [2, 3, 4]))
    return dataclasses.replace(session.published, blocks=some, sequences=rows, step=9, flashes=())


# -- geometry ---------------------------------------------------------------------------------------------


@given(st.integers(1, 200_000), st.integers(20, 300), st.integers(4, 90), st.booleans())
def test_every_block_has_a_place(blocks: int, width: int, height: int, halves: bool) -> None:
    shape = geometry.fitting(blocks, width, height, halves=halves)
    assert shape.whole
    assert -(-shape.items // shape.columns) <= shape.lines
    assert shape.label + shape.columns * shape.tile <= width
    assert shape.item_of(blocks - 1) == shape.items - 1
    assert halves or not shape.half
    for y in range(height):
        items = shape.items_at(shape.label, y)
        assert shape.row_block(y) == (shape.block_of(items[0]) if items else None)
        assert all(shape.row_of(shape.block_of(item)) == y for item in items)


def test_tiles_shrink_as_blocks_grow_in_number() -> None:
    shapes = [geometry.fitting(blocks, 76, 16).scale for blocks in (100, 1000, 2000)]
    assert shapes == [Scale(1, 2), Scale(1, 1), Scale(1, 0)]
    assert geometry.fitting(100_000, 76, 16).each > 1


def test_lines_use_the_whole_width_before_blocks_share_a_cell() -> None:
    assert geometry.fitting(70 * 6, 76, 6).columns == 70
    bare = geometry.fitting(76 * 6, 76, 6, halves=False)
    assert (bare.scale, bare.columns, bare.label) == (Scale(1, 1), 76, 0)
    assert geometry.fitting(76 * 6 + 1, 76, 6, halves=False).each == 2


def test_narrow_maps_keep_their_labels() -> None:
    assert [geometry.fitting(1000, width, 9).label for width in (23, 24, 39)] == [0, 6, 6]


@given(st.integers(1, 2_000_000), st.integers(20, 200), st.integers(4, 60), st.booleans(), st.data())
def test_zooming_goes_all_the_way_in_and_out(blocks, width, height, halves, data) -> None:
    fit = geometry.fitting(blocks, width, height, halves=halves).scale
    way = [fit]
    while (finer := geometry.next_scale(fit, way[-1], 1, halves=halves)) != way[-1]:
        way.append(finer)
    assert way[-1] == Scale(1, 2)
    assert all(a.each > b.each or (a.each == b.each and a.tile < b.tile) for a, b in itertools.pairwise(way))
    assert all(a.each / b.each < 9 for a, b in itertools.pairwise(way))
    assert [*reversed(way)] == [*_outwards(fit, way[-1], halves)]
    scale = data.draw(st.sampled_from(way))
    block = data.draw(st.integers(0, blocks - 1))
    shown = geometry.zoomed(blocks, width, height, scale, around=block, row=height // 2)
    assert shown.holds(block)
    assert shown.first % shown.line == 0
    assert shown.label + shown.columns * shown.tile <= width
    assert shown.first == 0 or shown.last == blocks or shown.row_of(block) == height // 2


def _outwards(fit: Scale, now: Scale, halves: bool):
    yield now
    while now != fit:
        now = geometry.next_scale(fit, now, -1, halves=halves)
        yield now


@given(st.integers(2000, 200_000), st.sampled_from([Scale(16, 0), Scale(1, 0), Scale(1, 1)]), st.data())
def test_a_window_scrolls_as_little_as_shows_the_block(blocks: int, scale: Scale, data) -> None:
    window = geometry.zoomed(blocks, 76, 16, scale, around=data.draw(st.integers(0, blocks - 1)))
    block = data.draw(st.integers(0, blocks - 1))
    moved = geometry.following(window, block)
    assert moved.holds(block)
    if window.holds(block):
        assert moved == window
    elif block < window.first:
        assert moved.row_of(block) == 0
    else:
        assert moved.row_of(block) == moved.height - 1 or moved.last == blocks


def test_a_window_does_not_leave_the_pool() -> None:
    window = geometry.zoomed(10_000, 76, 16, Scale(1, 1), around=5000)
    assert geometry.scrolled(window, -10_000).first == 0
    end = geometry.scrolled(window, 10_000)
    assert (end.last, end.row_of(9_999)) == (10_000, end.height - 1)
    assert geometry.scrolled(window, 3).first == window.first + 3 * window.line


# -- looks ------------------------------------------------------------------------------------------------


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


# -- many blocks an item ----------------------------------------------------------------------------------


def items_of(number: int, each: int, first: int = 0, items: int = 1 << 20) -> Geometry:
    """A geometry of half cells for `each` blocks, of so many items."""
    return Geometry(items, 1, number, 0, Scale(each, 1), items, first)


def random_columns(rng: np.random.Generator, number: int, step: int) -> BlockColumns:
    state = rng.integers(0, 4, number).astype(np.uint8)
    owner = np.where(state >= 2, rng.integers(-1, 6, number), -1).astype(np.int32)
    zeros = np.zeros(number, np.int32)
    return BlockColumns(state, zeros, owner, zeros, state == 1, np.full(number, step, np.int32))


def by_hand(some: BlockColumns, inks: np.ndarray, each: int, lit: set[int] | None = None) -> list[int]:
    """What an item's colour should be, item by item."""
    colours = []
    for start in range(0, len(some.state), each):
        state = some.state[start : start + each].tolist()
        used = [i for i, value in enumerate(state) if value >= 2]
        if not used:
            colours.append(looks.CACHED_COLOUR if 1 in state else looks.FREE_COLOUR)
            continue
        held = [int(inks[some.owner[start + i]]) for i in used if lit is None or start + i in lit]
        held = [ink for ink in held if ink != DIM]
        most = max(sorted(set(held)), key=held.count) if held else DIM
        level = 5 if state.count(3) * 2 > len(state) else max(0, min(4, -(-len(used) * 5 // len(state)) - 1))
        colours.append(looks.colour_of(most, level))
    return colours


SIX = np.array([0, 4, 9, 13, 17, 23, DIM], np.uint8)


@pytest.mark.parametrize("number", [1000, 997])
def test_aggregates_show_use_sharing_and_the_largest_owner(number: int) -> None:
    rng = np.random.default_rng(3)
    cells = Aggregator(items_of(number, 10))
    for step in range(1, 4):
        some = random_columns(rng, number, step)
        cells.update(some, SIX, step)
        assert cells.colours().tolist() == by_hand(some, SIX, 10)


def test_aggregates_count_again_what_was_touched_only() -> None:
    rng = np.random.default_rng(4)
    cells = Aggregator(items_of(995, 10))
    some = random_columns(rng, 995, 1)
    assert cells.update(some, SIX, 1) == 995
    later = BlockColumns(*(getattr(some, name).copy() for name in BlockColumns.__slots__))
    later.state[500:510], later.owner[500:510] = 2, 5
    later.state[990:], later.owner[990:] = 2, 1
    later.touched[:] = 0
    later.touched[500:510] = later.touched[990:] = 2
    changed = np.count_nonzero((later.state != some.state) | (later.touched >= 1))
    assert cells.update(later, SIX, 2) == changed <= 15
    assert cells.colours().tolist() == by_hand(later, SIX, 10)
    assert cells.update(later, SIX, 2) == 0


def test_a_step_back_counts_everything_again() -> None:
    rng = np.random.default_rng(5)
    cells = Aggregator(items_of(200, 10))
    cells.update(random_columns(rng, 200, 9), SIX, 9)
    earlier = random_columns(rng, 200, 2)
    lit = np.arange(0, 200, 3, dtype=np.int32)
    cells.light(lit)
    assert cells.update(earlier, SIX, 3) == 200
    cells.light(lit)
    assert cells.colours().tolist() == by_hand(earlier, SIX, 10, set(lit.tolist()))
    cells.light(None)
    assert cells.colours().tolist() == by_hand(earlier, SIX, 10)


def test_a_window_counts_its_own_blocks() -> None:
    some = random_columns(np.random.default_rng(6), 1000, 1)
    cells = Aggregator(items_of(1000, 10, first=300, items=20))
    assert cells.update(some, SIX, 1) == 200
    assert cells.colours().tolist() == by_hand(some, SIX, 10)[30:50]


@pytest.mark.parametrize("share", [0.05, 0.9])
@pytest.mark.parametrize("first", [0, 300])
def test_lit_aggregates_show_the_largest_lit_owner_and_count_nothing_anew(share: float, first: int) -> None:
    number = 1000
    rng = np.random.default_rng(7)
    some = random_columns(rng, number, 1)
    shape = items_of(number, 10, first)
    cells = Aggregator(shape)
    cells.update(some, SIX, 1)
    used = np.flatnonzero(some.state >= 2)
    for step in range(2, 6):
        lit = rng.choice(used, round(share * len(used)), replace=False).astype(np.int32)
        lit = np.concatenate([lit, lit[:5]])  # shared by two lit rows
        cells.light(lit)
        cells.light(lit)
        assert cells.update(some, SIX, 1) == 0
        assert cells.colours().tolist() == by_hand(some, SIX, 10, set(lit.tolist()))[first // 10 :]
        # Some lit blocks, and some that are not, change hands.
        owner, touched = some.owner.copy(), np.zeros(number, np.int32)
        changed = rng.choice(used, 40, replace=False)
        owner[changed], touched[changed] = rng.integers(0, 6, 40), step
        some = dataclasses.replace(some, owner=owner, touched=touched)
        cells.update(some, SIX, step)
        assert cells.colours().tolist() == by_hand(some, SIX, 10, set(lit.tolist()))[first // 10 :]
    cells.light(None)
    assert cells.colours().tolist() == by_hand(some, SIX, 10)[first // 10 :]
    cells.light(lit)
    assert cells.colours().tolist() == by_hand(some, SIX, 10, set(lit.tolist()))[first // 10 :]


def test_whole_cells_say_by_their_glyph_how_full_they_are() -> None:
    some = columns([2] * 8 + [2] * 4 + [0] * 4 + [1] * 8 + [0] * 8)
    cells = Aggregator(items_of(32, 8))
    cells.update(some, INKS, 1)
    assert glyphs(cells.codes()) == "█▄· "


def test_letters_say_who_holds_most_of_many_blocks_and_in_what_state() -> None:
    states = [[2] * 8, [2] * 5 + [0] * 3, [2] * 4 + [1] * 4, [3] * 5 + [2] * 3, [3] + [1] * 7, [1] + [0] * 7]
    some = columns([*itertools.chain(*states), *[0] * 8])
    owner = some.owner.copy()
    owner[:3] = 1  # three of eight
    some = dataclasses.replace(some, owner=owner)
    cells = Aggregator(items_of(len(owner), 8))
    inks = np.array([1, 2, DIM], np.uint8)
    cells.update(some, inks, 1)
    for theme, characters in ("mono", BLOCK), ("dark", ASCII):
        tables = MapTables(load_palette(theme), characters)
        assert glyphs(cells.letters(), tables) == f"bb2BB{characters.cached} "
    cells.light(np.array([0], np.int32))
    assert glyphs(cells.letters(), LETTERS) == "c--==· "


@pytest.mark.parametrize("tables", [TABLES, LETTERS], ids=["hues", "letters"])
def test_many_blocks_a_cell_are_drawn_with_letters_where_there_are_no_hues(snapshot, tables) -> None:
    shape = Geometry(5, 1, 10, 0, Scale(2, 1), 5)
    assert glyphs(Drawing(shape, tables).draw(snapshot)[0], tables) == (
        "██▄· " if tables is TABLES else "bb3· "
    )


# -- drawing ----------------------------------------------------------------------------------------------


def test_labels_flashes_and_the_cursor_lie_where_their_blocks_are(snapshot) -> None:
    shape = geometry.fitting(10, 40, 5)
    assert (shape.scale, shape.columns, shape.label) == (Scale(1, 2), 10, 6)
    drawing = Drawing(shape, TABLES)
    plain = drawing.draw(snapshot)
    assert glyphs(plain[0]) == " 0000 █▊█▊2▊█▊▄▄····      " + " " * 14
    flash = Flashing(FlashKind.COPIED, 0, np.array([3, 8, 99], np.int32))
    shown = drawing.draw(snapshot, cursor=7, flashes=[flash])
    assert np.flatnonzero((shown != plain)[0]).tolist() == [1, 2, 3, 4, 12, 13, 20, 21, 22, 23]
    assert shown[0, 12] == TABLES.flashes[FlashKind.COPIED, 0, plain[0, 12]]
    assert shown[0, 20] == TABLES.cursor[plain[0, 20]]


def test_flashes_over_each_other_show_the_newest(snapshot) -> None:
    drawing = Drawing(geometry.fitting(10, 40, 5), TABLES)
    plain = drawing.draw(snapshot)
    block = np.array([1], np.int32)
    shown = drawing.draw(
        snapshot, flashes=[Flashing(FlashKind.EVICTED, 2, block), Flashing(FlashKind.COPIED, 0, block)]
    )
    assert shown[0, 8] == TABLES.flashes[FlashKind.COPIED, 0, plain[0, 8]]


def test_half_cells_show_two_lines_of_blocks_and_the_cursor_in_one(session, snapshot) -> None:
    number = 64
    state = np.tile([2, 1], number // 2).tolist()
    some = dataclasses.replace(snapshot, blocks=columns(state))
    shape = Geometry(16, 2, number, 0, Scale(1, 0), 16)
    drawing = Drawing(shape, TABLES)
    used, cached = looks.colour_of(ink_index(1), looks.USED), looks.CACHED_COLOUR
    grid = drawing.draw(some)
    upper, lower = np.divmod(grid, TABLES.colours)
    assert upper.tolist() == lower.tolist() == [[used, cached] * 8] * 2
    upper, lower = np.divmod(drawing.draw(some, cursor=16 + 3), TABLES.colours)
    assert (lower[0, 3], upper[0, 3]) == (looks.CURSOR_COLOUR, TABLES.outside)
    flash = Flashing(FlashKind.EVICTED, 1, np.array([5], np.int32))
    upper, _ = np.divmod(drawing.draw(some, flashes=[flash]), TABLES.colours)
    assert upper[0, 5] == TABLES.flash_colours[FlashKind.EVICTED, 1]


# -- flashes ----------------------------------------------------------------------------------------------


def at(snapshot, step: int, *flashes: Flash):
    return dataclasses.replace(snapshot, step=step, flashes=flashes)


def fading(flashes: Flashes, clock: float) -> list[tuple[int, int, list[int]]]:
    return [(int(kind), step, blocks.tolist()) for kind, step, blocks in flashes.fading(clock, 4)]


ONE, TWO = Flash(1, FlashKind.COPIED, (3, 4)), Flash(2, FlashKind.EVICTED, (5,))
THREE = Flash(3, FlashKind.COPIED, (6,))


def test_new_flashes_fade_and_end(snapshot) -> None:
    flashes = Flashes()
    flashes.update(at(snapshot, 1, ONE), 10.0)
    assert fading(flashes, 10.0) == []
    assert not flashes.active
    flashes.update(at(snapshot, 2, ONE, TWO, THREE), 10.05)
    assert sorted(fading(flashes, 10.05)) == [(0, 0, [6]), (1, 0, [5])]
    flashes.update(at(snapshot, 3, ONE, TWO, THREE), 10.25)
    assert sorted(fading(flashes, 10.25)) == [(0, 1, [6]), (1, 1, [5])]
    # Evictions are over sooner: in a full pool they would cover everything else.
    assert sorted(fading(flashes, 10.46)) == [(0, 2, [6])]
    assert sorted(fading(flashes, 10.84)) == [(0, 3, [6])]
    assert flashes.active
    assert fading(flashes, 10.86) == []
    assert not flashes.active


def test_flashes_that_nobody_watched_are_not_made_up_for(snapshot) -> None:
    flashes = Flashes()
    flashes.update(at(snapshot, 1), 10.0)
    flashes.update(at(snapshot, 500, ONE, TWO), 60.0)
    assert fading(flashes, 60.0) == []
    flashes.update(at(snapshot, 501, ONE, TWO, THREE), 60.05)
    assert fading(flashes, 60.05) == [(0, 0, [6])]


def test_a_single_step_after_a_long_pause_flashes(snapshot) -> None:
    flashes = Flashes()
    flashes.update(at(snapshot, 1, ONE), 10.0)
    flashes.update(at(snapshot, 2, ONE, TWO), 500.0)
    assert fading(flashes, 500.0) == [(1, 0, [5])]


def test_a_step_back_ends_all_flashes(snapshot) -> None:
    flashes = Flashes()
    flashes.update(at(snapshot, 1), 10.0)
    flashes.update(at(snapshot, 2, ONE, TWO), 10.1)
    flashes.update(at(snapshot, 1, ONE), 10.2)
    assert fading(flashes, 10.2) == []


def test_flashes_that_are_not_wanted_are_seen_all_the_same(snapshot) -> None:
    flashes = Flashes()
    flashes.update(at(snapshot, 1), 10.0)
    flashes.update(at(snapshot, 2, ONE), 10.1, wanted=False)
    flashes.update(at(snapshot, 3, ONE, TWO), 10.2)
    assert fading(flashes, 10.2) == [(1, 0, [5])]


# -- words ------------------------------------------------------------------------------------------------


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


# -- strips -----------------------------------------------------------------------------------------------


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
