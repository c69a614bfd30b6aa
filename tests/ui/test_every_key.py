"""Every key of the table reaches its action, in every place that it can be pressed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual import actions

from kvtop.config import Settings
from kvtop.session import session as ses
from kvtop.ui.commands.actions import ACTIONS, BY_ID, PANEL, SCREEN, Action, key_label

KEYS = [(key, action) for action in ACTIONS for key in action.keys]
CALLED_BY_TEXTUAL = {"quit"}
"""Asynchronous in Textual."""


LISTENERS: dict[tuple[object, str], list[tuple[tuple[object, ...], Callable[[], None]]]] = {}
"""Who does it, and the method -> what it is given, and who is told."""


def parse(call: str) -> tuple[str, tuple[object, ...]]:
    """A method's name and what it is given."""
    _, method, values = actions.parse(call)
    return method, values


def listen(driven, action: Action) -> list[str]:
    """Put a listener in the place of what an action does."""
    heard: list[str] = []
    app, dashboard = driven.app, driven.app.dashboard

    def record() -> None:
        heard.append(action.id)

    async def later() -> None:
        heard.append(action.id)

    if action.target == PANEL:
        setattr(dashboard.body(action.owner), f"do_{action.id}", record)
        return heard
    # Several actions are one method, and differ in what it is given.
    owner = dashboard if action.target == SCREEN else app
    method, given = parse(action.call or f"{action.id}()")
    listeners = LISTENERS.setdefault((owner, method), [])
    listeners.append((given, record))

    def tell(*values: object) -> None:
        for wanted, told in listeners:
            if wanted == values:
                told()

    # Textual hands a method as many values as it takes.
    hear = (lambda: tell(), lambda one: tell(one), lambda one, two: tell(one, two))[len(given)]
    setattr(owner, f"action_{method}", later if action.id in CALLED_BY_TEXTUAL else hear)
    return heard


def called(heard: dict[str, list[str]]) -> set[str]:
    """The actions that were done since the last look."""
    names = {name for name, calls in heard.items() if calls}
    for calls in heard.values():
        calls.clear()
    return names


@pytest.mark.parametrize("preset", ["1", "3", "6"])
async def test_every_key_does_its_action_and_no_other(drive, session, preset) -> None:
    async with drive(session, (120, 36)) as driven:
        await driven.press(preset)
        heard = {other.id: listen(driven, other) for other in ACTIONS}
        for key, action in KEYS:
            if action.owner and action.owner not in driven.app.dashboard.preset.panels:
                continue  # another panel's business, which has tests of its own
            await driven.pilot.press(key)
            await driven.pilot.pause()
            assert called(heard) == {action.id}, key
        assert session.sent == []


async def test_every_action_answers_to_the_keys_that_a_person_gives_it(drive, session) -> None:
    """Everybody gets the keys of the next one."""
    given = {
        one.id: tuple(map(key_label, other.keys))
        for one, other in zip(ACTIONS, (*ACTIONS[1:], ACTIONS[0]), strict=True)
    }
    async with drive(session, (120, 36), settings=Settings(keys=given)) as driven:
        assert driven.app.problems == []
        heard = {other.id: listen(driven, other) for other in ACTIONS}
        for one, other in zip(ACTIONS, (*ACTIONS[1:], ACTIONS[0]), strict=True):
            for key in other.keys:
                await driven.pilot.press(key)
                await driven.pilot.pause()
                assert called(heard) == {one.id}, key
            assert driven.app.action_of(one.id).keys == other.keys


async def test_keys_of_a_generator_are_gone_when_only_reading(drive, session) -> None:
    async with drive(session, (200, 50), settings=Settings(readonly=True)) as driven:
        await driven.press("down")
        for action in ACTIONS:
            if action.command is not None:
                assert action not in driven.app.actions
                assert f" {action.bar} " not in driven.lines[-1]
                await driven.press(*action.keys)
                assert f"Read only: {action.id} would change the generator" in driven.lines[-1]
        assert session.sent == []
        assert driven.app.screen is driven.app.dashboard
        await driven.press("f1")
        assert BY_ID["fork"].help not in driven.text
        await driven.press("escape", "2")
        assert driven.app.dashboard.preset.id == "map"


def test_no_help_names_a_key_that_reading_takes_away() -> None:
    own = {key_label(key) for action in ACTIONS if action.command is not None for key in action.keys}
    for action in ACTIONS:
        if action.command is None:
            assert not {word.strip(",;:.") for word in action.help.split()} & (own - {"a", "A"}), action.id


async def test_the_palettes_prompt_is_plain(drive, session) -> None:
    async with drive(session, (120, 36)) as driven:
        await driven.press("ctrl+p")
        assert "> What to do?" in driven.text and "\N{RIGHT-POINTING MAGNIFYING GLASS}" not in driven.text


async def test_the_palette_performs_every_action(drive, session) -> None:
    async with drive(session, (120, 36)) as driven:
        heard = {other.id: listen(driven, other) for other in ACTIONS}
        for action in ACTIONS:
            await driven.app.do(action)
            assert called(heard) == {action.id}


async def test_the_palette_finds_an_action_by_name_and_does_it(drive, session) -> None:
    async with drive(session, (120, 36)) as driven:
        await driven.press("ctrl+p")
        await driven.pilot.press(*"pause")
        for _ in range(20):
            await driven.pilot.pause(0.05)
            if "Pause  (Z z)" in driven.text:
                break
        await driven.press("enter")
        await driven.pilot.pause(0.1)
        assert session.sent == [ses.Pause()]
        assert driven.app.screen is driven.app.dashboard


async def test_below_the_smallest_size_only_quit_is_left(drive, session) -> None:
    async with drive(session, (50, 10)) as driven:
        heard = {other.id: listen(driven, other) for other in ACTIONS}
        for action in ACTIONS:
            if action.id != "quit":
                await driven.pilot.press(*action.keys)
        await driven.pilot.press("q")
        await driven.pilot.pause()
        assert {name for name, calls in heard.items() if calls} - {"suspend_process"} == {"quit"}
