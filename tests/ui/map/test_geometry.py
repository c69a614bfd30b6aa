"""Where blocks stand: tiles, half cells, zoomed windows."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from kvtop.ui.panels.map import geometry
from kvtop.ui.panels.map.geometry import Scale


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
