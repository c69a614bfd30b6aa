"""The block map on the screen: zoom, flashes, the mouse, themes, and what reaches the terminal."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from rich.console import Console
from rich.style import Style
from rich.text import Text
from textual import events

from kvtop.timeline.snapshot import BlockState, Flash, FlashKind
from kvtop.ui.draw.filters import filter_strips
from kvtop.ui.draw.glyphs import ASCII
from kvtop.ui.draw.palette import load_palette
from kvtop.ui.frame.row import RowKey
from kvtop.ui.frame.view import Selection
from kvtop.ui.panels.map.geometry import Scale
from kvtop.ui.panels.map.looks import DIM, SHAPES
from kvtop.ui.terminal.paint import RowsUpdate

NORMAL = (120, 36)
MANY = 50_000


@pytest.fixture
def many(make_session):
    """A pool that is shown many blocks to a half cell."""
    return make_session(MANY).run(60)


def block_map(driven):
    return driven.app.dashboard.body("map")


def say(driven) -> str:
    """The text of the map's rows."""
    return "\n".join(strip.text for strip in block_map(driven).strips)


async def wheel(driven, event, at: tuple[int, int], **modifiers) -> None:
    await driven.pilot._post_mouse_events([event], "#map", offset=at, **modifiers)
    await driven.settle()


# -- zoom -------------------------------------------------------------------------------------------------


async def test_enter_zooms_in_to_single_blocks_and_escape_out_again(drive, many) -> None:
    async with drive(many, NORMAL) as driven:
        found = block_map(driven)
        await driven.press("2", "right", *["down"] * 3)
        block = driven.app.selection.block
        fit = found.geometry
        assert fit.whole
        assert f"1 half cell = {fit.each} blocks" in driven.text
        scales = [fit.scale]
        while found.geometry.each > 1:
            await driven.press("enter")
            scales.append(found.geometry.scale)
            assert found.geometry.holds(block)
            assert f"{found.geometry.first:,}-{found.geometry.last - 1:,} of 50,000" in driven.text
        assert scales[-1] == Scale(1, 0)
        assert len(scales) > 2
        await driven.press("plus")
        assert found.geometry.scale == Scale(1, 1)
        assert "1 cell = 1 block" in driven.text
        await driven.press("plus", "plus", "minus")
        assert found.geometry.scale == Scale(1, 1)
        await driven.press(*["escape"] * (len(scales)))
        assert found.geometry.scale == fit.scale
        assert found.geometry.whole
        assert driven.app.selection.block == block
        await driven.press("escape")
        assert driven.app.selection.block is None


async def test_enter_without_a_cursor_zooms_in_on_blocks_in_use(drive, many) -> None:
    async with drive(many, NORMAL) as driven:
        await driven.press("2")
        found, columns = block_map(driven), many.published.blocks
        used = 30_000
        state = np.zeros_like(columns.state)
        state[used] = BlockState.USED
        touched = np.full_like(columns.touched, many.published.step)
        blocks = dataclasses.replace(columns, state=state, touched=touched)
        many.published = dataclasses.replace(many.published, blocks=blocks)
        await driven.settle()
        while found.geometry.each > 1:
            await driven.press("enter")
            assert found.geometry.holds(used)
        assert not found.geometry.holds(0)


