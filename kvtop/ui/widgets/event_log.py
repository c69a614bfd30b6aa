"""The log: what happened to blocks and sequences, newest last."""

from __future__ import annotations

from textual import events

from kvtop.memory.events import AnyEvent
from kvtop.ui.narrate import narrate
from kvtop.ui.text import count
from kvtop.ui.view import View
from kvtop.ui.widgets.lines import Line, LineBuilder
from kvtop.ui.widgets.panel import PanelBody

WORD = 11
"""Width of the first word, in cells."""

Moment = tuple[int, int]
"""Step and order within it."""


class EventLog(PanelBody):
    """Follows the newest event until it is scrolled; then it stays at the event that was last in sight."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.bottom: Moment | None = None
        """The last event in sight; None follows the newest."""

    def heading(self, view: View) -> tuple[str, str]:
        if view.snapshot is None or self.bottom is None:
            return "Events", ""
        return "Events", f"at step {count(self.bottom[0])}, End for the newest"

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        if view.snapshot is None:
            return []
        happened = view.snapshot.events
        lines: list[Line] = []
        for event in reversed(happened[: self._end(happened)]):
            if len(lines) == height:
                break
            if (line := self._line(view, event, width)) is not None:
                lines.append(line)
        return lines[::-1]

    def _end(self, happened: tuple[AnyEvent, ...]) -> int:
        """How many of the events are above the lower edge."""
        if self.bottom is None:
            return len(happened)
        end = sum((event.step, event.order) <= self.bottom for event in happened)
        return max(end, min(len(happened), max(1, self.size.height)))

    def _line(self, view: View, event: AnyEvent, width: int) -> Line | None:
        told = narrate(event)
        if told is None:
            return None
        tone, word, rest = told
        ink = view.palette.style
        line = LineBuilder().cell(count(event.step), 7, ink("faint"), ">").put(" ", ink("text"))
        line.cell(word, WORD, ink(tone.value, bold=tone.value != "muted")).put(" ", ink("text"))
        return line.cell(rest, width - line.width, ink("text" if tone.value != "muted" else "muted")).line()

    def move(self, dx: int, dy: int) -> None:
        """Scroll by events; past the newest it follows again."""
        if self.view is None or self.view.snapshot is None or not dy:
            return
        happened = [event for event in self.view.snapshot.events if narrate(event) is not None]
        if not happened:
            return
        end = len(happened) if self.bottom is None else self._end(tuple(happened))
        target = max(min(len(happened), self.size.height), end + dy)
        last = happened[min(target, len(happened)) - 1]
        self.bottom = None if target >= len(happened) else (last.step, last.order)
        self.again()
        if self.parent is not None:
            self.parent.again()  # type: ignore[attr-defined]

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll towards the newest."""
        self.move(0, 3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll towards the oldest."""
        self.move(0, -3)
