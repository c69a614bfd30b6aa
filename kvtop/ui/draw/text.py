"""Text as text: control characters made visible, widths counted in terminal cells, figures with units.

Prompts, generated tokens, request labels and model names are data. Whatever is in them is shown and never
obeyed: escape sequences, bidirectional overrides, zero-width and other invisible characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.cells import cell_len, get_character_cell_size

ELLIPSIS = "…"

_CONTROL = {code: chr(0x2400 + code) for code in range(0x20)} | {0x0A: "↵", 0x09: "⇥", 0x7F: "␡"}
_NAMED = re.compile(
    "["
    "\x80-\x9f"  # C1 controls, among them the one-byte CSI
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # invisible fillers and joiners
    "\u200b-\u200f\u2028-\u202f\u205f-\u206f"  # zero width, separators, bidirectional controls
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"  # fillers, variation selectors, byte order mark
    "\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff"  # half flags and skin tones: width differs by terminal
    "\U000e0000-\U000e0fff"  # tags and variation selectors
    "\ud800-\udfff"  # lone surrogates cannot be written to a terminal
    "]"
)


def visible(text: str) -> str:
    """`text` with every control, invisible or width-ambiguous character replaced by a visible one.

    C0 controls and DEL become their Unicode pictures (escape is `␛`, newline `↵`, tab `⇥`), the others
    their code point in single guillemets, as `‹202e›`. A combining mark with nothing to combine with gets
    a dotted circle, so that it cannot attach to a frame. Changes nothing else.
    """
    if text.isascii() and text.isprintable():
        return text
    shown = _NAMED.sub(lambda match: f"‹{ord(match[0]):x}›", text.translate(_CONTROL))
    if shown and get_character_cell_size(shown[0]) == 0:
        return "◌" + shown
    return shown


def head(text: str, width: int) -> str:
    """The first cells of `text` that fit in `width`, with an ellipsis when some did not."""
    if cell_len(text) <= width:
        return text
    if width < 1:
        return ""
    if text.isascii() and text.isprintable():
        return text[: width - 1] + ELLIPSIS
    used, out = 0, []
    for character in text:
        size = get_character_cell_size(character)
        if used + size > width - 1:
            break
        used += size
        out.append(character)
    return "".join(out) + ELLIPSIS


def tail(text: str, width: int) -> str:
    """The last cells of `text` that fit in `width`, after an ellipsis when some did not."""
    if cell_len(text) <= width:
        return text
    if width < 1:
        return ""
    rest = text[1 - width :] if width > 1 else ""
    if rest and cell_len(rest) == width - 1 and get_character_cell_size(rest[0]):
        return ELLIPSIS + rest  # one cell a character, as nearly always
    used, start = 0, len(text)
    while start > 0:
        size = get_character_cell_size(text[start - 1])
        if used + size > width - 1:
            break
        used += size
        start -= 1
    # A combining mark whose base was cut away must not attach to the ellipsis.
    while start < len(text) and get_character_cell_size(text[start]) == 0:
        start += 1
    return ELLIPSIS + text[start:]


def fit(text: str, width: int, align: str = "<") -> str:
    """`text` cut or padded to exactly `width` cells, to the left (`<`) or the right (`>`)."""
    shown = head(text, width)
    space = " " * (width - cell_len(shown))
    return space + shown if align == ">" else shown + space


def wrap(text: str, width: int) -> list[str]:
    """`text` broken into lines of at most `width` cells, at spaces where there are some."""
    lines: list[str] = []
    line, used = "", 0
    for word in re.findall(r"\S+\s*|\s+", text):
        size = cell_len(word.rstrip())
        if used and used + size > width:
            lines.append(line.rstrip())
            line, used = "", 0
        while cell_len(word.rstrip()) > width > 0:
            piece = head(word, width + 1)[:-1] or word[0]
            lines.append(piece)
            word = word[len(piece) :]
        line += word
        used += cell_len(word)
    if line.strip():
        lines.append(line.rstrip())
    return lines


def first_fit(candidates: Iterable[str], width: int) -> str:
    """The first candidate that fits in `width` cells; the last one cut to size when none does."""
    text = ""
    for text in candidates:
        if cell_len(text) <= width:
            return text
    return head(text, width)


def count(number: int) -> str:
    """A whole number with thousands separated: `1,284`."""
    return f"{number:,}"


def size(number: float) -> str:
    """Bytes in binary units with about three digits: `24 KiB`, `5.3 MiB`."""
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if value >= 100 or value == int(value) else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def clock(seconds: float) -> str:
    """Elapsed time as `hh:mm:ss`."""
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def percent(part: int, whole: int) -> str | None:
    """`part` of `whole` as `62 %`, one digit more below 10; None when `whole` is 0 (no such share)."""
    if whole <= 0:
        return None
    share = 100 * part / whole
    return f"{share:.1f} %" if share < 10 else f"{share:.0f} %"


def rate(number: float) -> str:
    """A rate with about three digits: `1,240`, `38`, `4.2`."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"


def duration(seconds: float) -> str:
    """A short time: `1.2 s`, `12.4 ms`, `310 µs`."""
    if seconds >= 1:
        return f"{seconds:.1f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds * 1e6:.0f} µs"
