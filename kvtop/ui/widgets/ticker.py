"""One line with the newest event, where the log has no room."""

from __future__ import annotations

from kvtop.ui.narrate import log_lines
from kvtop.ui.text import count
from kvtop.ui.view import View
from kvtop.ui.widgets.lines import Line, LineBuilder, LineWidget


class Ticker(LineWidget):
    """The log's last line."""

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        if view.snapshot is None:
            return []
        ink = view.palette.style
        told = log_lines(view.snapshot.events, 1)
        if not told:
            return [LineBuilder().put(" no event yet", ink("faint")).line()]
        event, (tone, word, rest) = told[-1]
        line = LineBuilder().put(f" {count(event.step)} ", ink("faint"))
        line.put(f"{word} ", ink(tone.value, bold=True))
        return [line.put(rest, ink("muted")).line()]