async def test_on_single_blocks_enter_leads_to_the_owner(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        used = int(np.flatnonzero(session.published.blocks.state == BlockState.USED)[0])
        driven.app.select(Selection(None, used))
        await driven.press("shift+tab", "enter")
        owner = session.published.block_detail.owners[0].sequence
        assert driven.app.selection.row == RowKey(owner >> 16, owner & 0xFFFF)


async def test_a_zoomed_window_follows_the_cursor_over_its_edge(drive, many) -> None:
    async with drive(many, NORMAL) as driven:
        found = block_map(driven)
        await driven.press("2", "right", "enter", "enter", "enter", "enter")
        window = found.geometry
        assert window.first == 0
        for _ in range(3):
            await driven.press("pagedown")
        assert found.geometry.first > 0
        assert found.geometry.holds(driven.app.selection.block)
        assert found.geometry.row_of(driven.app.selection.block) == found.geometry.height - 1
        await driven.press("end")
        assert found.geometry.last == MANY
        await driven.press("home")
        assert found.geometry == window


async def test_the_wheel_zooms_around_the_mouse_and_scrolls_with_shift(drive, many) -> None:
    async with drive(many, NORMAL) as driven:
        found = block_map(driven)
        await driven.press("2")
        fit = found.geometry
        under = fit.block_of(fit.items_at(30, 8)[0])
        await wheel(driven, events.MouseScrollUp, (30, 8))
        assert found.geometry.each < fit.each
        assert found.geometry.row_of(under) == 8
        first = found.geometry.first
        await wheel(driven, events.MouseScrollDown, (30, 8), shift=True)
        assert found.geometry.first > first
        await wheel(driven, events.MouseScrollUp, (30, 8), shift=True)
        assert found.geometry.first == first
        await wheel(driven, events.MouseScrollDown, (30, 8))
        assert found.geometry == fit
        assert driven.app.selection.block is None


async def test_looking_elsewhere_leaves_the_cursor_where_it_is(drive, many) -> None:
    async with drive(many, NORMAL) as driven:
        found = block_map(driven)
        await driven.press("2", "right", "plus", "plus", "plus")
        await wheel(driven, events.MouseScrollDown, (30, 5), control=True)
        assert not found.geometry.holds(driven.app.selection.block)
        many.advance()
        await driven.settle()
        assert not found.geometry.holds(driven.app.selection.block)
        await driven.press("right")
        assert found.geometry.holds(driven.app.selection.block)


async def test_another_size_keeps_the_scale_and_shows_the_same_part(drive, many) -> None:
    async with drive(many, NORMAL) as driven:
        found = block_map(driven)
        await driven.press("2", "right", "end", "plus", "plus", "plus")
        scale, first = found.geometry.scale, found.geometry.first
        await driven.pilot.resize_terminal(100, 40)
        await driven.settle()
        assert found.geometry.scale == scale
        assert (found.geometry.width, found.geometry.height) == found.extent
        assert found.geometry.holds(first) or found.geometry.last == MANY


async def test_row_labels_stay_true_in_a_window(drive, many) -> None:
    async with drive(many, NORMAL) as driven:
        await driven.press("2", "right", "end", "plus", "plus", "plus")
        geometry = block_map(driven).geometry
        for y, line in enumerate(say(driven).splitlines()):
            if (block := geometry.row_block(y)) is not None:
                assert int(line[: geometry.label]) == block
                assert geometry.block_of(geometry.items_at(geometry.label, y)[0]) == block


# -- flashes ----------------------------------------------------------------------------------------------


def flash(driven, session, *flashes: tuple[FlashKind, tuple[int, ...]]) -> None:
    """Have blocks flash in the next frame."""
    last = session.published.flashes[-1].serial if session.published.flashes else 0
    new = tuple(Flash(last + n, kind, blocks) for n, (kind, blocks) in enumerate(flashes, 1))
    session.published = dataclasses.replace(session.published, flashes=session.published.flashes + new)


async def test_a_flash_fades_and_then_nothing_is_drawn(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        app, found, now = driven.app, block_map(driven), [100.0]
        app._clock = lambda: now[0]
        await driven.settle()
        calm = say(driven)
        plain = found._grid.copy()
        assert not app.dashboard.animating
        flash(driven, session, (FlashKind.COPIED, (3,)), (FlashKind.PREEMPTED, (90,)))
        looks = []
        for _ in range(4):
            app.refresh_view()
            assert app.dashboard.animating
            differs = np.argwhere(found._grid != plain).tolist()
            columns, left = found.geometry.columns, found.geometry.label
            assert differs == [[0, left + 3], [90 // columns, left + 90 % columns]]
            looks.append(tuple(int(found._grid[y, x]) for y, x in differs))
            now[0] += 0.2
        assert len(set(looks)) == 4
        app.refresh_view()
        assert (found._grid == plain).all()
        assert not app.dashboard.animating
        assert say(driven) == calm


async def test_flashes_can_be_switched_off(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        found = block_map(driven)
        flash(driven, session, (FlashKind.COPIED, (3,)))
        view = dataclasses.replace(
            driven.app.view(session.status), snapshot=session.published, flashing=False
        )
        assert found.show(view) == []
        assert not found.animating


async def test_an_aggregated_cell_flashes(drive, many) -> None:
    async with drive(many, NORMAL) as driven:
        found = block_map(driven)
        plain = found._grid.copy()
        block = 40_000
        flash(driven, many, (FlashKind.PREEMPTED, (block, block + 1)))
        await driven.settle()
        y = found.geometry.row_of(block)
        assert np.flatnonzero((found._grid != plain).any(axis=1)).tolist() == [y]


# -- the mouse --------------------------------------------------------------------------------------------


async def test_what_is_under_the_mouse_is_said_until_it_leaves(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        found = block_map(driven)
        await driven.press("2")
        before = say(driven)
        state = session.published.blocks.state
        used = int(np.flatnonzero(state == BlockState.USED)[0])
        y, x = divmod(used, found.geometry.columns)
        await driven.pilot.hover("#map", offset=(found.geometry.label + x * found.geometry.tile, y))
        await driven.settle()
        assert f"block {used} · used" in driven.lines[found.region.y + y + 1]
        changed = state.copy()
        changed[used] = BlockState.FREE
        blocks = dataclasses.replace(session.published.blocks, state=changed)
        session.published = dataclasses.replace(session.published, blocks=blocks)
        await driven.settle()
        assert f"block {used} · free" in driven.text
        session.publish()
        await driven.pilot.hover("#header")
        await driven.settle()
        assert say(driven) == before


async def test_a_line_about_many_blocks_fits_at_the_edges(drive, many) -> None:
    async with drive(many, (60, 18)) as driven:
        found = block_map(driven)
        await driven.press("2")
        width, height = found.extent
        for at in ((10, 0), (width - 3, 2), (width - 3, height - 1), (10, height - 1)):
            await driven.pilot.hover("#map", offset=at)
            await driven.settle()
            items = found.geometry.items_at(*at)
            assert all(strip.cell_length == width for strip in found.strips)
            first = found.geometry.block_of(items[0]) if items else None
            assert (first is None) or f"blocks {first:,}-" in driven.text


async def test_a_second_click_selects_the_lower_of_two_half_cells(drive, make_session) -> None:
    async with drive(make_session(2000).run(60), NORMAL) as driven:
        found = block_map(driven)
        geometry = found.geometry
        assert geometry.half
        blocks = [geometry.block_of(item) for item in geometry.items_at(20, 4)]
        assert len(blocks) == 2
        for block in (*blocks, blocks[0]):
            # Clicks apart: two at once are a double click.
            found.on_click(events.Click(found, 20, 4, 0, 0, 1, False, False, False))
            await driven.settle()
            assert driven.app.selection.block == block


async def test_a_double_click_zooms_in(drive, many) -> None:
    async with drive(many, NORMAL) as driven:
        await driven.press("2")
        fit = block_map(driven).geometry
        under = fit.block_of(fit.items_at(40, 6)[0])
        await driven.pilot.double_click("#map", offset=(40, 6))
        await driven.settle()
        assert block_map(driven).geometry.each < fit.each
        assert block_map(driven).geometry.holds(under)


# -- what is lit, and in which colours --------------------------------------------------------------------


async def test_tags_and_selection_dim_the_rest(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        found = block_map(driven)
        keys = [RowKey(row.request, row.branch) for row in session.published.sequences[:2]]
        driven.app.set_tags(frozenset(keys))
        await driven.settle()
        lit = {int(block) for row in session.published.sequences[:2] for block in row.table}
        geometry = found.geometry
        for block in np.flatnonzero(session.published.blocks.state >= BlockState.USED).tolist():
            y, x = divmod(block, geometry.columns)
            ink = int(found._grid[y, geometry.label + x]) // SHAPES
            assert (ink == DIM) == (block not in lit)
        driven.app.set_tags(frozenset())
        await driven.settle()
        inks = found._grid[:, geometry.label :] // SHAPES
        assert not (inks[: len(found._grid) - 5] == DIM).any()


async def test_another_palette_is_drawn_at_once_even_under_the_same_name(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        found = block_map(driven)
        view = driven.app.view(session.status)
        before = found._tables
        assert found.show(view) == []
        again = dataclasses.replace(view, palette=dataclasses.replace(view.palette, track="#123456"))
        assert len(found.show(again)) == found.extent.height
        assert found._tables is not before
        assert "#123456" in {colour.name for colour in found._tables.tiles.colours}
        assert len(found.show(dataclasses.replace(again, glyphs=ASCII))) == found.extent.height
        assert say(driven).isascii()


async def test_without_colours_states_are_glyphs_and_the_cursor_is_reversed(
    drive, session, monkeypatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with drive(session, NORMAL) as driven:
        await driven.press("shift+tab", "right")
        console = Console(color_system="truecolor", force_terminal=True)
        strips = filter_strips(driven.app, block_map(driven).strips)
        ansi = "".join(strip.render(console) for strip in strips)
        assert "38;" not in ansi
        assert "48;" not in ansi
        assert ansi.count("7m") == 1  # the cursor
        assert set("abcdefgh") & set(say(driven))


@pytest.mark.parametrize("theme", ["dark", "16-colour", "mono"])
async def test_the_legend_is_there_in_every_theme_and_scale(drive, make_session, theme) -> None:
    for blocks in (512, 2000, MANY):
        async with drive(make_session(blocks).run(60), (60, 18)) as driven:
            driven.app.palette = load_palette(theme)
            await driven.press("2")
            assert "cached" in driven.lines[-3]


# -- what reaches the terminal ----------------------------------------------------------------------------

Cells = dict[tuple[int, int], tuple[str, str, str]]


def cells_of(ansi: str) -> list[tuple[str, str, str]]:
    """Character and colours of every cell."""
    console = Console(width=9999, color_system="truecolor", force_terminal=True)
    found = []
    for text, style, _ in Text.from_ansi(ansi).render(console):
        style = style or Style()
        found += [
            (character, str(style.color), str(style.bgcolor)) for character in text if character != "\n"
        ]
    return found


def write(screen: Cells, ansi: str) -> None:
    """Write as a terminal would: text with escape codes, from wherever the cursor is sent."""
    for y, x, text in re.findall(r"\x1b\[(\d+);(\d+)H(.*?)(?=\x1b\[\d+;\d+H|\Z)", ansi, re.DOTALL):
        for offset, cell in enumerate(cells_of(text)):
            screen[int(x) - 1 + offset, int(y) - 1] = cell


async def test_changes_leave_on_the_terminal_what_the_strips_show(drive, make_session, monkeypatch) -> None:
    session = make_session(3500).run(100)
    console = Console(color_system="truecolor", force_terminal=True)
    screen: Cells = {}
    written = []

    def painted(_, rows) -> None:
        mine = [row for row in rows if row[2] in found.strips]
        ansi = RowsUpdate(mine).render_segments(console)
        written.append(len(ansi))
        write(screen, ansi)

    async with drive(session, (200, 50)) as driven:
        found = block_map(driven)
        assert found.geometry.scale == Scale(1, 0)
        left, top = found.region.x, found.region.y
        write(screen, RowsUpdate([(left, top + y, strip) for y, strip in enumerate(found.strips)])
              .render_segments(console))  # fmt: skip
        # What Textual draws by itself is drawn here by the same means.
        monkeypatch.setattr("kvtop.ui.dashboard.screen.paint", painted)
        monkeypatch.setattr(
            found,
            "draw_rows",
            lambda rows: [write(screen, f"\x1b[{top + y + 1};{left + 1}H{found.strips[y].render(console)}")
                          for y in rows],
        )  # fmt: skip
        clock = [50.0]
        driven.app._clock = lambda: clock[0]
        random = np.random.default_rng(8)
        for step in range(60):
            clock[0] += 0.05
            session.advance()
            if step % 7 == 3:
                found._point((int(random.integers(8, 90)), int(random.integers(0, 12))))
            if step % 11 == 10:
                found._pointer = None  # what was said goes with the frame
            if step % 13 == 5:
                driven.app.select(Selection(None, int(random.integers(0, 3500))), draw=False)
            if step in (20, 40):
                found._zoom(1 if step == 20 else -1, 500)
            driven.app.refresh_view(force=True)
            for y, strip in enumerate(found.strips):
                row = [screen[left + x, top + y] for x in range(found.extent.width)]
                assert row == cells_of(strip.render(console)), (step, y)
        assert len(written) >= 55
        assert 0 < sorted(written)[len(written) // 2] < 3000
