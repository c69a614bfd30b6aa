"""Filter and search: a line of input over the running screen."""

from __future__ import annotations

import dataclasses

import pytest
from textual import events

from kvtop.session import session as ses
from kvtop.ui.commands.actions import BY_ID, Action
from kvtop.ui.dialogs.line_input import LineInput, LineKey, one_line
from kvtop.ui.draw.glyphs import FOUND
from kvtop.ui.frame.row import RowKey
from kvtop.ui.frame.view import Selection
from kvtop.ui.parts import overlay

SMALL, NORMAL = (80, 24), (120, 36)


@pytest.fixture
def session(make_session):
    """Ten sequences that never change: 1 to 10, every third with a label, none with the words of another."""
    session = make_session().run(300)
    rows = [
        dataclasses.replace(
            session.published.sequences[0],
            id=n << 16,
            request=n,
            name=str(n),
            tail=(n,),
            label="draft" if n % 3 == 0 else "",
        )
        for n in range(1, 11)
    ]
    session.vocabulary = {n: f"word{n} of text" for n in range(1, 11)}
    session.published = dataclasses.replace(session.published, sequences=tuple(rows))
    session.publish = lambda: session.published
    return session


def shown_requests(driven) -> list[int]:
    return [row.key.request for row in driven.app.dashboard.view.rows]


async def type_keys(driven, *keys: str) -> None:
    """Press keys in a row, and draw once."""
    await driven.pilot.press(*keys)
    await driven.settle()


async def search(driven, text: str) -> None:
    await driven.press("f3")
    await type_keys(driven, *text)


def panel(driven) -> list[str]:
    return [strip.text for strip in driven.app.dashboard.body("sequences").strips]


# -- filter -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["f4", "backslash"])
async def test_a_filter_hides_as_one_types_and_enter_keeps_it(drive, session, key) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press(key)
        assert isinstance(driven.app.screen, LineInput)
        assert "Filter:" in driven.lines[-1]
        await driven.press("d", "r")
        assert shown_requests(driven) == [3, 6, 9]
        assert driven.lines[-1].rstrip().endswith("3 of 10")
        await driven.press("enter")
        assert driven.app.screen is driven.app.dashboard
        assert shown_requests(driven) == [3, 6, 9]
        assert "Sequences (3 of 10)" in driven.text
        assert "filter “dr”" in driven.text
        assert "F4" in driven.lines[-1]
        await driven.press("down", "down")
        assert driven.selected == (6, 0)


