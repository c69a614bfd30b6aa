"""What the screen looked like when it was left: kept apart from settings, for nobody writes it by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvtop.config.folders import describe_oserror, state_folder, write_whole
from kvtop.config.reading import TomlError, parse, read_text
from kvtop.config.settings import PRESETS

_MOST_SPLITS = 100


@dataclass(frozen=True)
class UiState:
    """A person's view of the dashboard."""

    preset: str = PRESETS[0]
    splits: Mapping[str, float] = field(default_factory=dict)
    """Name of a movable border -> share of the room before it, above 0 and below 1."""
    sort: str = "arrival"
    """What the sequences are sorted by. Which orders there are is known where they are drawn."""
    inverted: bool = False
    tree: bool = True
    """Whether samples and beams stand under their request."""


def load_state(environ: Mapping[str, str]) -> UiState:
    """What was saved; the defaults for whatever is missing or makes no sense. Never raises."""
    path = state_folder(environ) / "state.toml"
    try:
        table = parse(read_text(path), str(path)).table
    except (TomlError, OSError):
        return UiState()
    usable = {key: value for key, value in table.items() if _usable(key, value)}
    if "splits" in usable:
        splits = usable["splits"].items()
        usable["splits"] = {name: float(share) for name, share in splits if _is_share(share)}
    return UiState(**usable)


def _usable(key: str, value: Any) -> bool:
    """Whether a saved value is one that this version would save."""
    if key == "preset":
        return value in PRESETS
    if key == "sort":
        return isinstance(value, str)
    if key in ("inverted", "tree"):
        return isinstance(value, bool)
    return key == "splits" and isinstance(value, dict) and len(value) <= _MOST_SPLITS


def _is_share(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and 0 < value < 1


def save_state(state: UiState, environ: Mapping[str, str]) -> str | None:
    """Keep the state for the next start. Returns why that was not possible, or None."""
    import tomlkit  # not before something is written

    path = state_folder(environ) / "state.toml"
    document = tomlkit.document()
    document.add(tomlkit.comment("What kvtop's screen looked like when it was left. Written by the program."))
    for key in ("preset", "sort", "inverted", "tree"):
        document[key] = getattr(state, key)
    if state.splits:
        table = tomlkit.table()
        table.update({name: round(share, 4) for name, share in sorted(state.splits.items())})
        document["splits"] = table
    try:
        write_whole(path, tomlkit.dumps(document))
    except OSError as error:
        return f"{path}: cannot be written: {describe_oserror(error)}"
    return None
