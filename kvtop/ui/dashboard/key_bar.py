"""The last line: keys that apply, or a notice for a while."""

from __future__ import annotations

from textual import events

from kvtop.session.session import Notice
from kvtop.ui.commands.actions import Action
from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.draw.text import fit, visible
from kvtop.ui.frame.view import View
from kvtop.ui.parts.lines import LineWidget

TENS = tuple(f"f{number}" for number in range(1, 11))


def _size(action: Action, pad: int) -> int:
    """Cells that an action takes in the bar."""
    return len(action.label) + len(action.bar) + 1 + 2 * pad


class KeyBar(LineWidget):
    """htop's bar: key, then what it does. A notice covers it until it expires or the next one comes."""

    DEFAULT_CSS = "KeyBar { height: 1; }"

    def __init__(self, actions: tuple[Action, ...], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.actions = tuple(action for action in actions if action.bar and action.keys)
        self.notice: Notice | None = None
        self._key: tuple[object, ...] = ()
        self._places: list[tuple[int, int, Action]] = []

    def show(self, view: View) -> list[int]:
        """Make the bar anew if it differs, which it seldom does."""
        key = (self.extent, self.notice, view.palette)
        if key == self._key:
            return []
        self._key = key
        return super().show(view)

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        ink = view.palette.style
        if self.notice is not None:
            colour = "warning" if self.notice.warning else "good"
            sign = " ! " if self.notice.warning else " ✓ "
            line = LineBuilder().put(sign, ink("background", colour, bold=True))
            return [
                line.put(
                    fit(" " + visible(self.notice.text), width - line.width), ink("text", "raised")
                ).line()
            ]
        line = LineBuilder()
        self._places = []
        shown, pad = self._shown(width)
        for action in shown:
            start = line.width
            line.put(" " * pad + action.label, ink("text", bold=True))
            text = " " * pad + action.bar + " "
            line.put(text[: width - line.width], ink("key_text", "key"))
            self._places.append((start, line.width, action))
        return [line.space_to(width, ink("text")).line()]

    def _shown(self, width: int) -> tuple[list[Action], int]:
        """The actions that fit, and the blanks around their labels. Help and quit are always among them;
        where not all of htop's ten fit with blanks, they stand as close as htop's own."""
        first = [action for action in self.actions if action.id in ("help", "quit")]
        order = [*first, *(action for action in self.actions if action not in first)]
        tens = [action for action in self.actions if action.keys and action.keys[0] in TENS]
        pad = int(sum(_size(action, 1) for action in tens) <= width)
        shown, used = set(), 0
        for action in order:
            # The last one may lose its trailing blank to the edge.
            if used + _size(action, pad) > width + 1:
                break
            shown.add(action.id)
            used += _size(action, pad)
        return [action for action in self.actions if action.id in shown], pad

    async def on_click(self, event: events.Click) -> None:
        """Do what was clicked."""
        for start, end, action in self._places:
            if self.notice is None and start <= event.x < end:
                await self.screen.run_action(action.binding)