async def test_esc_in_the_line_clears_the_filter(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("f4", "7", "enter", "f4")
        assert "Filter: 7" in driven.lines[-1]
        await driven.press("escape")
        assert driven.app.order.filter == ""
        assert len(shown_requests(driven)) == 10
        assert "Sequences (10)" in driven.text
        assert driven.app.screen is driven.app.dashboard


async def test_a_filter_without_a_match_says_so_and_how_to_end_it(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("f4", "z", "[", "b", "]")
        assert "0 of 10" in driven.lines[-1]
        await driven.press("enter")
        assert "nothing matches “z[b]”: F4, then Esc, shows all again" in driven.text


async def test_a_cursor_that_the_filter_hides_goes_to_the_row_in_its_place(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        driven.app.select(Selection(RowKey(2, 0)))
        await driven.press("f4")
        await type_keys(driven, *"word10")
        assert driven.selected == (10, 0)
        await driven.press("escape")
        assert driven.selected == (10, 0)


async def test_a_sequence_that_stops_matching_is_let_go_and_named(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("f4")
        await type_keys(driven, *"word5", "enter")
        await driven.press("down")
        assert driven.selected == (5, 0)
        session.vocabulary[5] = "else"
        driven.app._tail_text.cache_clear()
        await driven.settle()
        assert driven.selected is None
        assert "5 is filtered out now" in driven.lines[-1]
        await driven.press("f9")
        assert session.sent == []


async def test_the_arrows_move_the_cursor_while_one_types(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("f4")
        await type_keys(driven, *"draft")
        await driven.press("down", "down")
        assert driven.selected == (6, 0)
        await driven.press("pagedown", "up")
        assert driven.selected == (6, 0)
        assert isinstance(driven.app.screen, LineInput)


# -- search -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["f3", "slash"])
async def test_a_search_goes_to_the_first_match_and_hides_nothing(drive, session, key) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press(key)
        await type_keys(driven, *"draft")
        assert driven.selected == (3, 0)
        assert shown_requests(driven) == list(range(1, 11))
        assert driven.app.matches == {RowKey(3, 0), RowKey(6, 0), RowKey(9, 0)}
        assert driven.app.dashboard.view.lit == driven.app.matches
        assert [n for n, line in enumerate(panel(driven)) if line[1:2] == FOUND] == [3, 6, 9]
        assert driven.lines[-1].rstrip().endswith("1 of 3")
        assert "search “draft”" in driven.text


async def test_a_search_begins_at_the_cursor(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        driven.app.select(Selection(RowKey(4, 0)))
        await search(driven, "dra")
        assert driven.selected == (6, 0)
        await type_keys(driven, *["backspace"] * 3, *"word10")
        assert driven.selected == (10, 0)
        await type_keys(driven, *["backspace"] * 6, *"word1 ")
        assert driven.selected == (1, 0)  # from where the search began, round the end


async def test_next_and_previous_go_round_inside_the_line_and_after_it(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await search(driven, "draft")
        for key, request in (("f3", 6), ("f3", 9), ("f3", 3), ("shift+f3", 9), ("f15", 6)):
            await driven.press(key)
            assert driven.selected == (request, 0)
        await driven.press("enter")
        assert driven.app.screen is driven.app.dashboard
        await driven.press("f3")
        assert driven.selected == (9, 0)
        assert "Search: draft" in driven.lines[-1]
        await driven.press("f3", "enter")
        assert driven.selected == (3, 0)
        for key, request in (("shift+f3", 9), ("f15", 6)):
            await driven.press(key)
            assert driven.selected == (request, 0)


async def test_a_new_text_takes_the_place_of_the_old_one(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await search(driven, "draft")
        await driven.press("enter")
        await search(driven, "word8")
        assert driven.app.order.search == "word8"
        assert driven.selected == (8, 0)


@pytest.mark.parametrize("inside", [True, False])
async def test_esc_ends_a_search_and_the_cursor_stays(drive, session, inside) -> None:
    async with drive(session, NORMAL) as driven:
        await search(driven, "draft")
        await driven.press(*([] if inside else ["enter"]), "escape")
        assert driven.app.screen is driven.app.dashboard
        assert driven.app.order.search == ""
        assert driven.app.matches == frozenset()
        assert driven.selected == (3, 0)
        assert not any(FOUND in strip.text for strip in driven.app.dashboard.body("sequences").strips)
        await driven.press("escape")
        assert driven.selected is None


async def test_no_match_is_said_in_the_line(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await search(driven, "zzz")
        assert driven.lines[-1].rstrip().endswith("no match")
        assert driven.app.matches == frozenset()
        await driven.press("f3", "enter")
        assert driven.selected is None


async def test_matches_come_and_go_with_what_is_shown(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await search(driven, "draft")
        await driven.press("enter")
        rows = [dataclasses.replace(row, label="draft") for row in session.published.sequences[:5]]
        session.published = dataclasses.replace(session.published, sequences=tuple(rows))
        await driven.settle()
        assert {key.request for key in driven.app.matches} == {1, 2, 3, 4, 5}


async def test_a_search_from_the_map_brings_the_table(drive, session) -> None:
    async with drive(session, (60, 18)) as driven:
        assert driven.app.dashboard.panel == "map"
        await search(driven, "word7")
        await driven.press("enter")
        assert driven.app.dashboard.panel == "sequences"
        assert driven.selected == (7, 0)
        assert any("7 " in line and FOUND in line for line in driven.lines)


# -- the line ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pasted", "line"),
    [
        ("plain", "plain"), (" a\r\nb\n\tc\n", "a b c"), ("\x1b[31mq\x00k\x7f", "[31mqk"), ("\n\x1b\n", ""),
        ("[b]ü 東", "[b]ü 東"), ("\u202eabc\u200b", "abc"),
    ],
)  # fmt: skip
def test_pasted_text_is_one_line_without_controls(pasted: str, line: str) -> None:
    assert one_line(pasted) == line


async def test_a_paste_goes_into_the_line_and_does_nothing_else(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("f4", "x", "home")
        driven.app.post_message(events.Paste("q\x1bk\nZ[/]"))
        await driven.settle()
        assert driven.app.order.filter == "qk Z[/]x"
        assert "Filter: qk Z[/]x" in driven.lines[-1]
        assert isinstance(driven.app.screen, LineInput)
        assert session.sent == []
        assert driven.app.is_running
        driven.app.post_message(events.Paste("\x1b\n"))
        await driven.settle()
        assert driven.app.order.filter == "qk Z[/]x"


async def test_keys_of_the_dashboard_are_text_in_the_line(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("f4")
        await type_keys(driven, *"qaknZ", "space", "U")
        assert driven.app.order.filter == "qaknZ U"
        assert session.sent == []
        assert driven.app.is_running


async def test_the_line_can_be_clicked(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await search(driven, "draft")
        await driven.pilot.click(offset=(driven.lines[-1].index("Next"), 35))
        await driven.settle()
        assert driven.selected == (6, 0)
        await driven.pilot.click(offset=(driven.lines[-1].index("Done"), 35))
        await driven.settle()
        assert driven.app.screen is driven.app.dashboard
        assert driven.app.order.search == "draft"
        await driven.press("f3")
        await driven.pilot.click(offset=(driven.lines[-1].index("Clear"), 35))
        await driven.settle()
        assert driven.app.order.search == ""
        await driven.press("f4", "7")
        await driven.pilot.click(offset=(60, 10))
        await driven.settle()
        assert driven.app.screen is driven.app.dashboard
        assert driven.app.order.filter == "7"


def test_keys_of_an_action_that_are_characters_belong_to_the_text() -> None:
    def keys(action: Action) -> tuple[tuple[str, ...], str]:
        key = LineKey.of(action, "Next", print)
        return key.keys, key.label

    assert keys(BY_ID["search"]) == (("f3",), "F3")
    assert keys(BY_ID["previous_match"]) == (("shift+f3", "f15"), "S-F3")
    mapped = dataclasses.replace(BY_ID["search"], keys=("g", "space", "slash", "ctrl+g"))
    assert keys(mapped) == (("ctrl+g",), "^G")
    assert keys(dataclasses.replace(mapped, keys=("g",))) == ((), "")


async def test_a_narrow_line_keeps_room_to_type(drive, session) -> None:
    async with drive(session, (60, 18)) as driven:
        await search(driven, "draft")
        assert "Search: draft" in driven.lines[-1]
        assert "Clear" in driven.lines[-1]
        assert driven.lines[-1].rstrip().endswith("1 of 3")


async def test_the_screen_goes_on_under_the_line(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("f4", "7")
        session.published = dataclasses.replace(session.published, step=4321)
        await driven.settle()
        assert "4,321" in driven.lines[0]
        await driven.pilot.resize_terminal(80, 24)
        await driven.settle()
        assert "Filter: 7" in driven.lines[-1]
        assert len(driven.lines) == 24


async def test_rows_go_straight_to_the_terminal_beside_a_line_and_not_over_a_dialog(
    drive, session, monkeypatch
) -> None:
    from kvtop.ui.dashboard import screen as dashboard

    painted: list[int] = []
    monkeypatch.setattr(dashboard, "paint", lambda screen, rows: painted.extend(y for _, y, _ in rows))
    async with drive(session, NORMAL) as driven:

        def draw_all() -> set[int]:
            painted.clear()
            for part in driven.app.dashboard.parts:
                part._lines = []
            driven.app.dashboard.key_bar._key = ()
            driven.app.refresh_view(force=True)
            return set(painted)

        assert 35 in draw_all()
        await driven.press("f4")
        drawn = draw_all()
        assert drawn
        assert 35 not in drawn
        await driven.press("escape", "home", "f9")
        assert draw_all() == set()


def test_what_lies_beside_an_overlay_is_cut_out() -> None:
    from rich.segment import Segment
    from textual.geometry import Region
    from textual.strip import Strip

    strip = Strip([Segment("abcdefgh")], 8)

    def seen(x: int, y: int) -> list[tuple[int, int, str]]:
        return [(x, y, piece.text) for x, y, piece in overlay.uncovered((x, y, strip), Region(10, 5, 4, 2))]

    assert seen(8, 5) == [(8, 5, "ab"), (14, 5, "gh")]
    assert seen(8, 7) == [(8, 7, "abcdefgh")]
    assert seen(2, 6) == [(2, 6, "abcdefgh")]
    assert seen(6, 6) == [(6, 6, "abcd")]
    assert seen(12, 6) == [(14, 6, "cdefgh")]
    assert seen(14, 6) == [(14, 6, "abcdefgh")]


async def test_a_command_can_still_be_given_after_a_line_was_left(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        await driven.press("f4", "7", "enter", "n")
        assert session.sent == [ses.StepOnce()]
