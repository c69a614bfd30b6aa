"""The sequences table under the keys and the mouse: the cursor is on a sequence, whatever the rows do."""

from __future__ import annotations

import dataclasses

import pytest
from textual import events

from kvtop.memory.events import sequence_id
from kvtop.session import session as ses
from kvtop.ui.dialogs.choose import Choose, place_list
from kvtop.ui.dialogs.confirm import Confirm
from kvtop.ui.draw.glyphs import FOLDED, TAGGED, UNFOLDED
from kvtop.ui.frame.row import RowKey, TableOrder
from kvtop.ui.frame.view import Selection

SMALL, NORMAL = (80, 24), (120, 36)


def change(session, **fields) -> None:
    """Publish the same snapshot with a field of each sequence changed: a function of its place, each."""
    rows = [
        dataclasses.replace(row, **{name: make(place) for name, make in fields.items()})
        for place, row in enumerate(session.published.sequences)
    ]
    publish(session, rows)


def publish(session, rows) -> None:
    """From now on the snapshot has these sequences, whatever is selected."""
    session.published = dataclasses.replace(session.published, sequences=tuple(rows))
    session.publish = lambda: session.published


def only(session, *requests) -> None:
    """Publish these requests alone."""
    publish(session, [row for row in session.published.sequences if row.request in requests])


def keys(driven) -> list[RowKey]:
    return [row.key for row in driven.app.dashboard.view.rows]


def group_of(session) -> int:
    """A request with several sequences."""
    return next(row.request for row in session.published.sequences if row.n > 1)


def panel(driven) -> list[str]:
    """The table's own lines: its head, then the rows."""
    return [strip.text for strip in driven.app.dashboard.body("sequences").strips]


async def to_row(driven, key: RowKey) -> None:
    driven.app.select(Selection(key))
    await driven.settle()


# -- order ------------------------------------------------------------------------------------------------


