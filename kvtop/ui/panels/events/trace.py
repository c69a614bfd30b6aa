"""The timeline: every event of the trace on a line of its own, newest last."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from textual import events as input_events

from kvtop.memory.events import AnyEvent, StepBegan, StepEnded, branch_of
from kvtop.timeline.observer import TRACE_EVENTS
from kvtop.ui.commands.intents import LineAction
from kvtop.ui.draw.glyphs import FOUND, owner_mark
from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.draw.palette import ink_index
from kvtop.ui.draw.text import count, first_fit
from kvtop.ui.frame.event_filter import EventFilter, Filtered, Moment, moment, request_in, sequences_of
from kvtop.ui.frame.narration import Tone, describe
from kvtop.ui.frame.ordering import next_place
from kvtop.ui.frame.view import View
from kvtop.ui.panels.events.common import EventPanel
from kvtop.ui.parts.panel import Legend

MOMENT = 11
"""Cells for step and order."""
WORD = 11
WHEEL = 3
HINT = "filter as: evicted, block 131, sequence 42, words; a | b"


class EventTrace(EventPanel):
    """Follows the newest event until the cursor is moved.

    Then the trace is held as it was, so that nothing moves under the cursor while the generator goes on;
    past its last event the newest are followed again.
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._held: Sequence[AnyEvent] | None = None
        self._filtered = Filtered()
        self._found = Filtered()
        self._top = 0

    # -- what is shown ------------------------------------------------------------------------------------

    def heading(self, view: View) -> tuple[str, str]:
        title = self.title_of_events
        if view.snapshot is None:
            return title, ""
        trace = self._trace(view)
        kept = count(len(trace))
        number = f"newest {kept}" if len(trace) >= TRACE_EVENTS else f"{kept} events"
        if self.state.filter.text:
            number = f"{count(len(self._filtered.events))} of {number}"
        words = [number]
        if self.state.at is not None and trace:
            held = f"held at step {count(trace[-1].step)}"
            words = [f"{held}, End follows · {number}", f"{held} · {number}", held]
        return title, first_fit([*words, ""], self.extent.width - len(title) - 8)

    def legend(self, view: View) -> Legend:
        return ((HINT, view.palette.style("faint")),)

    def _trace(self, view: View) -> Sequence[AnyEvent]:
        """The events that may be shown: those that are held, or the snapshot's."""
        if self._held is not None:
            return self._held
        return view.snapshot.trace if view.snapshot is not None else ()

    def _events(self, view: View) -> list[AnyEvent]:
        """Those that fit the filter."""
        return self._filtered.update(self._trace(view), self.state.filter)

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        snapshot = view.snapshot
        if snapshot is None:
            return []
        if self.state.at is not None and snapshot.trace and moment(snapshot.trace[-1]) < self.state.at:
            self.follow()  # another run: what is held has never happened in it
        events = self._events(view)
        if not events:
            return [self.empty(view, width)]
        self._scroll(events, height)
        place = self._place(events) if self.state.at is not None else None
        shown = events[self._top : self._top + height]
        found = (
            {moment(event) for event in self.state.search.among(shown)} if self.state.search.text else set()
        )
        lettered = view.lettered
        return [
            self._line(
                view,
                event,
                width,
                selected=self._top + row == place,
                found=moment(event) in found,
                lettered=lettered,
            )
            for row, event in enumerate(shown)
        ]

    def _line(
        self, view: View, event: AnyEvent, width: int, *, selected: bool, found: bool, lettered: bool
    ) -> Line:
        """An event: when, whose, what."""
        tone, word, rest = describe(event)
        ground = "row" if selected else "background"
        ink = view.palette.style
        calm = tone is Tone.CALM
        colour = "faint" if isinstance(event, StepBegan | StepEnded) else "muted" if calm else "text"
        line = LineBuilder().cell(f"{count(event.step)}.{event.order}", MOMENT, ink("faint", ground), ">")
        line.put(FOUND if found else " ", ink("match", ground))
        request = request_in(event)
        if request is None:
            line.put(" ", ink("text", ground))
        else:
            sequences = sequences_of(event)
            owner = ink_index(request, branch_of(sequences[0]) if sequences else 0)
            line.put(owner_mark(owner) if lettered else "▌", view.palette.chip(owner, ground))
        line.put(" ", ink("text", ground))
        named = "match" if found else colour if calm else tone.value
        line.cell(word, WORD, ink(named, ground, bold=found or not calm)).put(" ", ink("text", ground))
        return line.cell(rest, width - line.width, ink("text" if selected else colour, ground)).line()

    # -- cursor and scrolling -----------------------------------------------------------------------------

    def _place(self, events: Sequence[AnyEvent]) -> int:
        """Where the cursor's event is, or the one before it where a filter hides it."""
        assert self.state.at is not None
        return max(0, bisect_right(events, self.state.at, key=moment) - 1)

    def _scroll(self, events: Sequence[AnyEvent], height: int) -> None:
        """The newest in sight, or the cursor's event."""
        self._top = max(0, min(self._top, len(events) - height))
        if self.state.at is None:
            self._top = max(0, len(events) - height)
        else:
            place = self._place(events)
            self._top = max(min(self._top, place), place - height + 1)

    def move(self, dx: int, dy: int) -> None:
        """Move the cursor by events; the first step up puts it on the newest one, past it all is followed."""
        view = self.view
        if view is None or not dy:
            return
        events = self._events(view)
        if not events or (self.state.at is None and dy > 0):
            return
        self.go_to((self._place(events) if self.state.at is not None else len(events)) + dy)

    def go_to(self, place: int) -> None:
        """Put the cursor on an event and hold the trace; beyond the last one follow again."""
        if self.view is None:
            return
        events = self._events(self.view)
        if place >= len(events):
            self.follow()
        else:
            self._held = self._trace(self.view)
            self.put(at=moment(events[max(0, place)]))
        self.redraw()

    def follow(self) -> None:
        """Let go of what is held; the newest are shown from the next frame on."""
        self.put(at=None)
        self._held = None

    def take_back(self) -> bool:
        """Esc ends a search, then lets go of what is held."""
        if self.state.search.text:
            self.put(search=EventFilter())
        elif self.state.at is not None:
            self.follow()
        else:
            return False
        self.redraw()
        return True

    def take_inspect(self) -> bool:
        """Enter selects what the event under the cursor is about; of those followed, the newest."""
        if self.view is None or not (events := self._events(self.view)):
            return False
        self.choose(self.view, events[self._place(events) if self.state.at is not None else -1])
        return True

    def on_click(self, event: input_events.Click) -> None:
        """Put the cursor on the event under the mouse, and select what it is about."""
        if self.view is None:
            return
        events, place = self._events(self.view), self._top + event.y
        if place < len(events):
            chosen = events[place]
            self.go_to(place)
            self.choose(self.view, chosen)

    def on_mouse_scroll_down(self, event: input_events.MouseScrollDown) -> None:
        """Towards the newest."""
        self.move(0, WHEEL)

    def on_mouse_scroll_up(self, event: input_events.MouseScrollUp) -> None:
        """Towards the oldest."""
        self.move(0, -WHEEL)

    # -- search -------------------------------------------------------------------------------------------

    def fitting(self) -> tuple[int, int]:
        if self.view is None:
            return 0, 0
        return len(self._events(self.view)), len(self._trace(self.view))

    def do_search(self) -> None:
        """Go to the newest event that fits a line, as it is typed; again goes on to older ones."""
        if self.state.search.text:
            self._next_match()
        origin = self.state.at

        def changed(text: str) -> None:
            self.put(search=EventFilter(text))
            if text:
                self._go_to_match(origin, -1)
            self.redraw()

        keys = (
            LineAction("search", "Older", self._next_match),
            LineAction("previous_match", "Newer", self.do_previous_match),
        )
        self.ask_line("Search", self.state.search.text, changed, self._search_word, keys)

    def _matches(self, view: View) -> list[int]:
        """Places of the events that the search has found."""
        if not self.state.search.text:
            return []
        events = self._events(view)
        found = self._found.update(events[:], self.state.search)
        return [bisect_left(events, moment(event), key=moment) for event in found]

    def _go_to_match(self, start: Moment | None, step: int, beyond: int = 0) -> None:
        """Put the cursor on a match at or beyond a moment, going round at the end."""
        if self.view is None:
            return
        events = self._events(self.view)
        at = len(events) - 1 if start is None else max(0, bisect_right(events, start, key=moment) - 1)
        place = next_place(self._matches(self.view), at + beyond, step)
        if place is not None:
            self.go_to(place)

    def _next_match(self) -> None:
        """The next older event that the search has found."""
        self._go_to_match(self.state.at, -1, -1)

    def do_previous_match(self) -> None:
        """The next newer one."""
        self._go_to_match(self.state.at, 1, 1)

    def _search_word(self) -> tuple[str, bool]:
        if not self.state.search.text or self.view is None:
            return "", False
        places = self._matches(self.view)
        if not places:
            return "no match", True
        events = self._events(self.view)
        here = self._place(events) if self.state.at is not None else -1
        where = f"{len(places) - places.index(here)} of " if here in places else ""
        return f"{where}{count(len(places))}", False
