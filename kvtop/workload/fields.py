"""Checks for single values of a scenario file: what each accepts, and how it says what is wrong."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Check = Callable[[Any], Any]
"""Takes a TOML value and returns it as the program wants it, or raises Problem. Changes nothing."""

_SHOWN = 40


class Problem(ValueError):
    """What is wrong with a value, without its place."""


class PlacedProblem(Problem):
    """What is wrong inside a nested table: `key` below the table, and the problem."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(what)
        self.key = key


def shown(value: Any) -> str:
    """A TOML value in a few characters, as a message can quote it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value if len(value) <= _SHOWN else value[:_SHOWN] + "...", ensure_ascii=False)
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, int) and abs(value) >= 1 << 63:
        return "an integer beyond 64 bits"
    return str(value) if isinstance(value, int | float) else "a date or time"


def suggestion(word: str, known: Iterable[str]) -> str:
    """` (did you mean "x"?)` for the closest of `known`, or nothing."""
    close = difflib.get_close_matches(word.lower()[:_SHOWN], list(known), n=1, cutoff=0.6)
    return f' (did you mean "{close[0]}"?)' if close else ""


def alternatives(words: Iterable[str]) -> str:
    """`"a" or "b"`."""
    return " or ".join(f'"{word}"' for word in words)


def integer(low: int, high: int) -> Check:
    """Whole numbers from `low` to `high`; `true` is not 1, and 3.0 is not 3."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise Problem(f"must be an integer from {low:,} to {high:,}, not {shown(value)}")
        return value

    return check


def number(low: float, high: float, *, below: bool = False) -> Check:
    """Finite numbers from `low` to `high`, or to just below `high`."""
    upto = f"up to but not including {high:,}" if below else f"to {high:,}"

    def check(value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        # a NaN is in no range, so no comparison lets it pass
        if not is_number or not low <= value <= high or (below and value == high):
            raise Problem(f"must be a number from {low:,} {upto}, not {shown(value)}")
        return float(value)

    return check


def text(longest: int) -> Check:
    """Text of 1 to `longest` characters, any characters."""

    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise Problem(f"must be text in quotes, not {shown(value)}")
        if not 0 < len(value) <= longest:
            raise Problem(f"must hold 1 to {longest:,} characters, not {len(value):,}")
        return value

    return check


def flag(value: Any) -> bool:
    """`true` or `false`."""
    if not isinstance(value, bool):
        raise Problem(f"must be true or false, not {shown(value)}")
    return value


def choice(*options: str) -> Check:
    """One of a few words."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in options:
            hint = suggestion(value, options) if isinstance(value, str) else ""
            raise Problem(f"must be {alternatives(options)}, not {shown(value)}{hint}")
        return value

    return check


def either(number_check: Check, text_check: Check) -> Check:
    """A number of tokens, or a text."""

    def check(value: Any) -> Any:
        if isinstance(value, str):
            return text_check(value)
        try:
            return number_check(value)
        except Problem as problem:
            raise Problem(str(problem).replace(", not ", " or text in quotes, not ")) from None

    return check


def table(known: Mapping[str, Check], required: Iterable[str], build: Callable[..., Any]) -> Check:
    """An inline table: `build(**values)` of its checked keys. Raises PlacedProblem about a key of it."""
    form = f"{{ {', '.join(f'{key} = ...' for key in required)} }}"

    def check(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Problem(f"must be a table such as {form}, not {shown(value)}")
        values = {}
        for key, item in value.items():
            if key not in known:
                raise PlacedProblem(key, "unknown key" + suggestion(key, known))
            try:
                values[key] = known[key](item)
            except Problem as problem:
                raise PlacedProblem(key, str(problem)) from None
        for key in required:
            if key not in values:
                raise Problem(f"lacks {key}")
        return build(**values)

    return check
