"""The themes that there are, and a person's own theme read again while it is being written."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic

from kvtop.config import Settings
from kvtop.ui.draw.palette import Palette, ThemeError, load_palette, theme_file, theme_folders

ORDER = ("dark", "light", "high-contrast", "colour-blind", "16-colour", "mono")
"""How the built-in themes are listed."""
SECONDS = 1.0
"""How often a theme's file is looked at."""


def themes(environ: Mapping[str, str] = os.environ) -> list[tuple[str, Path, str | None]]:
    """Name, file and error of every theme that can be named; the error is None for one that can be used.

    The built-in ones come first, in their usual order. A person's own wins over one of the same name.
    """
    own, *built_in = theme_folders(environ)
    files = {path.stem: path for folder in reversed(built_in) for path in folder.glob("*.toml")}
    order = sorted(files, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
    mine = {path.stem: path for path in own.glob("*.toml")}
    order += sorted(mine.keys() - files.keys())
    return [(name, path, _error(path)) for name in order for path in (mine.get(name) or files[name],)]


def _error(path: Path) -> str | None:
    try:
        load_palette(path)
    except ThemeError as error:
        return str(error)
    return None


def theme_problems(settings: Settings) -> list[str]:
    """What is wrong with the theme that the file of settings names, one line for each problem, beginning
    with the place of its name. Nothing when no file names one. `settings` are those of the file alone."""
    if not settings.theme_place:
        return []
    try:
        load_palette(settings.theme)
    except ThemeError as error:
        return [f"{settings.theme_place}: {line}" for line in str(error).splitlines()]
    return []


class ThemeWatcher:
    """Looks at a theme's file once a second, when asked. No thread, and no work but one call of `stat`."""

    def __init__(self, theme: str | Path, clock: Callable[[], float] = monotonic) -> None:
        self.theme = theme
        self._clock = clock
        self._due = clock() + SECONDS
        self._seen = self._signature()

    def poll(self) -> Palette | str | None:
        """A new palette when the file has changed; what is wrong with it, one problem a line that begins with
        the file's name, when the change cannot be used: each change is told once. None when there is nothing
        new, or the file is gone."""
        now = self._clock()
        if now < self._due:
            return None
        self._due = now + SECONDS
        seen = self._signature()
        if seen == self._seen or seen is None:
            return None
        self._seen = seen
        try:
            return load_palette(self.theme)
        except ThemeError as error:
            return str(error).replace(f"{seen[0].parent}/", "")

    def _signature(self) -> tuple[Path, int, int, int] | None:
        """What differs after any change of the file; None while there is none, as between an editor's
        removing and writing it."""
        try:
            path = theme_file(self.theme)
            found = path.stat()
        except (OSError, ThemeError):
            return None
        return path, found.st_mtime_ns, found.st_size, found.st_ino
