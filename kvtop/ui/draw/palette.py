"""Colours: a theme file read, checked, and turned into the styles that the widgets draw with.

A theme is a flat TOML table (`themes/dark.toml` documents the keys). A wrong one is reported by file, line
and key, with the nearest key when a name looks misspelt.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.style import Style
from textual.theme import Theme

import kvtop
from kvtop.config import TomlError, config_folder, parse, read_text, shown, suggestion
from kvtop.ui.draw.colours import NAMED, is_colour, mix, shade

HUES = 8
VARIANTS = 3
"""Brightness variations of every hue, so that 24 neighbouring requests look different."""
LEVELS = 6
"""How strong a block stands out in its owner's hue: 0 least ... 4 full colour, 5 strongest (shared)."""
REFERENCES = 4
"""Colours for reference counts 1, 2, 3, and 4 or more."""
FLASHES = ("copied", "evicted", "preempted")
"""What flashes in the map."""
_RAMP = (-0.68, -0.52, -0.36, -0.18, 0.0, 0.42)
_VARIANT = (0.0, 0.3, -0.28)


class ThemeError(ValueError):
    """A theme that cannot be used; the message has one line for each problem, each naming its place."""


@dataclass(frozen=True)
class Palette:
    """A theme's colours, `#rrggbb` or a name of `colours.NAMED` each, and the styles made of them. Never
    changed. `docs/themes.md` says what every key is for."""

    name: str
    dark: bool
    mono: bool
    background: str
    raised: str
    border: str
    focus: str
    row: str
    text: str
    muted: str
    faint: str
    primary: str
    good: str
    warning: str
    error: str
    key: str
    key_text: str
    used: str
    shared: str
    cached: str
    cached_track: str
    track: str
    cursor: str
    match: str
    tag: str
    flash_copied: str
    flash_evicted: str
    flash_preempted: str
    refs: tuple[str, ...]
    owners: tuple[str, ...]

    def style(self, ink: str, on: str = "background", *, bold: bool = False, italic: bool = False) -> Style:
        """A style of two keys of the palette, as `style("muted")` or `style("text", "raised")`."""
        cache: dict[tuple[str, str, bool, bool], Style] = self._styles
        made = cache.get((ink, on, bold, italic))
        if made is None:
            made = Style(color=getattr(self, ink), bgcolor=getattr(self, on), bold=bold, italic=italic)
            cache[ink, on, bold, italic] = made
        return made

    def chip(self, ink: int, on: str = "background") -> Style:
        """The style of an owner's mark: ink as `ink_index` gives it."""
        made = self._chips.get((ink, on))
        if made is None:
            made = self._chips[ink, on] = Style(color=self.inks[ink][4], bgcolor=getattr(self, on))
        return made

    @cached_property
    def _chips(self) -> dict[tuple[int, str], Style]:
        return {}

    @cached_property
    def _styles(self) -> dict[tuple[str, str, bool, bool], Style]:
        return {}

    def reference(self, count: int, on: str = "background", *, bold: bool = False) -> Style:
        """The style of a figure whose block has this reference count (1 or more)."""
        ink = self.refs[min(max(count, 1), REFERENCES) - 1]
        made = self._inked.get((ink, on, bold))
        if made is None:
            made = self._inked[ink, on, bold] = Style(color=ink, bgcolor=getattr(self, on), bold=bold)
        return made

    @cached_property
    def _inked(self) -> dict[tuple[str, str, bool], Style]:
        return {}

    def flash(self, kind: str, share: float, on: str = "") -> str:
        """The colour of a block that was `kind` (one of FLASHES) a moment ago: `share` is 1 at first and 0
        when it has faded to `on`, a colour, or the track when that is left out."""
        return mix(on or self.track, str(getattr(self, f"flash_{kind}")), share)

    @property
    def graded(self) -> bool:
        """Whether colours can be shaded. Named colours cannot: then a glyph has to say how full a cell is."""
        return not any(colour in NAMED for colour in (*self.owners, self.track))

    @property
    def emphasis(self) -> str:
        """What a colour is moved towards to stand out: away from the background."""
        return "#ffffff" if self.dark else "#000000"

    @cached_property
    def inks(self) -> tuple[tuple[str, ...], ...]:
        """`inks[hue + HUES * variant][level]`: what a block of an owner is drawn with. In a mono theme all
        owners look the same."""
        ink = []
        for variant in range(VARIANTS):
            for owner in self.owners:
                amount = 0.0 if self.mono else _VARIANT[variant]
                base = shade(owner, amount, self.background, self.emphasis)
                ink.append(tuple(shade(base, amount, self.track, self.emphasis) for amount in _RAMP))
        return tuple(ink)

    @cached_property
    def dimmed(self) -> tuple[str, ...]:
        """`dimmed[level]`: what a block is drawn with while another sequence is selected."""
        if not self.graded:
            return (self.faint,) * LEVELS
        return tuple(mix(self.track, self.muted, 0.12 + 0.085 * level) for level in range(LEVELS))

    def textual_theme(self) -> Theme:
        """The same colours for Textual's own widgets: dialogs, inputs, scrollbars."""

        def ink(colour: str) -> str:
            return f"ansi_{colour}" if colour in NAMED else colour

        return Theme(
            name=f"kvtop-{self.name}",
            primary=ink(self.primary),
            secondary=ink(self.used),
            warning=ink(self.warning),
            error=ink(self.error),
            success=ink(self.good),
            accent=ink(self.focus),
            foreground=ink(self.text),
            background=ink(self.background),
            surface=ink(self.raised),
            panel=ink(self.raised),
            boost=ink(self.raised),
            dark=self.dark,
            ansi=self.background in NAMED,
            variables=self._textual_variables(ink),
        )

    def _textual_variables(self, ink: Callable[[str], str]) -> dict[str, str]:
        """Colours of the style sheet, and those that Textual would choose by itself."""
        ground, text, muted = ink(self.background), ink(self.text), ink(self.muted)
        variables = {
            "kv-border": ink(self.border),
            "kv-focus": ink(self.focus),
            "kv-muted": muted,
            "kv-raised": ink(self.raised),
            "kv-row": ink(self.row),
            "border": ink(self.focus),
            "border-blurred": ink(self.border),
            "block-cursor-background": ink(self.key),
            "block-cursor-foreground": ink(self.key_text),
            "block-cursor-blurred-background": ink(self.row),
            "block-cursor-blurred-foreground": text,
            "block-hover-background": ink(self.row),
            "input-cursor-background": text,
            "input-cursor-foreground": ground,
            "input-cursor-text-style": "none",
            "input-selection-background": ink(self.key),
            "input-selection-foreground": ink(self.key_text),
            "scrollbar": ink(self.border),
            "scrollbar-hover": muted,
            "scrollbar-active": muted,
            "scrollbar-background": ink(self.raised),
            "scrollbar-background-hover": ink(self.raised),
            "scrollbar-background-active": ink(self.raised),
        }
        if self.background in NAMED:  # Textual makes the terminal's own colours of these
            variables |= dict.fromkeys(("surface", "panel", "boost"), ink(self.raised))
            variables |= dict.fromkeys(("text-muted", "text-disabled", "foreground-muted"), muted)
            variables |= {"ansi-background": ground, "ansi-foreground": text, "text": text}
        return variables


