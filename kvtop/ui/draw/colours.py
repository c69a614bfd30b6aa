"""Arithmetic on colours: `#rrggbb`, and the sixteen that every terminal has under their names.

A named colour reaches the terminal as its own code, and what it looks like is the terminal's affair. So it
cannot be mixed: mixes and shades of named colours are named colours again.
"""

from __future__ import annotations

import re

NAMED: dict[str, str] = {
    "black": "#000000",
    "red": "#cd0000",
    "green": "#00cd00",
    "yellow": "#cdcd00",
    "blue": "#0000ee",
    "magenta": "#cd00cd",
    "cyan": "#00cdcd",
    "white": "#e5e5e5",
    "bright_black": "#7f7f7f",
    "bright_red": "#ff0000",
    "bright_green": "#00ff00",
    "bright_yellow": "#ffff00",
    "bright_blue": "#5c5cff",
    "bright_magenta": "#ff00ff",
    "bright_cyan": "#00ffff",
    "bright_white": "#ffffff",
}
"""The names, with what xterm makes of them; other terminals differ."""

_HEX = re.compile(r"#[0-9a-fA-F]{6}\Z")


def is_colour(value: object) -> bool:
    """Whether a value is `#rrggbb` or a name of the sixteen."""
    return isinstance(value, str) and (value in NAMED or _HEX.match(value) is not None)


def mix(a: str, b: str, share: float) -> str:
    """The colour that lies `share` (0 to 1) of the way from `a` to `b`; of names, the nearer one itself."""
    if a in NAMED or b in NAMED:
        return a if share < 0.5 else b
    pairs = zip(bytes.fromhex(a[1:]), bytes.fromhex(b[1:]), strict=True)
    return "#" + bytes(round(x + (y - x) * share) for x, y in pairs).hex()


def shade(colour: str, amount: float, near: str, far: str) -> str:
    """`colour` moved towards `far` (amount > 0) or `near` (amount < 0), by a share of the way.

    A named colour has one neighbour: its bright partner, where `amount` is above 0 and `far` is lighter than
    `near`; its plain one where it is darker. Below 0 it stays what it is.
    """
    if colour not in NAMED:
        other = far if amount > 0 else near
        return mix(colour, NAMED.get(other, other), abs(amount))
    if amount <= 0:
        return colour
    lighter = luminance(far) > luminance(near)
    partner = f"bright_{colour.removeprefix('bright_')}" if lighter else colour.removeprefix("bright_")
    return partner if partner in NAMED else colour


def luminance(colour: str) -> float:
    """Relative luminance of a colour, 0 (black) to 1 (white), as WCAG 2 defines it."""
    channels = [value / 255 for value in bytes.fromhex(NAMED.get(colour, colour)[1:])]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    """Contrast ratio of two colours, 1 (none) to 21, as WCAG 2 defines it."""
    first, second = sorted((luminance(a), luminance(b)))
    return (second + 0.05) / (first + 0.05)
