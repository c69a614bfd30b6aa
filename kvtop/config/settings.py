"""A person's settings: from flags, else the environment, else the file, else the defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvtop.config.folders import config_file
from kvtop.config.reading import Document, TomlError, parse, read_text
from kvtop.workload.fields import Problem, choice, flag, integer, shown, suggestion, text

GLYPHS = ("auto", "block", "braille", "ascii")
PRESETS = ("overview", "map", "tables", "prefixes", "compare", "timeline", "kernel")
"""The presets' ids, in the order of their keys 1 to 7."""
LAST = "last"
"""The preset that was shown when the program was left."""
MOST_FPS = 60


class SettingsError(ValueError):
    """A flag or an environment variable that cannot be used; the message is one line."""


class SaveError(RuntimeError):
    """The file was not written, and is as it was; the message is one line that says why."""


@dataclass(frozen=True)
class Settings:
    """What a person has set. Every field is a key of the file; the text below it stands in the file that
    `kvtop --print-default-config` prints."""

    theme: str = "dark"
    """Colours: dark, light, high-contrast, colour-blind, 16-colour or mono, a theme of your own from themes/
    beside this file, or the path of a theme file."""
    glyphs: str = "auto"
    """Characters: block, braille (plots and sparklines in dots), ascii, or auto: ascii where the locale has
    another encoding than UTF-8, block everywhere else."""
    fps: int = 20
    """Pictures a second, 1 to 60. Fewer save work on a slow link."""
    mouse: bool = True
    """Whether the mouse is used. Without it, the terminal's own selection works."""
    readonly: bool = False
    """Whether the keys that change the generator are taken away."""
    preset: str = LAST
    """What is shown at first: last (as it was left), 1 to 7, or a name: overview, map, tables, prefixes,
    compare, timeline, kernel."""
    flashes: bool = True
    """Whether copies, evictions and preemptions flash in the block map."""
    confirm_abort: bool = True
    """Whether aborting a request asks first."""
    columns: tuple[str, ...] = ("state", "prompt", "gen", "blk", "shr", "waste", "hit", "pre")
    """Columns of the sequences table between ID and TEXT, in this order. Others: stored, max."""
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys by action; F1 lists the actions, F2 their ids. The keys given replace those an action has; an
    empty list leaves it without one. Keys are written as F5, ctrl+x, space, ? or q."""
    places: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Where an action's keys were set, as `file:line`, for messages about them. Not in the file."""
    theme_place: str = field(default="", compare=False, repr=False)
    """Where the theme was set, as `file:line`; empty when no file sets one. Not in the file."""
    columns_place: str = field(default="", compare=False, repr=False)
    """Where the columns were set, as `file:line`; empty when no file sets them. Not in the file."""
    given: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """The settings that a flag or the environment has for this run. Not in the file."""


