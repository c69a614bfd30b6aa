"""A person's settings, and the screen's state: mistakes are told by file and line, files are written whole or
not at all."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kvtop.config.folders import config_file, config_folder, state_folder
from kvtop.config.reading import Document, TomlError, parse, read_text
from kvtop.config.settings import (
    GLYPHS,
    LAST,
    PRESETS,
    SaveError,
    Settings,
    SettingsError,
    load,
    resolve,
)
from kvtop.config.state import UiState, load_state, save_state
from kvtop.workload.fields import shown, suggestion


def save_settings(
    changes: Mapping[str, Any],
    path: Path,
    further: Callable[[Settings], Sequence[str]] = lambda _: (),
) -> None:
    """`kvtop.config.writing.save`, imported when something is saved."""
    from kvtop.config.writing import save

    save(changes, path, further)


__all__ = [
    "GLYPHS",
    "LAST",
    "PRESETS",
    "Document",
    "SaveError",
    "Settings",
    "SettingsError",
    "TomlError",
    "UiState",
    "config_file",
    "config_folder",
    "load",
    "load_state",
    "parse",
    "read_text",
    "resolve",
    "save_settings",
    "save_state",
    "shown",
    "state_folder",
    "suggestion",
]
