"""The log: what happened to blocks and sequences, newest last."""

from __future__ import annotations

from textual import events

from kvtop.memory.events import Allocated, AnyEvent, Evicted
from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.draw.text import count
from kvtop.ui.frame.event_filter import EventFilter, moment
from kvtop.ui.frame.narration import Told, Tone, log_lines
from kvtop.ui.frame.view import View
from kvtop.ui.panels.events.common import EventPanel

WORD = 11
"""Width of the first word, in cells."""


class EventLog(EventPanel):
    """Follows the newest event until it is scrolled; then it stays at the event that was last in sight."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._wanted: tuple[tuple[AnyEvent, ...], EventFilter, tuple[AnyEvent, ...]] | None = None
        self._shown: list[AnyEvent] = []
        """The events of the lines in sight."""

    def heading(self, view: View) -> tuple[str, str]:
        if view.snapshot is None or self.state.at is None:
            return self.title_of_events, ""
        return self.title_of_events, f"at step {count(self.state.at[0])}, End for the newest"

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        if view.snapshot is None:
            return []
        told = log_lines(self._events(view), self._kept(height))
        if self.state.at is not None:
            told = told[: self._end(told, height)]
        told = told[-height:]
        self._shown = [event for event, _ in told]
        if not told:
            return [self.empty(view, width)]
        return [self._line(view, event, words, width) for event, words in told]

    def _events(self, view: View) -> tuple[AnyEvent, ...]:
        """The events that fit the filter; behind an eviction also who took the blocks."""
        happened = view.snapshot.events if view.snapshot is not None else ()
        if not self.state.filter.text:
            return happened
        kept = self._wanted
        if kept is None or kept[0] is not happened or kept[1] != self.state.filter:
            fits = {moment(event) for event in self.state.filter.among(happened)}
            events = tuple(
                event
                for before, event in zip((None, *happened), happened, strict=False)
                if moment(event) in fits
                or (isinstance(event, Allocated) and isinstance(before, Evicted) and moment(before) in fits)
            )
            kept = self._wanted = happened, self.state.filter, events
        return kept[2]

    def fitting(self) -> tuple[int, int]:
        if self.view is None or self.view.snapshot is None:
            return 0, 0
        return len(self._events(self.view)), len(self.view.snapshot.events)

    def _kept(self, height: int) -> int:
        """How many lines are needed: all when scrolled, else those in sight."""
        return height if self.state.at is None else 1 << 30

    def _end(self, told: list[tuple[AnyEvent, Told]], height: int) -> int:
        """How many lines are above the lower edge."""
        if self.state.at is None:
            return len(told)
        end = sum(moment(event) <= self.state.at for event, _ in told)
        return max(end, min(len(told), height))

    def _line(self, view: View, event: AnyEvent, told: Told, width: int) -> Line:
        tone, word, rest = told
        ink = view.palette.style
        calm = tone is Tone.CALM
        line = LineBuilder().cell(count(event.step), 7, ink("faint"), ">").put(" ", ink("text"))
        line.cell(word, WORD, ink(tone.value, bold=not calm)).put(" ", ink("text"))
        return line.cell(rest, width - line.width, ink("muted" if calm else "text")).line()

    def move(self, dx: int, dy: int) -> None:
        """Scroll by lines; past the newest it follows again."""
        if self.view is None or self.view.snapshot is None or not dy:
            return
        told = log_lines(self._events(self.view), 1 << 30)
        if told:
            height = self.extent.height
            target = max(min(len(told), height), self._end(told, height) + dy)
            last = told[min(target, len(told)) - 1][0]
            self.put(at=None if target >= len(told) else moment(last))
            self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Select what the event under the mouse is about."""
        if self.view is not None and event.y < len(self._shown):
            self.choose(self.view, self._shown[event.y])

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll towards the newest."""
        self.move(0, 3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll towards the oldest."""
        self.move(0, -3)
