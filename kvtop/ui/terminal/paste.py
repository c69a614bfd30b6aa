"""Pasted text is text: nothing in it can end the paste early or act as a key.

Textual reads the terminal's answers and a bracketed paste with one parser, and an escape character inside of
the paste makes it take what follows for keys. So the stream is cleaned before the parser sees it.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual._xterm_parser import XTermParser
from textual.message import Message

START, END = "\x1b[200~", "\x1b[201~"
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡"}
_BLANKS = dict.fromkeys(map(ord, "\t\r\n"), " ")
"""Every field of the program is one line."""


class PasteCleaner:
    """Goes along a terminal's input and makes control characters inside of bracketed pastes visible.

    The markers may be cut anywhere between two reads. Outside of a paste everything passes at once.
    """

    def __init__(self) -> None:
        self._inside = False
        self._matched = 0
        """Characters of the opening marker seen so far."""
        self._held = ""
        """Inside: what may be the beginning of the closing marker."""

    def clean(self, data: str) -> str:
        """The same input, without control characters in what is pasted."""
        if not self._inside and not self._matched and "\x1b" not in data:
            return data
        return "".join(map(self._next, data))

    def _next(self, character: str) -> str:
        if self._inside:
            return self._next_pasted(character)
        if character == START[self._matched]:
            self._matched += 1
        else:
            self._matched = int(character == START[0])
        if self._matched == len(START):
            self._inside, self._matched = True, 0
        return character

    def _next_pasted(self, character: str) -> str:
        held = self._held + character
        if held == END:
            self._inside, self._held = False, ""
            return END
        if END.startswith(held):
            self._held = held
            return ""
        # Not the end after all. The last character may still begin it.
        self._held = character if character == END[0] else ""
        text = held[: len(held) - len(self._held)]
        return text.translate(_BLANKS).translate(_PICTURES)


class PasteSafeParser(XTermParser):
    """Textual's parser behind a `PasteCleaner`."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._cleaner = PasteCleaner()

    def feed(self, data: str) -> Iterable[Message]:
        """Messages for a piece of input; an empty piece is the input's end."""
        return super().feed(self._cleaner.clean(data) if data else data)


def install() -> None:
    """Have Textual's driver for this platform parse its input with `PasteSafeParser` from now on."""
    from textual.drivers import linux_driver

    linux_driver.XTermParser = PasteSafeParser  # type: ignore[attr-defined]
