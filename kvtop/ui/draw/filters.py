"""What is done to every strip on its way to a terminal that cannot carry all of it: ASCII, or no colours.

The filters see finished strips, those of dialogs and of Textual's own widgets too, and keep their widths.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from rich.cells import get_character_cell_size
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter, Monochrome, NoColor
from textual.strip import Strip

from kvtop.ui.draw.colours import contrast
from kvtop.ui.draw.glyphs import ASCII_EIGHTHS, EIGHTHS, Glyphs

_SIGNS = {
    "─╌┄┈╴╶▔": "-", "━═╍┅┉╸╺": "=", "│┃║╎┆┊▏▎▍▌▋▊▕▐▉": "|",
    "┌┐┘╭╮╰╯┬┴┼┏┓┗┛╔╗╚╝╠╣╦╩╬┤┝┥╞╡": "+", "├": "|", "└": "`",
    "▀": '"', "░": ":", "▒": "=", "▓": "+", "■▪◼": "#", "□▫◻": "o",
    "·•∙⋅․": ".", "●◆★✓✔✱": "*", "○◇◌☆": "o", "✗✘×": "x",
    "↑▲△▴⇧": "^", "↓▼▽▾⇩": "v", "←◀◁◂⇐‹«": "<", "→▶▷▸⇒›»": ">", "↔↕": "-",
    "…": "~", "“”„‟": '"', "‘’‚‛": "'", "‐‑‒–—―−": "-",
    "µμ": "u", "≤": "<", "≥": ">", "≈≃": "~", "÷": "/", "√": "V", "↵": "$", "⇥": ">",
}  # fmt: skip


class _Ascii(dict[int, str]):
    """Code points to ASCII of the same number of cells; what is not known is worked out once."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        base = unicodedata.normalize("NFKD", character)[0]  # an accented letter without its accent
        width = get_character_cell_size(character)
        sign = base if width == 1 and base.isascii() and base.isprintable() else "?" * width
        self[code] = sign if code > 0x7F else character
        return self[code]


_TABLE = _Ascii({ord(character): sign for group, sign in _SIGNS.items() for character in group})
_TABLE.update({ord(block): sign for block, sign in zip(EIGHTHS, ASCII_EIGHTHS, strict=True)})


def ascii_text(text: str) -> str:
    """`text` in ASCII, with as many cells: lines as `+ - |`, blocks as a ramp of signs, arrows as
    `^ v < >`, letters without their accents, all else as `?`. Marks without a width of their own are left
    out."""
    return text if text.isascii() else text.translate(_TABLE)


class AsciiFilter(LineFilter):
    """Every strip in ASCII."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments with their texts in ASCII; the same list when they are already."""
        if all(segment.text.isascii() for segment in segments):
            return segments
        return [Segment(ascii_text(text), style, control) for text, style, control in segments]


_DISTINCT = 1.7
"""Contrast with the ground from which on a background means something, and is shown in reverse."""
_FAINT = 4.0
"""Contrast below which writing is dim."""
_BRIGHT = 18.0
"""Contrast from which on it is bold."""


class NoColourFilter(LineFilter):
    """No colours at all: what they said of rank is said by reverse, bold and dim, what they said of owners is
    lost. `ground` is the colour of the screen behind everything."""

    def __init__(self, ground: str = "#000000") -> None:
        super().__init__()
        self.ground = ground

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments without colours."""
        ground = self.ground
        return [
            Segment(text, None if style is None else _plain(style, ground, _has_blocks(text)), control)
            for text, style, control in segments
        ]


def _has_blocks(text: str) -> bool:
    """Whether a text draws with block characters, which carry their colour themselves."""
    return not text.isascii() and any("\u2580" <= character <= "\u259f" for character in text)


@lru_cache(4096)
def _plain(style: Style, ground: str, blocks: bool) -> Style:
    """A style without colours. Reverse stands for a background that differs from the ground, except where a
    block character brighter than that background is drawn on it."""
    ink = _contrast(style.color, ground, default=_FAINT)
    back = _contrast(style.bgcolor, ground, default=1.0)
    if style.reverse:
        ink, back = back, ink
    reverse = back >= _DISTINCT and not (blocks and ink >= back)
    strength = max(ink, back) if reverse else ink
    return Style(
        bold=True if style.bold or strength >= _BRIGHT else None,
        dim=True if style.dim or strength < _FAINT else None,
        underline=True if style.underline else None,
        reverse=True if reverse else None,
    )


def _contrast(colour: RichColor | None, ground: str, default: float) -> float:
    """Contrast of a colour with the ground; `default` for the terminal's own."""
    if colour is None or colour.is_default:
        return default
    return contrast(colour.get_truecolor().hex, ground)


@lru_cache
def line_filters(glyphs: Glyphs, no_color: bool, ground: str = "#000000") -> tuple[LineFilter, ...]:
    """The filters that an app needs for a glyph set, and for a terminal that is to have no colours: the same
    objects at every call, for strips remember what a filter made of them.

    `ground` is the palette's background. `without_greys` takes out what Textual itself would do.
    """
    colours: tuple[LineFilter, ...] = (NoColourFilter(ground),) if no_color else ()
    return (*colours, AsciiFilter()) if glyphs.ascii else colours


def without_greys(filters: Iterable[LineFilter]) -> list[LineFilter]:
    """Textual's filters without those for NO_COLOR: they leave greys, or the terminal's default colours."""
    return [found for found in filters if not isinstance(found, Monochrome | NoColor)]


_GROUND = Color(0, 0, 0)


def filter_strips(app: App[object], strips: Iterable[Strip]) -> list[Strip]:
    """Strips of true or named colours as the app's terminal takes them. A strip keeps what it became, and
    without filters this is a copy of the list."""
    found = list(strips)
    for line_filter in app.get_line_filters():
        if isinstance(line_filter, AsciiFilter | NoColourFilter):
            found = [strip.apply_filter(line_filter, _GROUND) for strip in found]
    return found
