"""Colours: a theme file read, checked, and turned into the styles that the widgets draw with.

A theme is a flat TOML table (`themes/dark.toml` documents the keys). A wrong one is reported by file, line
and key, with the nearest key when a name looks misspelt.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.style import Style
from textual.theme import Theme

import kvtop

HUES = 8
VARIANTS = 3
"""Brightness variations of every hue, so that 24 neighbouring requests look different."""
LEVELS = 6
"""Brightness of a block in its owner's hue: 0 darkest ... 4 full colour, 5 brightest (shared)."""
_RAMP = (-0.68, -0.52, -0.36, -0.18, 0.0, 0.42)
_VARIANT = (0.0, 0.3, -0.28)

_COLOUR = re.compile(r"#[0-9a-fA-F]{6}\Z")

Rgb = tuple[int, int, int]


class ThemeError(ValueError):
    """A theme that cannot be used; the message has one line for each problem, each naming its place."""


def mix(a: str, b: str, share: float) -> str:
    """The colour that lies `share` (0 to 1) of the way from `a` to `b`; all are `#rrggbb`."""
    pairs = zip(bytes.fromhex(a[1:]), bytes.fromhex(b[1:]), strict=True)
    return "#" + bytes(round(x + (y - x) * share) for x, y in pairs).hex()


def shade(colour: str, amount: float, dark: str, bright: str) -> str:
    """`colour` moved towards `bright` (amount > 0) or `dark` (amount < 0)."""
    return mix(colour, bright if amount > 0 else dark, abs(amount))


@dataclass(frozen=True)
class Palette:
    """A theme's colours, `#rrggbb` each, and the styles made of them. Never changed."""

    name: str
    dark: bool
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

    @cached_property
    def inks(self) -> tuple[tuple[str, ...], ...]:
        """`inks[hue + HUES * variant][level]`: what a block of an owner is drawn with."""
        ink = []
        for variant in range(VARIANTS):
            for owner in self.owners:
                base = shade(owner, _VARIANT[variant], self.background, "#ffffff")
                ink.append(tuple(shade(base, amount, self.track, "#ffffff") for amount in _RAMP))
        return tuple(ink)

    @cached_property
    def dimmed(self) -> tuple[str, ...]:
        """`dimmed[level]`: what a block is drawn with while another sequence is selected."""
        return tuple(mix(self.track, self.muted, 0.12 + 0.085 * level) for level in range(LEVELS))

    def textual_theme(self) -> Theme:
        """The same colours for Textual's own widgets: dialogs, inputs, scrollbars."""
        return Theme(
            name=f"kvtop-{self.name}",
            primary=self.primary,
            secondary=self.used,
            warning=self.warning,
            error=self.error,
            success=self.good,
            accent=self.focus,
            foreground=self.text,
            background=self.background,
            surface=self.raised,
            panel=self.raised,
            boost=self.raised,
            dark=self.dark,
            variables={
                "kv-border": self.border,
                "kv-focus": self.focus,
                "kv-muted": self.muted,
                "kv-raised": self.raised,
                "kv-row": self.row,
            },
        )


def ink_index(request: int, branch: int = 0) -> int:
    """Which of `Palette.inks` a sequence is drawn with. Neighbouring requests differ in hue, the branches
    of one request in brightness; the same sequence has the same ink in every run."""
    return request % HUES + HUES * ((request // HUES + branch) % VARIANTS)


def theme_path(name: str) -> Path:
    """The file of a built-in theme: `kvtop/themes` when installed, `themes/` in a checkout.

    Raises ThemeError when there is none, naming those there are.
    """
    folders = [Path(part) / "themes" for part in kvtop.__path__]
    for folder in folders:
        if (path := folder / f"{name}.toml").is_file():
            return path
    known = sorted(path.stem for folder in folders if folder.is_dir() for path in folder.glob("*.toml"))
    raise ThemeError(f'no theme "{name}"; there are: {", ".join(known) or "none"}')


def load_palette(theme: str | Path = "dark") -> Palette:
    """Read a theme by name or file. Raises ThemeError with every problem found, one a line."""
    path = theme if isinstance(theme, Path) else theme_path(theme)
    try:
        source = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ThemeError(f"{path}: cannot be read: {error}") from error
    return parse_palette(source, str(path))


def parse_palette(source: str, file: str) -> Palette:
    """A palette from a theme's text; `file` is named in problems. Raises ThemeError as `load_palette`."""
    try:
        table = tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line (\d+)", str(error))
        message = re.sub(r" \(at .*\)\Z", "", str(error))
        raise ThemeError(f"{file}:{place[1] if place else len(source.splitlines())}: {message}") from error
    known = [field.name for field in fields(Palette)]
    problems = [_problem(key, value, known) for key, value in table.items()]
    found = [
        f"{file}:{_line_of(key, source)}: {text}" for key, text in zip(table, problems, strict=True) if text
    ]
    missing = [key for key in known if key not in table]
    if missing and not any(problem and problem.startswith("unknown") for problem in problems):
        found.append(f"{file}: missing {', '.join(missing)}")
    if found:
        raise ThemeError("\n".join(found))
    values: dict[str, Any] = {**table, "owners": tuple(table["owners"])}
    return Palette(**values)


def _problem(key: str, value: Any, known: list[str]) -> str | None:
    """What is wrong with one entry of a theme, or None."""
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1)
        return f'unknown key "{key}"' + (f' (did you mean "{near[0]}"?)' if near else "")
    if key == "name":
        return None if isinstance(value, str) and value else '"name" must be a word'
    if key == "dark":
        return None if isinstance(value, bool) else '"dark" must be true or false'
    if key == "owners":
        if not isinstance(value, list) or len(value) != HUES:
            return f'"owners" must be a list of {HUES} colours'
        wrong = [item for item in value if not (isinstance(item, str) and _COLOUR.match(item))]
        return f'"owners" has {wrong[0]!r}, which is no colour of the form #rrggbb' if wrong else None
    if not (isinstance(value, str) and _COLOUR.match(value)):
        return f'"{key}" is {value!r}, which is no colour of the form #rrggbb'
    return None


def _line_of(key: str, source: str) -> int:
    """The line on which a top-level key is set, counted from 1."""
    pattern = re.compile(rf'\s*(\[+\s*)?["\']?{re.escape(key)}["\']?\s*[=.\]]')
    for number, line in enumerate(source.splitlines(), 1):
        if pattern.match(line):
            return number
    return 1
