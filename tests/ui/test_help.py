"""The help: every key, on pages, found by searching."""

from __future__ import annotations

import pytest

from kvtop.ui.commands.actions import ACTIONS, BY_ID, key_label
from kvtop.ui.commands.help import found, key_page, pages
from kvtop.ui.dialogs.help import Help


def test_the_key_page_has_every_action_once() -> None:
    entries = [entry for _, entries in key_page(ACTIONS).sections for entry in entries]
    assert sorted(entry.text for entry in entries) == sorted(action.help for action in ACTIONS)
    assert {entry.term for entry in entries} == {" ".join(map(key_label, a.keys)) for a in ACTIONS}


def test_a_search_finds_all_words_in_any_case_on_all_pages() -> None:
    page = found(pages(ACTIONS), "HOST memory")
    texts = [entry.text for _, entries in page.sections for entry in entries]
    assert texts
    assert all("host memory" in text for text in texts)
    assert {name for name, _ in page.sections} >= {"Sequence", "Memory"}
    assert found(pages(ACTIONS), "no such words").sections == ()


@pytest.mark.parametrize("key", BY_ID["help"].keys)
async def test_help_opens_and_closes(drive, session, key) -> None:
    async with drive(session, (120, 60)) as driven:
        await driven.press(key)
        assert isinstance(driven.app.screen, Help)
        for action in (BY_ID["abort"], BY_ID["setup"], BY_ID["pause"]):
            assert action.help[:40] in driven.text
        await driven.press("escape")
        assert driven.app.screen is driven.app.dashboard


async def test_pages_scroll_and_turn(drive, session) -> None:
    async with drive(session, (80, 24)) as driven:
        await driven.press("f1")
        first = driven.text
        await driven.press("pagedown")
        assert driven.text != first
        await driven.press("home")
        assert driven.text == first
        await driven.press("right")
        assert "reference count 0, can still be found" in driven.text
        await driven.press("left", "left")
        assert "copy-on-write" in driven.text


async def test_searching_shows_what_matches_and_escape_all_again(drive, session) -> None:
    async with drive(session, (100, 40)) as driven:
        await driven.press("f1", "slash", *"swap")
        assert BY_ID["swap"].help in driven.text
        assert BY_ID["redraw"].help not in driven.text
        await driven.press("enter")
        assert BY_ID["redraw"].help not in driven.text
        await driven.press("slash", "q")  # typed, not obeyed
        assert isinstance(driven.app.screen, Help)
        await driven.press("escape")
        assert BY_ID["fork"].help in driven.text
        await driven.press("q")
        assert driven.app.screen is driven.app.dashboard
