"""On which line each key of a TOML document stands.

The standard library's reader gives values without positions. This scan gives positions without values:
it walks a text that `tomllib` has already accepted, so it need not judge, only keep count.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping

Path = tuple[str | int, ...]
"""Keys from the root; an integer is an index into an array (of tables or of values)."""

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'  # up to two quotes may stand before the closing three
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\]|\\.)*"'
    r"|'[^']*'",
    re.DOTALL,
)
_BARE_VALUE = re.compile(r"[^,\]}#\n]*")


def key_lines(text: str) -> Mapping[Path, int]:
    """Line (from 1) of every key, table and array element in valid TOML `text` with `\\n` line ends.

    The element of an array of tables stands where its `[[header]]` does; a table that only dotted keys or
    sub-headers imply, where it is first named. The root, `()`, is line 1. Changes nothing.
    """
    return _Scan(text).document()


class _Scan:
    """A cursor over the text and what it has found so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {(): 1}
        self.counts: dict[Path, int] = {}
        self.breaks = [i for i, character in enumerate(text) if character == "\n"]

    def document(self) -> dict[Path, int]:
        table: Path = ()
        self.skip()
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.pair(table)
            self.skip()
        return self.lines

    def skip(self) -> None:
        """Move past white space, line ends and comments."""
        match = _SPACE.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def take(self, characters: str) -> bool:
        """Move past `characters` if they come next."""
        found = self.text.startswith(characters, self.at)
        self.at += len(characters) if found else 0
        return found

    def mark(self, path: Path, at: int) -> None:
        self.lines.setdefault(path, bisect_right(self.breaks, at - 1) + 1)

    def header(self) -> Path:
        """`[table]` or `[[array]]`; returns the path that its pairs belong to."""
        at = self.at
        is_array = self.take("[[")
        self.at += 0 if is_array else 1
        *parents, last = self.dotted()
        self.take("]]" if is_array else "]")
        path: Path = ()
        for key in parents:
            path = self.element((*path, key))
            self.mark(path, at)
        path = (*path, last)
        self.mark(path, at)
        if is_array:
            self.counts[path] = self.counts.get(path, 0) + 1
        path = self.element(path)
        self.mark(path, at)
        return path

    def element(self, path: Path) -> Path:
        """The newest element of an array of tables, or the path itself."""
        return (*path, self.counts[path] - 1) if path in self.counts else path

    def dotted(self) -> list[str]:
        """The parts of a key."""
        parts: list[str] = []
        while True:
            self.skip()
            bare = _BARE_KEY.match(self.text, self.at)
            match = bare or _STRING.match(self.text, self.at)
            assert match is not None
            self.at = match.end()
            parts.append(match[0] if bare else str(tomllib.loads(f"key = {match[0]}")["key"]))
            self.skip()
            if not self.take("."):
                return parts

    def pair(self, table: Path) -> None:
        """`key = value`."""
        at, path = self.at, table
        for key in self.dotted():
            path = (*path, key)
            self.mark(path, at)
        self.take("=")
        self.value(path)

    def value(self, path: Path) -> None:
        self.skip()
        if self.take("["):
            self.items(path)
        elif self.take("{"):
            self.inline_table(path)
        else:
            match = _STRING.match(self.text, self.at) or _BARE_VALUE.match(self.text, self.at)
            assert match is not None
            self.at = match.end()

    def items(self, path: Path) -> None:
        index = 0
        self.skip()
        while not self.take("]"):
            element = (*path, index)
            self.mark(element, self.at)
            self.value(element)
            index += 1
            self.skip()
            self.take(",")
            self.skip()

    def inline_table(self, path: Path) -> None:
        self.skip()
        while not self.take("}"):
            self.pair(path)
            self.skip()
            self.take(",")
            self.skip()
