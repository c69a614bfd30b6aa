"""The rows of the setup dialog, and what a key makes of the settings. Pure: no widget, no file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kvtop.config import GLYPHS, LAST, PRESETS, Settings
from kvtop.ui.commands.actions import Action, key_label
from kvtop.ui.frame.columns import COLUMNS

FPS = (1, 2, 5, 10, 15, 20, 30, 60)
_GLYPH_HELP = {
    "auto": "ASCII where the locale has another encoding than UTF-8, block characters everywhere else",
    "block": "eighths of a cell in plots and maps, half blocks where a map has many blocks",
    "braille": "as block, but plots and sparklines in dots, eight to a cell",
    "ascii": "nothing but ASCII, for terminals and fonts without block characters",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a page that the cursor can stand on."""

    name: str
    """The setting that it changes, or the column that it shows."""
    label: str
    value: str
    note: str
    """A few words beside the value."""
    help: str
    """A sentence about it."""
    section: str = ""
    """Heads the row and those below it; empty where it goes on."""
    on: bool | None = None
    """Whether a column is shown; None for what is no column."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """A setting: how it is called, its values in order, and what it does."""

    label: str
    help: str
    section: str
    later: bool = False
    """Whether it is used from the next start on."""


_KINDS: Mapping[str, _Kind] = {
    "theme": _Kind("Theme", "colours; docs/themes.md says how to write one of your own", "Screen"),
    "glyphs": _Kind("Characters", "", "Screen"),
    "flashes": _Kind("Flashes", "copies, evictions and preemptions flash in the block map", "Screen"),
    "fps": _Kind(
        "Pictures a second",
        "fewer save work on a slow link",
        "Screen",
        later=True,
    ),
    "mouse": _Kind(
        "Mouse",
        "off leaves it to the terminal's own selection",
        "Screen",
        later=True,
    ),
    "confirm_abort": _Kind("Ask before abort", "asks by id before a request is aborted", "Behaviour"),
    "readonly": _Kind("Read only", "takes away the keys that change the generator", "Behaviour", later=True),
    "preset": _Kind(
        "First preset",
        "what is shown at the start",
        "Behaviour",
        later=True,
    ),
}


def setting_rows(settings: Settings, themes: Sequence[str]) -> list[Row]:
    """The page of settings. `themes` are the names that can be chosen."""
    rows, section = [], ""
    for name, kind in _KINDS.items():
        note = "next start" if kind.later else ""
        if name in settings.given:
            note = "this run"
        elif name == "theme" and settings.theme in themes:
            note = f"{themes.index(settings.theme) + 1} of {len(themes)}"
        value = _shown(name, getattr(settings, name))
        helped = _GLYPH_HELP[settings.glyphs] if name == "glyphs" else kind.help
        rows.append(
            Row(name, kind.label, value, note, helped, kind.section if kind.section != section else "")
        )
        section = kind.section
    return rows


def _shown(name: str, value: Any) -> str:
    """A value as a person reads it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if name == "preset":
        return "as it was left" if value == LAST else f"{PRESETS.index(value) + 1} {value}"
    return str(value)


def changed(settings: Settings, name: str, step: int, themes: Sequence[str]) -> Settings:
    """The settings with one of them at its next value (`step` 1) or the one before (-1), round and round."""
    now: Any = getattr(settings, name)
    if isinstance(now, bool):
        return _with(settings, name, not now)
    values: Sequence[Any] = {
        "theme": themes,
        "glyphs": GLYPHS,
        "fps": FPS,
        "preset": (LAST, *PRESETS),
    }[name]
    if now in values:
        return _with(settings, name, values[(values.index(now) + step) % len(values)])
    if name == "fps":  # between two steps
        further = [value for value in values if (value > now if step > 0 else value < now)]
        return replace(settings, fps=(further[0] if step > 0 else further[-1]) if further else values[0])
    return _with(settings, name, values[0 if step > 0 else -1]) if values else settings


def _with(settings: Settings, name: str, value: Any) -> Settings:
    """The settings with another value for one of them."""
    return replace(settings, **{name: value})


def column_rows(settings: Settings) -> list[Row]:
    """The page of columns: those that are shown in their order, then the others."""
    by_id = {column.name: column for column in COLUMNS}
    others = [name for name in by_id if name not in settings.columns]
    return [
        Row(
            name,
            by_id[name].title,
            "shown" if name in settings.columns else "hidden",
            by_id[name].meaning,
            by_id[name].meaning,
            "Columns between ID and TEXT" if place == 0 else "",
            name in settings.columns,
        )
        for place, name in enumerate([*settings.columns, *others])
    ]


def toggled(settings: Settings, name: str) -> Settings:
    """A column shown as the last one, or hidden."""
    columns = tuple(column for column in settings.columns if column != name)
    return replace(settings, columns=columns if name in settings.columns else (*columns, name))


def moved(settings: Settings, name: str, step: int) -> Settings:
    """A shown column one place further (`step` 1) or back (-1); at the end, and hidden ones, nothing."""
    columns = list(settings.columns)
    if name not in columns:
        return settings
    place = columns.index(name)
    if not 0 <= place + step < len(columns):
        return settings
    columns[place], columns[place + step] = columns[place + step], columns[place]
    return replace(settings, columns=tuple(columns))


def key_rows(actions: Iterable[Action]) -> list[Row]:
    """The page of keys: every action's id with its keys. Nothing there can be changed."""
    rows, section = [], ""
    for action in sorted(actions, key=lambda action: action.section):
        keys = " ".join(map(key_label, action.keys)) or "none"
        rows.append(
            Row(
                action.id,
                action.id,
                keys,
                action.help,
                action.help,
                action.section if action.section != section else "",
            )
        )
        section = action.section
    return rows


def differences(before: Settings, after: Settings) -> dict[str, Any]:
    """What is to be saved: the settings that differ."""
    names = (*_KINDS, "columns")
    return {name: getattr(after, name) for name in names if getattr(before, name) != getattr(after, name)}
