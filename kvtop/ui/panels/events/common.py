"""What the panels of events have in common: a filter, and what an event leads to."""

from __future__ import annotations

from dataclasses import dataclass

from kvtop.memory.events import AnyEvent, branch_of, request_of
from kvtop.ui.commands.intents import Select, Tell
from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.draw.text import count, first_fit, head, visible
from kvtop.ui.frame.event_filter import EventFilter, Moment, device_blocks, request_in, sequences_of
from kvtop.ui.frame.row import RowKey
from kvtop.ui.frame.rows import row_for
from kvtop.ui.frame.view import Selection, View
from kvtop.ui.parts.panel import PanelBody

EVERYTHING = EventFilter()
QUOTED = 32
"""Cells of a filter in the heading."""


@dataclass(frozen=True, slots=True)
class EventsState:
    """What a person has made of a panel of events."""

    filter: EventFilter = EVERYTHING
    search: EventFilter = EVERYTHING
    at: Moment | None = None
    """The event at the cursor, or the last one in sight; None follows the newest."""


class EventPanel(PanelBody):
    """A panel of events that can be filtered and clicked."""

    state: EventsState = EventsState()

    def fitting(self) -> tuple[int, int]:
        """How many events fit the filter, and of how many."""
        raise NotImplementedError

    @property
    def title_of_events(self) -> str:
        """The panel's title, with the filter that is in force."""
        return f"Events: {quoted(self.state.filter.text)}" if self.state.filter.text else "Events"

    def do_filter(self) -> None:
        """Show only the events that fit a line, as it is typed."""

        def changed(text: str) -> None:
            self.put(filter=EventFilter(text))
            self.redraw()

        def word() -> tuple[str, bool]:
            if not self.state.filter.text:
                return "evicted, block 131, sequence 42", False
            number, total = self.fitting()
            return f"{count(number)} of {count(total)}", not number

        self.ask_line("Filter", self.state.filter.text, changed, word)

    def empty(self, view: View, width: int) -> Line:
        """Why there is no event to show."""
        words = "no event yet"
        if self.state.filter.text:
            words = first_fit(
                [
                    f"nothing fits {quoted(self.state.filter.text)}: F4, then Esc, shows all",
                    "F4 Esc shows all",
                ],
                width - 2,
            )
        return LineBuilder().put(f" {words}", view.palette.style("faint")).line()

    def choose(self, view: View, event: AnyEvent) -> None:
        """Select the first block of an event and the row of its sequence, as far as they are there."""
        blocks, request = device_blocks(event), request_in(event)
        row = None
        if request is not None:
            sequences = sequences_of(event)
            branch = branch_of(sequences[0]) if sequences and request_of(sequences[0]) == request else None
            row = row_for(view.rows, RowKey(request, branch)) or row_for(view.rows, RowKey(request, None))
        if row is not None or blocks:
            key = row.key if row is not None else None
            self.perform(Select(Selection(key, blocks[0] if blocks else None)))
            named = ([f"block {blocks[0]}"] if blocks else []) + ([row.name] if row is not None else [])
            words = f"Selected {' of '.join(named)}: Tab goes on to the inspector"
            self.perform(Tell(words, unless_shown="inspector"))
        else:
            what = "no block and no sequence" if request is None else f"{request}, which has left"
            self.tell(f"This event is about {what}")


def quoted(text: str) -> str:
    """What a person typed, in quotation marks and not too long."""
    return f"“{head(visible(text), QUOTED)}”"