def _preset(value: Any) -> str:
    """A preset by number or name, or `last`."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= len(PRESETS):
        return PRESETS[value - 1]
    if isinstance(value, str):
        if value.isdecimal() and 1 <= int(value) <= len(PRESETS):
            return PRESETS[int(value) - 1]
        if value in (LAST, *PRESETS):
            return value
    hint = suggestion(value, (LAST, *PRESETS)) if isinstance(value, str) else ""
    raise Problem(f'must be "last", 1 to {len(PRESETS)} or a preset\'s name, not {shown(value)}{hint}')


def _columns(value: Any) -> tuple[str, ...]:
    """Names of columns, each once. Which there are is known where they are drawn."""
    if not isinstance(value, list):
        raise Problem(f"must be a list of columns, not {shown(value)}")
    for index, name in enumerate(value):
        if not isinstance(name, str) or not name:
            raise Problem(f"must be a list of columns in quotes, and {shown(name)} is none")
        if name in value[:index]:
            raise Problem(f"names {shown(name)} twice")
    return tuple(value)


def _keys(value: Any) -> tuple[str, ...]:
    """One key, or a list of them."""
    keys = [value] if isinstance(value, str) else value
    if not isinstance(keys, list) or not all(isinstance(key, str) and key for key in keys):
        raise Problem(f"must be a key or a list of keys in quotes, not {shown(value)}")
    return tuple(keys)


CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "theme": text(4096),
    "glyphs": choice(*GLYPHS),
    "fps": integer(1, MOST_FPS),
    "mouse": flag,
    "readonly": flag,
    "preset": _preset,
    "flashes": flag,
    "confirm_abort": flag,
    "columns": _columns,
}
"""What each key of the file may be; `keys` is a table of its own."""


def read(document: Document) -> tuple[Settings, list[str]]:
    """The settings of a file, and one line for each that cannot be used. Those keep their defaults."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for key, value in document.table.items():
        place = document.place(key)
        if key == "keys":
            values["keys"], values["places"] = _read_keys(document, value, problems)
        elif key not in CHECKS:
            problems.append(f'{place}: unknown key "{key}"{suggestion(key, (*CHECKS, "keys"))}')
        else:
            try:
                values[key] = CHECKS[key](value)
            except Problem as problem:
                problems.append(f'{place}: "{key}" {problem}')
    if "theme" in values:
        values["theme"] = _theme_beside(document.file, values["theme"])
        values["theme_place"] = document.place("theme")
    if "columns" in values:
        values["columns_place"] = document.place("columns")
    return Settings(**values), problems


def _theme_beside(file: str, theme: str) -> str:
    """A theme's name, or its file: a relative path starts at the folder of the settings."""
    if "/" not in theme and not theme.endswith(".toml"):
        return theme
    return str(Path(file).parent / Path(theme).expanduser())


def _read_keys(
    document: Document, table: Any, problems: list[str]
) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Keys by action, and where they stand. Whether actions and keys exist is for the key map to say."""
    keys: dict[str, tuple[str, ...]] = {}
    places: dict[str, str] = {}
    if not isinstance(table, dict):
        problems.append(f'{document.place("keys")}: "keys" must be a table, [keys], not {shown(table)}')
        return keys, places
    for action, value in table.items():
        place = document.place("keys", action)
        try:
            keys[action] = _keys(value)
            places[action] = place
        except Problem as problem:
            problems.append(f'{place}: "{action}" {problem}')
    return keys, places


def load(environ: Mapping[str, str], path: Path | None = None) -> tuple[Settings, list[str]]:
    """The settings of the file, and one line for each problem in it. Never raises for what the file holds:
    what cannot be used has its default, and a file that is no TOML gives the defaults alone."""
    file = path if path is not None else config_file(environ)
    try:
        return read(parse(read_text(file), str(file)))
    except FileNotFoundError:
        return Settings(), []
    except TomlError as error:
        return Settings(), [str(error)]


ENVIRONMENT = {f"KVTOP_{name.upper()}": name for name in CHECKS}
"""Environment variable -> the setting it has."""
_FLAGS = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


def from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """The settings that the environment has; an empty variable says nothing. Raises SettingsError."""
    values = {}
    for variable, name in ENVIRONMENT.items():
        if given := environ.get(variable, ""):
            try:
                values[name] = CHECKS[name](_from_words(name, given))
            except Problem as problem:
                raise SettingsError(f"{variable} {problem}") from None
    return values


def _from_words(name: str, words: str) -> Any:
    """A variable's text as the TOML value that it stands for."""
    check = CHECKS[name]
    if check is flag:
        return _FLAGS.get(words.lower(), words)
    if name == "fps":
        return int(words) if words.isascii() and words.isdecimal() else words
    if name == "columns":
        return [word.strip() for word in words.split(",")]
    return words


def resolve(file: Settings, environ: Mapping[str, str], flags: Mapping[str, Any]) -> Settings:
    """Flag, else environment, else file, else default. A flag that is None was not given. Raises
    SettingsError."""
    given = from_environment(environ)
    for name, value in flags.items():
        if value is not None:
            try:
                given[name] = CHECKS[name](value)
            except Problem as problem:
                raise SettingsError(f"--{name.replace('_', '-')} {problem}") from None
    return dataclasses.replace(file, **given, given=frozenset(given))
