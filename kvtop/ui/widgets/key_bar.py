"""The last line: keys that apply, or a notice for a while."""

from __future__ import annotations

from textual import events

from kvtop.session.session import Notice
from kvtop.ui.actions import Action
from kvtop.ui.text import fit, visible
from kvtop.ui.view import View
from kvtop.ui.widgets.lines import Line, LineBuilder, LineWidget


class KeyBar(LineWidget):
    """htop's bar: key, then what it does. A notice covers it until it expires or the next one comes."""

    DEFAULT_CSS = "KeyBar { height: 1; }"

    def __init__(self, actions: tuple[Action, ...], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.actions = tuple(action for action in actions if action.bar)
        self.notice: Notice | None = None
        self._key: tuple[object, ...] = ()
        self._places: list[tuple[int, int, Action]] = []

    def show(self, view: View) -> list[int]:
        """Make the bar anew if it differs, which it seldom does."""
        key = (self.extent, self.notice, view.palette.name)
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
        for action in self._shown(width):
            start = line.width
            line.put(f" {action.label}", ink("text", bold=True)).put(
                f" {action.bar} ", ink("key_text", "key")
            )
            self._places.append((start, line.width, action))
        return [line.space_to(width, ink("text")).line()]

    def _shown(self, width: int) -> list[Action]:
        """The actions that fit, help and quit always among them."""
        shown, used = [], 0
        first = [action for action in self.actions if action.id in ("help", "quit")]
        order = [*first, *(action for action in self.actions if action not in first)]
        for action in order:
            size = len(action.label) + len(action.bar) + 3
            if used + size <= width:
                shown.append(action)
                used += size
        return [action for action in self.actions if action in shown]

    async def on_click(self, event: events.Click) -> None:
        """Do what was clicked."""
        for start, end, action in self._places:
            if self.notice is None and start <= event.x < end:
                await self.screen.run_action(action.binding)
