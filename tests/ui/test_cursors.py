"""How the dashboard's cursors behave: selecting, moving, letting go."""

from __future__ import annotations

import numpy as np

from kvtop.ui.panels.map.looks import DIM, SHAPES
from tests.ui.fake_session import row_of

NORMAL = (120, 36)


async def test_a_selected_sequence_lights_its_blocks_and_dims_the_rest(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        block_map = driven.app.dashboard.body("map")
        await driven.press("down")
        key = driven.app.selection.row
        tables = [row.table for row in session.published.sequences if row.request == key.request]
        mine = {int(block) for table in tables for block in table}
        geometry, grid = block_map.geometry, block_map._grid
        state = session.published.blocks.state
        for block in np.flatnonzero(state >= 2).tolist():
            row, column = divmod(block, geometry.columns)
            ink = int(grid[row, geometry.label + column * geometry.tile]) // SHAPES
            assert (ink == DIM) == (block not in mine)
        await driven.press("escape")
        assert driven.app.selection.row is None


async def test_the_cursor_stays_on_its_sequence_when_rows_move(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("down", "down", "down")
        before = driven.selected
        place = driven.app.dashboard.body("sequences")._place
        session.sequences = session.sequences[5:] + session.sequences[:5]
        session.publish()
        await driven.settle()
        assert driven.selected == before
        assert driven.app.dashboard.body("sequences")._place != place


async def test_a_sequence_that_leaves_is_let_go_and_named(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("end")
        request, branch = driven.selected
        session.sequences = [s for s in session.sequences if (s.request, s.branch) != (request, branch)]
        session.publish()
        await driven.settle()
        assert driven.selected is None
        assert f"{request}" in driven.lines[-1]
        assert "has left" in driven.lines[-1]
        await driven.press("p")
        assert session.sent == []


async def test_a_group_that_shrank_to_one_stays_selected(drive, session) -> None:
    group = next(s for s in session.sequences if s.n > 1)
    async with drive(session, NORMAL) as driven:
        await driven.press("home")
        while driven.selected != (group.request, None):
            await driven.press("down")
        keep = [s for s in session.sequences if s.request == group.request][-1]
        session.sequences = [s for s in session.sequences if s.request != group.request or s is keep]
        session.publish()
        await driven.settle()
        assert driven.selected == (group.request, keep.branch)


async def test_home_end_and_pages_move_the_cursor(drive, session) -> None:
    async with drive(session, (80, 24)) as driven:
        rows = [row.key for row in driven.app._rows]
        await driven.press("end")
        assert driven.app.selection.row == rows[-1]
        await driven.press("pageup")
        assert driven.app.selection.row == rows[-1 - driven.app.dashboard.body("sequences").page()]
        await driven.press("home")
        assert driven.app.selection.row == rows[0]
        await driven.press("pagedown")
        assert driven.app.selection.row == rows[driven.app.dashboard.body("sequences").page()]
        await driven.press("up")
        assert driven.app.selection.row == rows[driven.app.dashboard.body("sequences").page() - 1]


async def test_a_selected_block_shows_owners_tokens_and_life(drive, session) -> None:
    shared = int(np.flatnonzero(session.published.blocks.ref_count > 2)[0])
    async with drive(session, (120, 60)) as driven:
        columns = driven.app.dashboard.body("map").geometry.columns
        await driven.press("shift+tab", "right")
        assert driven.app.selection.block == 0
        await driven.press(*["right"] * (shared % columns), *["down"] * (shared // columns))
        assert driven.app.selection.block == shared
        assert session.selected["block"] == shared
        assert f"Selected: block {shared}" in driven.text
        detail = session.published.block_detail
        assert f"ref count {detail.ref_count}" in driven.text
        for owner in detail.owners[:3]:
            assert f"{owner.name}[{owner.logical}]" in driven.text
        assert f"“{session.text(detail.token_ids[:3])}" in driven.text
        assert "allocated" in driven.text
        assert "◂" in row_of(driven.lines, detail.owners[0].name)
        await driven.press("escape")
        assert driven.app.selection.block is None


async def test_arrows_move_the_block_cursor_by_rows_and_stop_at_the_edges(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        columns = driven.app.dashboard.body("map").geometry.columns
        await driven.press("shift+tab", "down", "down")
        assert driven.app.selection.block == columns
        await driven.press("up", "up", "left")
        assert driven.app.selection.block == 0
        await driven.press("end")
        assert driven.app.selection.block == 511
        await driven.press("right", "down")
        assert driven.app.selection.block == 511
        await driven.press("home")
        assert driven.app.selection.block == 0


async def test_the_mouse_selects_blocks_and_sequences(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        geometry = driven.app.dashboard.body("map").geometry
        await driven.pilot.click("#map", offset=(geometry.label + 3, 2))
        await driven.settle()
        assert driven.app.selection.block == 2 * geometry.columns + 3
        await driven.pilot.click("#sequences", offset=(4, 2))
        await driven.settle()
        assert driven.app.selection.row == driven.app._rows[1].key


async def test_enter_goes_from_sequence_to_block_and_back(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("down", "enter")
        first = session.published.sequences[0]
        assert driven.app.selection.block == int(first.table[0])
        await driven.press("enter")
        owner = session.published.block_detail.owners[0]
        assert driven.selected == (owner.sequence >> 16, owner.sequence & 0xFFFF)
        assert driven.app.focused is driven.app.dashboard.body("sequences")


async def test_tab_goes_round_the_panels(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        seen = [driven.app.dashboard.panel]
        for _ in range(4):
            await driven.press("tab")
            seen.append(driven.app.dashboard.panel)
        assert seen == ["sequences", "log", "inspector", "map", "sequences"]
        await driven.press("shift+tab")
        assert driven.app.dashboard.panel == "map"


async def test_the_log_can_be_scrolled_and_stays_where_it_is(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        log = driven.app.dashboard.bodies["log"]
        await driven.press("tab", "up", "up")
        assert log.state.at is not None
        kept = [strip.text for strip in log.strips]
        session.advance()
        await driven.settle()
        assert [strip.text for strip in log.strips] == kept
        assert "End for the newest" in driven.text
        await driven.press("end")
        assert log.state.at is None
