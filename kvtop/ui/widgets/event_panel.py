"""What the panels of events have in common: a filter, and what an event leads to."""

from __future__ import annotations

from kvtop.memory.events import AnyEvent, branch_of, request_of
from kvtop.ui.event_filter import EventFilter, device_blocks, request_in, sequences_of
from kvtop.ui.rows import RowKey, row_for
from kvtop.ui.text import count, first_fit, head, visible
from kvtop.ui.view import Selection, View
from kvtop.ui.widgets.lines import Line, LineBuilder
from kvtop.ui.widgets.panel import PanelBody

QUOTED = 32
"""Cells of a filter in the heading."""


class EventPanel(PanelBody):
    """A panel of events that can be filtered and clicked."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.filter = EventFilter()

    def fitting(self) -> tuple[int, int]:
        """How many events fit the filter, and of how many."""
        raise NotImplementedError

    @property
    def title_of_events(self) -> str:
        """The panel's title, with the filter that is in force."""
        return f"Events: {quoted(self.filter.text)}" if self.filter.text else "Events"

    def do_filter(self) -> None:
        """Show only the events that fit a line, as it is typed."""
        from kvtop.ui.screens.line_input import LineInput

        self.focus()

        def changed(text: str) -> None:
            self.filter = EventFilter(text)
            self.kvtop.dashboard.draw_again()

        def word() -> tuple[str, bool]:
            if not self.filter.text:
                return "evicted, block 131, sequence 42", False
            number, total = self.fitting()
            return f"{count(number)} of {count(total)}", not number

        palette, text = self.kvtop.palette, self.filter.text
        self.app.push_screen(LineInput("Filter", palette, self, value=text, changed=changed, word=word))

    def empty(self, view: View, width: int) -> Line:
        """Why there is no event to show."""
        words = "no event yet"
        if self.filter.text:
            words = first_fit(
                [f"nothing fits {quoted(self.filter.text)}: F4, then Esc, shows all", "F4 Esc shows all"],
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
            self.kvtop.select(Selection(key, blocks[0] if blocks else None))
            if "inspector" not in self.kvtop.dashboard.regions(self.app.size):
                named = ([f"block {blocks[0]}"] if blocks else []) + ([row.name] if row is not None else [])
                self.kvtop.tell(f"Selected {' of '.join(named)}: Tab goes on to the inspector")
        else:
            what = "no block and no sequence" if request is None else f"{request}, which has left"
            self.kvtop.tell(f"This event is about {what}")


def quoted(text: str) -> str:
    """What a person typed, in quotation marks and not too long."""
    return f"“{head(visible(text), QUOTED)}”"
