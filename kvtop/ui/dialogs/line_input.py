"""One line of input at the bottom of the screen, as htop's for search and filter."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.geometry import Region
from textual.widgets import Input, Static

from kvtop.ui.commands.actions import Action, key_label
from kvtop.ui.commands.intents import AskLine
from kvtop.ui.draw.palette import Palette
from kvtop.ui.parts.overlay import Overlay

LONGEST = 200
"""Characters that the line takes."""
ROOM = 24
"""Cells that what is typed and the word at the right keep before keys are named."""
POLL_SECONDS = 0.2
"""How often the word at the right is asked for while nobody types."""

_BREAKS = re.compile(r"[\r\n\t]+")


def one_line(text: str) -> str:
    """Pasted text as one line: breaks become blanks, other characters that cannot be printed are left out."""
    return "".join(filter(str.isprintable, _BREAKS.sub(" ", text.strip())))


@dataclass(frozen=True, slots=True)
class LineKey:
    """A key that does something while the line is open."""

    keys: tuple[str, ...]
    """Textual's names."""
    label: str
    word: str
    do: Callable[[], None]

    @classmethod
    def of(cls, action: Action, word: str, do: Callable[[], None]) -> LineKey:
        """An action's keys, of which those that are characters belong to the text."""
        keys = tuple(key for key in action.keys if len(key_label(key)) > 1 and key != "space")
        return cls(keys, key_label(keys[0]) if keys else "", word, do)


class OneLine(Input):
    """An input that takes pasted text whole, and as text only."""

    def _on_paste(self, event: events.Paste) -> None:
        """Insert it where the cursor is, in place of what is selected."""
        event.stop()
        event.prevent_default()
        if text := one_line(event.text):
            self.replace(text, *self.selection)


class LineInput(Overlay[None]):
    """Asks for a text and says with every change what comes of it. Enter keeps the text, Esc clears it.

    What is asked, and who is told, says `AskLine`; on Esc `changed` is called with the empty text. `extra`
    are further keys.
    """

    BINDINGS = [("escape", "clear", "Clear")]

    def __init__(
        self,
        ask: AskLine,
        palette: Palette,
        extra: tuple[LineKey, ...] = (),
    ) -> None:
        super().__init__()
        self.title = ask.title
        self._palette = palette
        self._value = ask.value
        self._changed = ask.changed
        self._word = ask.word
        self._bar = (
            *extra,
            LineKey((), "Enter", "Done", self._keep),
            LineKey((), "Esc", "Clear", self.action_clear),
        )
        self._places: list[tuple[int, int, LineKey]] = []
        self._shown = ("", False)
        moves = {"up": -1, "down": 1, "pageup": -ask.page, "pagedown": ask.page}
        self._do: dict[str, Callable[[], None]] = {key: entry.do for entry in extra for key in entry.keys}
        for key, rows in moves.items():
            self._do[key] = lambda rows=rows: ask.move(0, rows)  # type: ignore[misc]

    def compose(self) -> ComposeResult:
        with Horizontal(id="line"):
            yield Static(id="line-keys", markup=False)
            yield OneLine(self._value, id="line-text", compact=True, select_on_focus=True, max_length=LONGEST)
            yield Static(id="line-word", markup=False)

    def on_mount(self) -> None:
        self._show_word()
        self.set_interval(POLL_SECONDS, self._show_word)

    def on_resize(self, event: events.Resize) -> None:
        """Name the keys for which there is room."""
        width, height = event.size
        self.covered = Region(0, height - 1, width, 1)
        ink = self._palette.style
        line = Text()
        self._places = []
        prompt = f" {self.title}: "
        used = len(prompt) + ROOM
        for key in reversed(self._bar):
            used += len(key.label) + len(key.word) + 1
            if used > width:
                break
            self._places.insert(0, (0, 0, key))
        for index, (_, _, key) in enumerate(self._places):
            start = len(line)
            line.append(key.label, ink("text", bold=True)).append(f"{key.word} ", ink("key_text", "key"))
            self._places[index] = (start, len(line), key)
        line.append(prompt, ink("primary", bold=True))
        self.query_one("#line-keys", Static).update(line)

    def _show_word(self) -> None:
        """What has come of the text."""
        word = text, warning = self._word()
        if word == self._shown:
            return
        self._shown = word
        ink = self._palette.style("warning" if warning else "muted", bold=warning)
        self.query_one("#line-word", Static).update(Text(f" {text} " if text else "", ink))

    # -- what is typed ------------------------------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        """Hand it on as it is typed."""
        if event.value != self._value:
            self._value = event.value
            self._changed(event.value)
            self._show_word()

    def on_input_submitted(self) -> None:
        self._keep()

    def _keep(self) -> None:
        """Leave; the text stays in force."""
        self.dismiss()

    def action_clear(self) -> None:
        """Leave with an empty line."""
        self._changed("")
        self.dismiss()

    def on_key(self, event: events.Key) -> None:
        """Keys that are not for the text."""
        if do := self._do.get(event.key):
            event.stop()
            do()
            self._show_word()

    def on_click(self, event: events.Click) -> None:
        """A named key is done; above the line is as good as Enter."""
        if event.screen_y < self.covered.y:
            self._keep()
            return
        for start, end, key in self._places:
            if start <= event.screen_x < end:
                key.do()
                if self.is_current:
                    self._show_word()