async def test_a_column_is_chosen_from_a_list_and_named_in_head_and_heading(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("f6")
        assert isinstance(driven.app.screen, Choose)
        assert "✓ ARRIVAL" in driven.text
        await driven.press("b", "enter")
        assert driven.app.order == TableOrder(sort="blk")
        assert "sort BLK ▼" in driven.text
        assert "▼BLK SHR" in panel(driven)[0]
        rows = driven.app.dashboard.view.rows
        tops = [row.blocks for row in rows if not row.tree]
        assert tops == sorted(tops, reverse=True)
        await driven.press("I")
        assert "sort BLK ▲" in driven.text
        assert [row.blocks for row in driven.app.dashboard.view.rows if not row.tree] == sorted(tops)


@pytest.mark.parametrize("key", ["f6", "less_than_sign", "greater_than_sign"])
async def test_the_list_can_be_left(drive, session, key) -> None:
    async with drive(session, SMALL) as driven:
        await driven.press(key, "end", "escape")
        assert driven.app.order == TableOrder()
        assert driven.app.screen is driven.app.dashboard


async def test_the_list_is_moved_through_and_clicked(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("f6")
        choices = driven.app.screen.choices
        for key, place in (("down", 1), ("up", 0), ("up", 0), ("end", 11), ("home", 0), ("pagedown", 11)):
            await driven.press(key)
            assert choices.place == place
        await driven.press("s", "s", "s")  # STATE, STORED, SHR in turn
        assert choices.options[choices.place].label == "SHR"
        await driven.pilot.click("#choices", offset=(5, 2))
        await driven.settle()
        assert driven.app.order.sort == "id"
        await driven.press("f6")
        await driven.pilot.click(offset=(2, 2))
        await driven.settle()
        assert driven.app.screen is driven.app.dashboard
        assert driven.app.order.sort == "id"


def test_the_list_stands_beside_the_panel_or_over_it() -> None:
    from textual.geometry import Region, Size

    wanted = Size(40, 14)
    assert place_list(wanted, Region(50, 6, 70, 18), Size(120, 36)) == Region(10, 6, 40, 14)
    assert place_list(wanted, Region(0, 13, 80, 9), Size(80, 24)) == Region(0, 9, 40, 14)
    assert place_list(wanted, Region(0, 0, 0, 0), Size(30, 10)) == Region(0, 0, 30, 9)


async def test_a_click_on_a_head_sorts_and_a_second_one_inverts(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        head = panel(driven)[0]
        at = head.index("GEN") + 1
        await driven.pilot.click("#sequences", offset=(at, 0))
        await driven.settle()
        assert (driven.app.order.sort, driven.app.order.inverted) == ("gen", False)
        await driven.pilot.click("#sequences", offset=(at, 0))
        await driven.settle()
        assert (driven.app.order.sort, driven.app.order.inverted) == ("gen", True)
        assert "▲GEN" in panel(driven)[0]
        await driven.pilot.click("#sequences", offset=(3, 0))
        await driven.pilot.click("#sequences", offset=(head.index("TEXT"), 0))
        await driven.settle()
        assert (driven.app.order.sort, driven.app.order.inverted) == ("id", False)
        assert panel(driven)[0].startswith(" ▲ID")


# -- the cursor -------------------------------------------------------------------------------------------


async def test_the_cursor_stays_on_its_sequence_and_abort_acts_on_it_when_rows_sort_anew(
    drive, session
) -> None:
    change(session, generated_tokens=lambda place: place)
    async with drive(session, SMALL) as driven:
        await driven.press("f6", "g", "enter", "t", "home", "down")
        request, branch = driven.selected
        assert keys(driven).index((request, branch)) == 1
        change(session, generated_tokens=lambda place: -place)
        await driven.settle()
        assert driven.selected == (request, branch)
        assert keys(driven).index((request, branch)) == len(keys(driven)) - 2
        await driven.press("f9")
        assert f"Abort request {request} " in driven.text
        change(session, generated_tokens=lambda place: place)
        await driven.press("y")
        assert session.sent == [ses.Abort(sequence_id(request, branch))]


async def test_the_view_stays_when_the_cursors_row_goes_unless_it_is_followed(drive, session) -> None:
    change(session, generated_tokens=lambda place: place)
    async with drive(session, SMALL) as driven:
        table = driven.app.dashboard.body("sequences")
        await driven.press("t", "f6", "g", "enter", "home")
        change(session, generated_tokens=lambda place: -place)
        await driven.settle()
        assert table.state.top == 0
        await driven.press("F")
        assert table.state.top > 0
        assert f"following {driven.selected[0]}" in driven.text
        change(session, generated_tokens=lambda place: place)
        await driven.settle()
        assert table.state.top == 0
        await driven.press("down")
        assert not table.state.following
        await driven.press("up", "F", "F")
        change(session, generated_tokens=lambda place: -place)
        await driven.settle()
        assert table.state.top == 0
        await driven.press("up")  # the next key that moves the cursor brings it in sight
        assert table.state.top > 0


async def test_following_ends_with_its_sequence_and_needs_one(drive, session) -> None:
    async with drive(session, SMALL) as driven:
        await driven.press("F")
        assert "Select a sequence to follow" in driven.lines[-1]
        await driven.press("down", "F")
        request = driven.selected[0]
        only(session, *[row.request for row in session.published.sequences if row.request != request])
        await driven.settle()
        assert not driven.app.dashboard.body("sequences").state.following
        assert "following" not in driven.text


async def test_the_wheel_scrolls_without_the_cursor(drive, session) -> None:
    async with drive(session, SMALL) as driven:
        table = driven.app.dashboard.body("sequences")
        await driven.press("home")
        first = driven.selected
        await driven.pilot._post_mouse_events([events.MouseScrollDown], "#sequences")
        await driven.settle()
        assert table.state.top == 3
        assert driven.selected == first
        await driven.pilot._post_mouse_events([events.MouseScrollUp], "#sequences")
        await driven.settle()
        assert table.state.top == 0


async def test_a_click_selects_and_a_second_one_inspects(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.pilot.click("#sequences", offset=(10, 2))
        await driven.settle()
        assert driven.selected == keys(driven)[1]
        await driven.pilot.click("#sequences", offset=(10, 1), times=2)
        await driven.settle()
        assert driven.selected == keys(driven)[0]
        assert driven.app.selection.block == session.published.sequences[0].table[0]


async def test_quick_keys_are_not_lost(drive, session) -> None:
    async with drive(session, SMALL) as driven:
        await driven.pilot.press("home", "down", "down", "down")
        await driven.settle()
        assert driven.selected == keys(driven)[3]


# -- groups -----------------------------------------------------------------------------------------------


async def test_groups_fold_and_unfold_by_key(drive, session) -> None:
    group = group_of(session)
    async with drive(session, NORMAL) as driven:
        await to_row(driven, RowKey(group, 2))
        await driven.press("minus")
        assert driven.selected == (group, None)  # the branch is folded away
        assert [key for key in keys(driven) if key.request == group] == [(group, None)]
        assert any(line.startswith(f"{FOLDED} {group} ") for line in panel(driven))
        await driven.press("plus")
        assert len([key for key in keys(driven) if key.request == group]) == 4
        assert any(line.startswith(f"{UNFOLDED} {group} ") for line in panel(driven))
        await driven.press("home", "minus")
        assert driven.app.order.folded == frozenset()
        assert "Only a group" in driven.lines[-1]


async def test_a_click_on_the_sign_folds(drive, session) -> None:
    group = group_of(session)
    async with drive(session, NORMAL) as driven:
        place = keys(driven).index(RowKey(group, None))
        for folded in ({group}, set()):
            await driven.pilot.click("#sequences", offset=(0, place + 1))
            await driven.settle()
            assert driven.app.order.folded == folded
        await driven.pilot.click("#sequences", offset=(0, place + 2))  # a branch's colour is no sign
        await driven.settle()
        assert driven.app.order.folded == frozenset()


@pytest.mark.parametrize("key", ["f5", "t"])
async def test_the_tree_becomes_a_flat_list_and_back(drive, session, key) -> None:
    group = group_of(session)
    async with drive(session, NORMAL) as driven:
        await to_row(driven, RowKey(group, None))
        await driven.press(key)
        assert driven.selected == (group, 1)
        assert all(row.figures is None and not row.tree for row in driven.app.dashboard.view.rows)
        assert " sample " in driven.text
        await driven.press("minus")
        assert "Only a group" in driven.lines[-1]
        await driven.press(key)
        assert RowKey(group, None) in keys(driven)


async def test_the_fold_of_a_request_is_forgotten_with_it(drive, session) -> None:
    group = group_of(session)
    async with drive(session, NORMAL) as driven:
        await to_row(driven, RowKey(group, None))
        await driven.press("minus", "space")
        assert driven.app.order.folded == {group}
        assert driven.app.tags == {RowKey(group, None)}
        only(session, *[row.request for row in session.published.sequences if row.request != group])
        await driven.settle()
        assert driven.app.order.folded == frozenset()
        assert driven.app.tags == frozenset()


# -- tags -------------------------------------------------------------------------------------------------


async def test_space_tags_and_goes_on_and_U_untags(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("space")
        assert driven.app.tags == frozenset()  # the first one only puts the cursor somewhere
        await driven.press("space", "space", "down", "space")
        rows = keys(driven)
        assert driven.app.tags == {rows[0], rows[1], rows[3]}
        assert driven.selected == rows[4]
        marked = [line[1] == TAGGED for line in panel(driven)[1:5]]
        assert marked == [True, True, False, True]
        await driven.press("home", "space")
        assert driven.app.tags == {rows[1], rows[3]}
        await driven.press("U")
        assert driven.app.tags == frozenset()
        assert TAGGED not in driven.text


async def test_tagged_blocks_stay_lit(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("home", "space", "escape")
        assert driven.app.selection.row is None
        assert driven.app.dashboard.view.lit == {keys(driven)[0]}


async def test_abort_asks_for_all_tagged_requests_and_acts_on_these_ids(drive, session) -> None:
    group = group_of(session)
    async with drive(session, NORMAL) as driven:
        first, second = session.published.sequences[0].request, session.published.sequences[1].request
        driven.app.set_tags(
            frozenset([RowKey(second, 0), RowKey(group, 1), RowKey(group, 2), RowKey(first, 0)])
        )
        await driven.press("end", "f9")
        assert isinstance(driven.app.screen, Confirm)
        requests = sorted({first, second, group})
        asked = f"Abort requests {requests[0]}, {requests[1]} and {requests[2]} and free their blocks?"
        assert asked in " ".join(driven.text.replace("│", " ").split())
        driven.app.set_tags(frozenset([RowKey(session.published.sequences[-1].request, None)]))
        only(session, *[row.request for row in session.published.sequences if row.request != first])
        await driven.press("y")
        assert [command.sequence >> 16 for command in session.sent] == requests


async def test_one_tag_is_asked_for_by_its_id_rather_than_the_cursors(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("home", "space", "f9")
        first = session.published.sequences[0]
        assert f"Abort request {first.request} and free its blocks?" in driven.text
        await driven.press("n")
        assert session.sent == []


# -- what rows say ----------------------------------------------------------------------------------------


async def test_rows_say_why_they_wait_and_how_often_they_were_preempted(drive, session) -> None:
    states = ["swapped", "waiting", "running"]
    change(
        session,
        state=lambda place: states[min(place, 2)],
        wait_reason=lambda place: "needs 3 blocks" if place < 2 else "",
        preemptions=lambda place: 2,
        label=lambda place: "[red]x" if place == 2 else "",
    )
    async with drive(session, SMALL) as driven:
        driven.app.settings = dataclasses.replace(driven.app.settings, columns=("state", "blk"))
        await driven.settle()
        head, swapped, waiting, running = panel(driven)[:4]
        assert head.split() == ["ID", "STATE", "BLK", "TEXT"]
        assert "preempted 2×: needs 3 blocks" in swapped
        assert "preempted 2×: needs 3 blocks" in waiting
        assert "[red]x …" in running
        driven.app.settings = dataclasses.replace(driven.app.settings, columns=("pre", "stored", "max"))
        await driven.settle()
        assert panel(driven)[0].split() == ["ID", "PRE", "STORED", "MAX", "TEXT"]
        assert "preempted" not in panel(driven)[1]


async def test_a_group_names_its_kind(drive, session) -> None:
    group = group_of(session)
    async with drive(session, NORMAL) as driven:
        assert any(" 3 samples " in line for line in panel(driven))
        rows = [row for row in session.published.sequences if (row.request, row.branch) != (group, 3)]
        publish(session, rows)
        await driven.settle()
        assert any(" 2 of 3 samples" in line for line in panel(driven))
        change(session, n=lambda place: 1, beam_width=lambda place: 4)
        await driven.settle()
        assert any(" 2 beams " in line for line in panel(driven))
        change(session, beam_width=lambda place: 1)
        await driven.settle()
        assert any(" forked " in line for line in panel(driven))


async def test_owners_have_letters_where_they_have_no_hues(drive, session) -> None:
    from kvtop.ui.draw.palette import load_palette

    palette = dataclasses.replace(load_palette(), mono=True)
    async with drive(session, NORMAL, palette=palette) as driven:
        lines = panel(driven)
        assert "▌" not in "".join(lines)
        assert len({line[0] for line in lines[1:5]}) == 4