LISTS = {"refs": REFERENCES, "owners": HUES}
"""Keys that are lists of so many colours."""


def ink_index(request: int, branch: int = 0) -> int:
    """Which of `Palette.inks` a sequence is drawn with. Neighbouring requests differ in hue, the branches
    of one request in brightness; the same sequence has the same ink in every run."""
    return request % HUES + HUES * ((request // HUES + branch) % VARIANTS)


def theme_folders(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Where themes are looked for: a person's own folder, then the built-in ones (`kvtop/themes` when
    installed, `themes/` in a checkout)."""
    return [config_folder(environ) / "themes", *(Path(part) / "themes" for part in kvtop.__path__)]


def theme_path(name: str) -> Path:
    """The file of a theme, by name; one in a person's folder wins over a built-in one.

    Raises ThemeError when there is none, naming those there are.
    """
    folders = theme_folders()
    for folder in folders:
        if (path := folder / f"{name}.toml").is_file():
            return path
    known = sorted({path.stem for folder in folders for path in folder.glob("*.toml")})
    near = suggestion(name, known)
    raise ThemeError(f'no theme "{name}"' + (near or f"; there are: {', '.join(known) or 'none'}"))


def theme_file(theme: str | Path) -> Path:
    """The file of a theme by its name; text with a slash, or that ends in `.toml`, is a file itself.

    Raises ThemeError for a name that no theme has.
    """
    is_file = isinstance(theme, Path) or "/" in theme or theme.endswith(".toml")
    return Path(theme).expanduser() if is_file else theme_path(str(theme))


def load_palette(theme: str | Path = "dark") -> Palette:
    """Read a theme by its name or its file. Raises ThemeError with every problem found, one a line."""
    path = theme_file(theme)
    try:
        return parse_palette(read_text(path), str(path))
    except FileNotFoundError:
        raise ThemeError(f"{path}: there is no such file") from None
    except TomlError as error:
        raise ThemeError(str(error)) from error


def parse_palette(source: str, file: str) -> Palette:
    """A palette from a theme's text; `file` is named in problems. Raises ThemeError as `load_palette`."""
    try:
        document = parse(source, file)
    except TomlError as error:
        raise ThemeError(str(error)) from error
    table = document.table
    known = [field.name for field in fields(Palette)]
    found = []
    for key, value in table.items():
        if (problem := _problem(key, value, known)) is not None:
            found.append(f"{document.place(key, *problem.path)}: {problem.text}")
    missing = [key for key in known if key not in table]
    if missing and not any("unknown key" in problem for problem in found):
        found.append(f"{file}: missing {', '.join(missing)}")
    if found:
        raise ThemeError("\n".join(found))
    values: dict[str, Any] = {**table, **{key: tuple(table[key]) for key in LISTS}}
    return Palette(**values)


@dataclass(frozen=True, slots=True)
class _Problem:
    """What is wrong with an entry, and where inside of it."""

    text: str
    path: tuple[int, ...] = ()


def _problem(key: str, value: Any, known: list[str]) -> _Problem | None:
    """What is wrong with one entry of a theme, or None."""
    if key not in known:
        return _Problem(f'unknown key "{key}"{suggestion(key, known)}')
    if key == "name":
        word = isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_-]+", value)
        return None if word else _Problem('"name" must be a word of letters, digits, - and _')
    if key in ("dark", "mono"):
        return None if isinstance(value, bool) else _Problem(f'"{key}" must be true or false')
    if key in LISTS:
        if not isinstance(value, list) or len(value) != LISTS[key]:
            return _Problem(f'"{key}" must be a list of {LISTS[key]} colours')
        wrong = [(index, item) for index, item in enumerate(value) if not is_colour(item)]
        return _Problem(f'"{key}" has {_no_colour(wrong[0][1])}', (wrong[0][0],)) if wrong else None
    return None if is_colour(value) else _Problem(f'"{key}" is {_no_colour(value)}')


def _no_colour(value: Any) -> str:
    """A value, and why it is no colour."""
    hint = suggestion(value, NAMED) if isinstance(value, str) else ""
    return f"{shown(value)}, which is neither #rrggbb nor one of the 16 names{hint}"
