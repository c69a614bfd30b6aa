"""Grids of codes, and flashes over them."""

from __future__ import annotations

import dataclasses

import numpy as np

from kvtop.timeline.snapshot import Flash, FlashKind
from kvtop.ui.draw.palette import ink_index
from kvtop.ui.panels.map import geometry, looks
from kvtop.ui.panels.map.drawing import Drawing
from kvtop.ui.panels.map.flashes import Flashes, Flashing
from kvtop.ui.panels.map.geometry import Geometry, Scale
from tests.ui.map.parts import TABLES, columns, glyphs


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
