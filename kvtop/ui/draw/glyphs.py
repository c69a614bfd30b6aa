"""Which characters the screen is drawn with: half blocks, braille, or ASCII alone."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

EIGHTHS = "▁▂▃▄▅▆▇█"
ASCII_EIGHTHS = "_,:-=o*#"
"""The same eight heights where there is nothing but ASCII: rising to the eye, and no sign that means
something else in the map (`.` is cached, `+` a high reference count)."""
OWNER_MARKS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
"""A letter for every ink (`palette.ink_index`), for screens on which owners have no hue."""

# Dots of a braille cell from the bottom up, in the left and in the right column.
_LEFT, _RIGHT = (0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08)


@dataclass(frozen=True, slots=True)
class Glyphs:
    """A set of characters. Frames, arrows and words are written in Unicode whatever the set; where `ascii`
    is set, a filter (`kvtop.ui.draw.filters`) turns every strip into ASCII of the same width."""

    name: Literal["block", "braille", "ascii"]
    ascii: bool
    """Whether nothing but ASCII reaches the terminal."""
    half_blocks: bool
    """Whether two blocks of the map may share a cell as upper and lower half."""
    plot: Literal["eighths", "braille", "ascii"]
    """How a plot is drawn: columns of eighths, 2 x 4 braille dots a cell, or one sign a cell."""
    eighths: str
    """Eight characters, from an eighth to a full cell: parts of a block, columns of a plot."""
    full: str
    """A bar's cell: what is used."""
    shared: str
    """A bar's cell: what is shared."""
    wasted: str
    """A bar's cell: what is allocated and holds nothing."""
    cached: str
    """A block that is cached, in the map and in bars."""

    def spark(self, values: Sequence[float], width: int, ceiling: float | None = None) -> str:
        """The newest `values` in at most `width` cells; the highest of them (or `ceiling`) is full height.

        Braille has two values a cell, the others one.
        """
        each = 2 if self.plot == "braille" else 1
        shown = values[-width * each :] if width > 0 else ()
        top = ceiling if ceiling is not None else max(shown, default=0.0)
        steps = 4 if each == 2 else 8
        levels = [min(steps - 1, max(0, round(v / top * (steps - 1)))) if top > 0 else 0 for v in shown]
        if each == 1:
            return "".join(self.eighths[level] for level in levels)
        if len(levels) % 2:
            levels.insert(0, -1)  # the oldest cell has its right column alone
        return "".join(
            chr(0x2800 + sum(_LEFT[: left + 1]) + sum(_RIGHT[: right + 1]))
            for left, right in zip(levels[::2], levels[1::2], strict=True)
        )


FOLDED, UNFOLDED = "▸", "▾"
"""Before what is folded, and what can be."""
TAGGED, FOUND, HOLDS = "◆", "»", "◂"
"""Marks of a row: a person tagged it, a search found it, it holds the selected block."""

BLOCK = Glyphs("block", False, True, "eighths", EIGHTHS, "█", "▓", "░", "·")
BRAILLE = Glyphs("braille", False, True, "braille", EIGHTHS, "█", "▓", "░", "·")
ASCII = Glyphs("ascii", True, False, "ascii", ASCII_EIGHTHS, "#", "+", ":", ".")
GLYPHS: dict[str, Glyphs] = {glyphs.name: glyphs for glyphs in (BLOCK, BRAILLE, ASCII)}


def owner_mark(ink: int) -> str:
    """The letter of an ink, as `palette.ink_index` gives it."""
    return OWNER_MARKS[ink % len(OWNER_MARKS)]


def charset(environ: Mapping[str, str]) -> tuple[str, str]:
    """The variable that names the terminal's locale, and its value: the first of LC_ALL, LC_CTYPE and LANG
    that is not empty. Two empty strings when none is set."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        if value := environ.get(name, ""):
            return name, value
    return "", ""


def _carries_utf8(locale: str) -> bool:
    """Whether a locale's name, such as `en_GB.UTF-8`, stands for UTF-8. Without an encoding (`C`, `en_GB`)
    it does not."""
    encoding = locale.partition("@")[0].partition(".")[2] or ("utf-8" if locale.upper() == "UTF-8" else "")
    try:
        return codecs.lookup(encoding).name == "utf-8"
    except LookupError:
        return False


def choose_glyphs(setting: str, environ: Mapping[str, str]) -> Glyphs:
    """The set that a setting (`auto` or a key of GLYPHS) means in an environment. Raises KeyError for others.

    `auto` is ASCII where the locale names a charset other than UTF-8. Where no locale is set UTF-8 is
    assumed: containers set none, and the terminal around them carries it.
    """
    if setting != "auto":
        return GLYPHS[setting]
    _, locale = charset(environ)
    return ASCII if locale and not _carries_utf8(locale) else BLOCK
