"""Cells that stand for many blocks."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from kvtop.timeline.snapshot import BlockColumns
from kvtop.ui.draw.glyphs import ASCII, BLOCK
from kvtop.ui.draw.palette import load_palette
from kvtop.ui.panels.map import looks
from kvtop.ui.panels.map.aggregate import Aggregator
from kvtop.ui.panels.map.drawing import Drawing
from kvtop.ui.panels.map.geometry import Geometry, Scale
from kvtop.ui.panels.map.looks import DIM, MapTables
from tests.ui.map.parts import INKS, LETTERS, TABLES, columns, glyphs


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
