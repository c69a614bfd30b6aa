"""Which key does what, after a person has given actions other keys. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from textual.keys import KEY_NAME_REPLACEMENTS, Keys, _character_to_key

from kvtop.config import suggestion

_WRITTEN = {
    "esc": "escape",
    "return": "enter",
    "pgup": "pageup",
    "pgdn": "pagedown",
    "pgdown": "pagedown",
    "del": "delete",
    "ins": "insert",
    "bs": "backspace",
    "s-tab": "shift+tab",
}
"""How people write keys -> how Textual names them."""
_DRAWN = {"↑": "up", "↓": "down", "←": "left", "→": "right"}
"""Keys that the help draws."""
_MODIFIERS = ("ctrl", "shift", "alt", "super", "hyper", "meta")
NEVER = frozenset({"ctrl+@", "ctrl-at"})
"""What Textual names and no keyboard sends by that name."""


NEEDED = frozenset({"quit"})
"""Actions that cannot be without a key."""


@cache
def _known() -> frozenset[str]:
    """Textual's names of keys that are more than a character."""
    names = {key.value for key in Keys} | {"tab", "space", "enter", "backspace", "escape"}
    names |= {_character_to_key(chr(code)) for code in range(0x21, 0x7F)}
    return frozenset(name for name in names if not name.startswith("<")) - NEVER


def textual_key(written: str) -> str | None:
    """Textual's name of a key as a person writes it (`F5`, `ctrl+x`, `^x`, `Space`, `?`), or None when there
    is no such key. A capital letter is the letter with Shift: `F` and `f` are two keys."""
    if len(written) == 1:
        if written in _DRAWN:
            return _DRAWN[written]
        return _character_to_key(written) if written.isprintable() else None
    text = written.strip()
    for prefix, modifier in (("^", "ctrl"), ("S-", "shift")):  # as help and key bar write them
        if text.startswith(prefix) and len(text) > len(prefix):
            rest = text[len(prefix) :]
            text = f"{modifier}+{rest.lower() if len(rest) == 1 else rest}"
    *modifiers, key = text.replace("++", "+plus").split("+") if text != "+" else ["plus"]
    if key in _DRAWN:
        key = _DRAWN[key]
    elif len(key) != 1:
        key = key.lower()
        key = _WRITTEN.get(key, KEY_NAME_REPLACEMENTS.get(key, key))
    elif modifiers:
        key = _character_to_key(key.lower() if "shift" not in modifiers else key)
    else:
        key = _character_to_key(key)
    modifiers = [modifier.lower() for modifier in modifiers]
    if any(modifier not in _MODIFIERS for modifier in modifiers):
        return None
    name = "+".join([*sorted(set(modifiers)), key])
    # Terminals that report more than the usual keys send any key with any modifier.
    return name if name in _known() or (modifiers and key in _known()) else None


def _nearest(action: str, known: Iterable[str]) -> str:
    """The id that was meant: one like it, or the shortest of which it is a word, the last one if possible."""
    ids = list(known)
    if near := suggestion(action, ids):
        return near
    of = [name for name in ids if action.lower() in name.split("_")]
    of.sort(key=lambda name: (not name.endswith(action.lower()), len(name)))
    return f' (did you mean "{of[0]}"?)' if of else ""


def key_map(
    actions: Iterable[tuple[str, Sequence[str]]],
    remapped: Mapping[str, Sequence[str]],
    places: Mapping[str, str] = {},
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The keys of every action, in Textual's names, and one line for each problem.

    `actions` are pairs of an id and its default keys. `remapped` gives some of them other keys, as a person
    writes them, and `places` says where each was written. A key that a person gives to an action is taken
    from the one that has it by default, which is a problem only where that is left without any. Given to
    two, it is a clash, and the first keeps it. An action whose new keys are all wrong has its default ones,
    and so has one of NEEDED that is given none.
    """
    defaults = {name: tuple(keys) for name, keys in actions}
    problems: list[str] = []

    def problem(action: str, text: str) -> None:
        place = places.get(action)
        problems.append(f"{place}: {text}" if place else text)

    given: dict[str, tuple[str, ...]] = {}
    owner: dict[str, str] = {}
    for action, written in remapped.items():
        if action not in defaults:
            problem(action, f'unknown action "{action}"{_nearest(action, defaults)}')
            continue
        if action in NEEDED and not written:
            problem(action, f'"{action}" needs a key')
            continue
        keys: list[str] = []
        for text in written:
            key = textual_key(text)
            if key is None:
                problem(action, f'"{action}" has "{text}", which is no key{suggestion(text, _known())}')
            elif owner.setdefault(key, action) != action:
                problem(action, f'"{action}" has "{text}", which "{owner[key]}" has already')
            elif key not in keys:
                keys.append(key)
        if keys or not written:
            given[action] = tuple(keys)
    found = {}
    for action, default in defaults.items():
        found[action] = given.get(action, tuple(key for key in default if key not in owner))
        if default and not found[action] and action not in given:
            taker = owner[default[0]]
            problem(taker, f'"{taker}" has all keys of "{action}": give that others, or [] for none')
    return found, problems
