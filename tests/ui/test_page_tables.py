"""The block tables: what their lines say, and where the cursor goes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from rich.cells import cell_len
from textual import events

from kvtop.timeline.snapshot import BlockColumns, SequenceRow
from kvtop.ui.draw.glyphs import ASCII
from kvtop.ui.draw.palette import load_palette
from kvtop.ui.frame.row import RowKey, TableOrder
from kvtop.ui.frame.rows import table_rows
from kvtop.ui.frame.view import Selection, View
from kvtop.ui.panels.tables.lines import PageLines, Place, legend, shown_rows

SIZE = 16
NORMAL = (120, 36)


def pool(refs: dict[int, int], fills: dict[int, int], number: int = 300) -> BlockColumns:
    """A pool of full blocks with one reference, but for some."""
    ref, fill = np.ones(number, np.int32), np.full(number, SIZE, np.int32)
    for column, values in ((ref, refs), (fill, fills)):
        for block, value in values.items():
            column[block] = value
    zeros = np.zeros(number, np.int32)
    return BlockColumns(np.full(number, 2, np.uint8), ref, zeros, fill, zeros > 0, zeros)


def sequence(request: int, table: list[int], branch: int = 0, **fields) -> SequenceRow:
    values = {
        "id": request << 16 | branch, "name": f"{request}.{branch}" if branch else str(request),
        "request": request, "branch": branch, "label": "", "state": "running", "wait_reason": "",
        "prompt_tokens": 40, "generated_tokens": 1, "stored_tokens": 40, "max_new_tokens": 9, "n": 1,
        "beam_width": 1, "blocks": len(table), "on_host": False, "shared_blocks": 0, "waste_slots": 0,
        "prefix_hit_tokens": 0, "preemptions": 0, "table": np.array(table, np.int32), "tail": (),
    }  # fmt: skip
    return SequenceRow(**values | fields)


@pytest.fixture
def view(session) -> View:
    """Two samples that share two blocks, one alone, one on the host, one that waits."""
    sequences = (
        sequence(1, [10, 11, 12], 1, n=2),
        sequence(1, [10, 11, 13], 2, n=2),
        sequence(2, [250, 11]),
        sequence(3, [5, 6], state="swapped", on_host=True, wait_reason="waits for 2 free blocks"),
        sequence(4, [], state="waiting", wait_reason="needs 3 blocks, 0 free"),
    )
    blocks = pool({10: 2, 11: 3, 250: 12}, {12: 7, 13: 1})
    snapshot = dataclasses.replace(
        session.published, blocks=blocks, host=pool({}, {6: 3}, 8), sequences=sequences
    )
    return View(
        status=session.current,
        palette=load_palette(),
        decode=session.text,
        snapshot=snapshot,
        rows=table_rows(snapshot),
    )


def text(line) -> str:
    return "".join(part for part, _ in line)


def styles(line, lines: PageLines) -> dict[int, str]:
    """Foreground and background of every entry, by logical index."""
    flat = [style for part, style in line for _ in part]
    found = {}
    for column in range(lines.columns):
        style = flat[lines.start + column * lines.cell + lines.cell - 2]
        found[lines.left + column] = f"{style.color.name} {style.bgcolor.name}"
    return found


def test_rows_say_whose_table_it_is_and_the_blocks_in_it(view: View) -> None:
    lines = PageLines(view, 50)
    assert (lines.start, lines.cell, lines.columns) == (19, 4, 7)
    assert text(lines.head()) == "  ID    STATE BLK │  0   1   2   3   4   5   6    "
    found = [text(lines.row(row)) for row in shown_rows(view.rows)]
    assert [line.rstrip() for line in found] == [
        "▌ ├ 1.1 RUN     3 │ 10  11  12▄ 7/16",
        "▌ └ 1.2 RUN     3 │ 10  11  13▁ 1/16",
        "▌ 2     RUN     2 │250  11",
        "▌ 3     SWAP   2h │  5h  6h 3/16  waits for 2 fre…",
        "▌ 4     WAIT    - │ needs 3 blocks, 0 free",
    ]
    assert {cell_len(line) for line in found} == {50}


def test_rows_go_without_what_has_no_room(view: View) -> None:
    for width in range(26, 60):
        lines = PageLines(view, width)
        for row in shown_rows(view.rows):
            line = text(lines.row(row))
            assert cell_len(line) == width
            assert "7/1 " not in line


def test_reference_counts_are_colours(view: View) -> None:
    lines, palette = PageLines(view, 50), view.palette
    rows = shown_rows(view.rows)
    first, third = styles(lines.row(rows[0]), lines), styles(lines.row(rows[2]), lines)
    ground = palette.background
    assert [first[at] for at in range(3)] == [f"{palette.refs[at]} {ground}" for at in (1, 2, 0)]
    assert third[0] == f"{palette.refs[3]} {ground}"
    assert styles(lines.row(rows[3]), lines)[0] == f"{palette.warning} {ground}"


def test_reference_counts_are_written_where_there_are_no_colours(view: View) -> None:
    lines = PageLines(dataclasses.replace(view, palette=load_palette("mono"), glyphs=ASCII), 60, figures=True)
    found = [text(lines.row(row)).rstrip() for row in shown_rows(view.rows)]
    assert found[0] == "K ├ 1.1 RUN     3 │ 10:2  11:3  12-   7/16"
    assert found[2] == "C 2     RUN     2 │250:+  11:3"
    assert found[3].startswith("D 3     SWAP   2h │  5h    6h   3/16")


def test_the_selected_block_is_marked_in_all_rows_and_the_cursor_in_one(view: View) -> None:
    key = RowKey(1, 2)
    chosen = dataclasses.replace(view, selection=Selection(key, 11))
    lines = PageLines(chosen, 50, cursor=Place(key, 1))
    rows, palette = shown_rows(view.rows), view.palette
    found = [styles(lines.row(row), lines)[1] for row in rows[:4]]
    same = f"{palette.background} {palette.shared}"
    assert found[:3] == [same, f"{palette.background} {palette.cursor}", same]
    assert same not in styles(lines.row(rows[3]), lines).values()


def test_a_lit_column_is_marked_in_its_index_and_in_all_rows(view: View) -> None:
    lines, palette = PageLines(view, 50, lit=1), view.palette
    for row in shown_rows(view.rows)[:4]:
        grounds = [style.split()[1] for style in styles(lines.row(row), lines).values()]
        assert grounds == [palette.background, palette.row] + [palette.background] * 5
    assert styles(lines.head(), lines)[1].endswith(palette.match)


def test_a_window_shows_its_part_of_every_table(view: View) -> None:
    lines = PageLines(view, 50, left=2)
    assert text(lines.head()).split()[4:] == ["2", "3", "4", "5", "6", "7", "8"]
    found = [text(lines.row(row)).partition("│")[2].split() for row in shown_rows(view.rows)]
    assert found[:3] == [["12▄", "7/16"], ["13▁", "1/16"], ["‹"]]
    assert lines.place_at(lines.start - 1) is None
    assert lines.place_at(lines.start + lines.cell) == 3
    assert lines.place_at(lines.start + lines.cell * lines.columns) is None


def test_host_blocks_keep_a_gap(view: View) -> None:
    long = sequence(3, [100, 101], on_host=True, state="swapped")
    snapshot = dataclasses.replace(view.snapshot, sequences=(long,), host=pool({}, {}, 200))
    wide = dataclasses.replace(view, snapshot=snapshot, rows=table_rows(snapshot))
    assert " 100h 101h" in text(PageLines(wide, 50).row(wide.rows[0]))


def test_a_group_has_a_line_only_when_its_branches_have_none(view: View) -> None:
    assert [row.name for row in shown_rows(view.rows)] == ["1.1", "1.2", "2", "3", "4"]
    folded = table_rows(view.snapshot, TableOrder(folded=frozenset({1})))
    rows = shown_rows(folded)
    assert [row.name for row in rows] == ["1", "2", "3", "4"]
    assert "2 tables folded" in text(PageLines(view, 50).row(rows[0]))


def test_the_legend_fits(view: View) -> None:
    for figures in (False, True):
        for room in range(20, 100):
            assert sum(len(part) for part, _ in legend(view, figures=figures, room=room)) <= room
        assert legend(view, figures=figures, room=40)


# -- in the dashboard -------------------------------------------------------------------------------------


def table(driven, place: int) -> np.ndarray:
    return shown_rows(driven.app._rows)[place].sequences[0].table


async def test_arrows_move_by_cells_and_select_row_and_block(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        body = driven.app.dashboard.body("tables")
        await driven.press("3", "right")
        rows = shown_rows(driven.app._rows)
        assert driven.app.selection == Selection(rows[0].key, int(table(driven, 0)[0]))
        await driven.press("right", "right", "down")
        assert driven.app.selection == Selection(rows[1].key, int(table(driven, 1)[2]))
        assert session.selected["block"] == int(table(driven, 1)[2])
        assert f"Selected: block {table(driven, 1)[2]}" in driven.text
        await driven.press("end")
        assert driven.app.selection.block == int(table(driven, 1)[-1])
        assert body.state.left == len(table(driven, 1)) - body._drawn.columns
        await driven.press("right")
        assert driven.app.selection.block == int(table(driven, 1)[-1])
        await driven.press("home", "left")
        assert driven.app.selection.block == int(table(driven, 1)[0])
        assert body.state.left == 0
        await driven.press("pagedown", "pagedown")
        assert driven.app.selection.row == rows[-1].key


async def test_a_short_row_does_not_pull_the_cursor_to_the_left(drive, session) -> None:
    lengths = (9, 3, 8)
    sequences = tuple(sequence(n, list(range(10 * n, 10 * n + size))) for n, size in enumerate(lengths, 1))
    session.published = dataclasses.replace(session.published, sequences=sequences)
    session.select = lambda **wanted: None
    async with drive(session, NORMAL) as driven:
        await driven.press("3", "right", *["right"] * 6)
        assert driven.app.selection.block == 16
        await driven.press("down")
        assert driven.app.selection.block == 22
        await driven.press("down")
        assert driven.app.selection.block == 36
        await driven.press("up", "left", "down")
        assert driven.app.selection.block == 31


async def test_the_cursor_stays_with_its_sequence_when_rows_move(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("3", "right", "down", "down")
        before = driven.app.selection
        session.sequences = session.sequences[5:] + session.sequences[:5]
        session.publish()
        await driven.settle()
        assert driven.app.selection == before
        await driven.press("down")
        keys = [row.key for row in shown_rows(driven.app._rows)]
        assert driven.app.selection.row == keys[keys.index(before.row) + 1]


async def test_the_cursor_stays_with_its_entry_when_a_copy_takes_the_block(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("3", "right", "right")
        row, old = driven.app.selection.row, driven.app.selection.block
        changed = next(s for s in session.sequences if s.request == row.request and s.branch == row.branch)
        changed.table[1] = 400 if old != 400 else 401
        session.publish()
        await driven.settle()
        assert driven.app.selection == Selection(row, changed.table[1])


async def test_a_block_selected_elsewhere_is_not_taken_back(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("3", "right", "right")
        other = int(table(driven, 0)[5])
        driven.app.select(Selection(driven.app.selection.row, other))
        await driven.settle()
        await driven.press("down")
        assert driven.app.selection.block == int(table(driven, 1)[5])
        await driven.press("up", "right")
        assert driven.app.selection.block == int(table(driven, 0)[6])


async def test_the_mouse_selects_cells_rows_and_columns(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        body = driven.app.dashboard.body("tables")
        await driven.press("3")
        x = body._drawn.start + 3 * body._drawn.cell
        await driven.pilot.click("#tables", offset=(x, 3))
        await driven.settle()
        rows = shown_rows(driven.app._rows)
        assert driven.app.selection == Selection(rows[2].key, int(table(driven, 2)[3]))
        await driven.pilot.click("#tables", offset=(x + body._drawn.cell, 0))
        await driven.settle()
        assert body.state.column == 4
        assert driven.app.selection.block == int(table(driven, 2)[4])
        await driven.press("escape")
        assert body.state.column is None
        assert driven.app.selection.block is not None
        await driven.pilot.click("#tables", offset=(3, 1))
        await driven.settle()
        assert driven.app.selection == Selection(rows[0].key, None)


async def test_the_wheel_scrolls_both_ways_and_leaves_the_cursor(drive, session) -> None:
    async with drive(session, (80, 24)) as driven:
        body = driven.app.dashboard.body("tables")
        await driven.press("3", "right")
        before = driven.app.selection
        await driven.pilot._post_mouse_events([events.MouseScrollDown], "#tables", offset=(5, 2))
        await driven.settle()
        assert (body.state.top, body.state.left) == (3, 0)
        await driven.pilot._post_mouse_events([events.MouseScrollDown], "#tables", offset=(5, 2), shift=True)
        await driven.pilot._post_mouse_events([events.MouseScrollRight], "#tables", offset=(5, 2))
        await driven.settle()
        assert (body.state.top, body.state.left) == (3, 6)
        assert driven.app.selection == before
        await driven.press("right")
        assert (body.state.top, body.state.left) == (0, 1)


async def test_enter_goes_on_to_the_block_in_the_inspector(drive, session) -> None:
    async with drive(session, (60, 18)) as driven:
        await driven.press("3", "enter")
        assert driven.app.selection.block == int(table(driven, 0)[0])
        assert driven.app.dashboard.panel == "inspector"
        assert f"Selected: block {driven.app.selection.block}" in driven.text


async def test_tags_are_put_on_from_here_too(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("3", "right", "space")
        first, second = shown_rows(driven.app._rows)[:2]
        assert driven.app.tags == {first.key}
        assert driven.app.selection.row == second.key
        assert "◆" in driven.text
        await driven.press("U")
        assert not driven.app.tags


@pytest.mark.parametrize("size", [(60, 18), (80, 24), (200, 50)])
@pytest.mark.parametrize("blocks", [64, 512])
async def test_every_size_shows_whole_lines(drive, make_session, size, blocks) -> None:
    async with drive(make_session(blocks).run(200), size) as driven:
        await driven.press("3", "down", "end")
        assert all(cell_len(line) == size[0] for line in driven.lines)
        assert "Block tables" in driven.text
        assert any(str(block) in driven.text for block in table(driven, 0).tolist())
