"""Which key does what, after a person has changed some."""

from __future__ import annotations

import pytest

from kvtop.ui.commands.actions import ACTIONS
from kvtop.ui.commands.keymap import key_map, textual_key

DEFAULTS = [("help", ("f1", "question_mark")), ("fork", ("f",)), ("step", ("n",)), ("none", ())]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("F5", "f5"),
        ("f", "f"),
        ("F", "F"),
        ("?", "question_mark"),
        ("+", "plus"),
        ("[", "left_square_bracket"),
        ("Space", "space"),
        (" ", "space"),
        ("Esc", "escape"),
        ("PgUp", "pageup"),
        ("ctrl+x", "ctrl+x"),
        ("^x", "ctrl+x"),
        ("^X", "ctrl+x"),
        ("Ctrl+S", "ctrl+s"),
        ("ctrl++", "ctrl+plus"),
        ("alt+x", "alt+x"),
        ("shift+Tab", "shift+tab"),
        ("ctrl+Left", "ctrl+left"),
        ("/", "slash"),
        ("slash", "slash"),
        ("é", "é"),
    ],
)
def test_keys_are_written_as_people_write_them(written: str, name: str) -> None:
    assert textual_key(written) == name


@pytest.mark.parametrize("written", ["", "  ", "F99", "foo", "ctrl+foo", "hypo+x", "ctrl+", "\x1b", "ab"])
def test_what_is_no_key(written: str) -> None:
    assert textual_key(written) is None


def test_every_default_key_is_one() -> None:
    for action in ACTIONS:
        assert [textual_key(key) for key in action.keys] == list(action.keys)
    assert key_map([(a.id, a.keys) for a in ACTIONS], {}) == ({a.id: a.keys for a in ACTIONS}, [])


def test_given_keys_replace_those_an_action_has() -> None:
    found, problems = key_map(DEFAULTS, {"fork": ("x", "F6"), "step": ()})
    assert problems == []
    assert found == {"help": ("f1", "question_mark"), "fork": ("x", "f6"), "step": (), "none": ()}


def test_a_key_is_taken_from_the_one_that_has_it_by_default() -> None:
    found, problems = key_map(DEFAULTS, {"fork": ("?",)})
    assert problems == []
    assert found["help"] == ("f1",) and found["fork"] == ("question_mark",)


def test_an_action_that_loses_its_last_key_is_told() -> None:
    found, problems = key_map(DEFAULTS, {"fork": ("n",)}, {"fork": "c.toml:2"})
    assert found["step"] == ()
    assert problems == ['c.toml:2: "fork" has all keys of "step": give that others, or [] for none']
    assert key_map(DEFAULTS, {"fork": ("n",), "step": ()})[1] == []
    assert key_map(DEFAULTS, {"fork": ("n",), "step": ("f",)})[1] == []


def test_a_clash_is_told_and_the_first_keeps_the_key() -> None:
    found, problems = key_map(DEFAULTS, {"fork": ("x",), "step": ("n", "X", "x")}, {"step": "c.toml:3"})
    assert problems == ['c.toml:3: "step" has "x", which "fork" has already']
    assert found["fork"] == ("x",) and found["step"] == ("n", "X")


def test_unknown_actions_and_keys_are_told_with_the_nearest() -> None:
    found, problems = key_map(DEFAULTS, {"frok": ("x",), "step": ("spcae",)}, {"frok": "c:1", "step": "c:2"})
    assert problems == [
        'c:1: unknown action "frok" (did you mean "fork"?)',
        'c:2: "step" has "spcae", which is no key (did you mean "space"?)',
    ]
    assert found["step"] == ("n",)  # what cannot be used changes nothing


@pytest.mark.parametrize(
    ("written", "meant"),
    [("up", "move_up"), ("Left", "move_left"), ("tables", "preset_tables"), ("forks", "fork")],
)
def test_a_word_of_an_id_is_enough_to_be_understood(written: str, meant: str) -> None:
    actions = [(action.id, action.keys) for action in ACTIONS]
    assert key_map(actions, {written: ("j",)})[1] == [f'unknown action "{written}" (did you mean "{meant}"?)']


def test_leaving_cannot_be_without_a_key() -> None:
    actions = [("quit", ("q", "ctrl+c")), ("step", ("n",))]
    found, problems = key_map(actions, {"quit": (), "step": ()}, {"quit": "c:1"})
    assert found == {"quit": ("q", "ctrl+c"), "step": ()}
    assert problems == ['c:1: "quit" needs a key']


def test_the_same_key_twice_is_once() -> None:
    assert key_map(DEFAULTS, {"fork": ("x", "x")})[0]["fork"] == ("x",)
