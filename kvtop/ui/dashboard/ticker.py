"""One line with the newest event, where the log has no room."""

from __future__ import annotations

from kvtop.memory.events import AnyEvent
from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.draw.text import count
from kvtop.ui.frame.narration import Told, Tone, log_lines
from kvtop.ui.frame.view import View
from kvtop.ui.parts.lines import LineWidget

LOOKED_AT = 24
"""Lines of the log, at most."""
STAYS = 20
"""Steps that a preemption is not covered by a lesser event, and an eviction not by an arrival."""
_WEIGHT = {Tone.ERROR: 3, Tone.WARNING: 2, Tone.NOTABLE: 1}


def weightiest(told: list[tuple[AnyEvent, Told]], step: int) -> tuple[AnyEvent, Told]:
    """The line that matters most among those of the last steps, the newest of equals; the last one if none
    is that new. `told` is not empty, oldest first."""
    fresh = [line for line in told if line[0].step > step - STAYS] or told[-1:]
    return max(reversed(fresh), key=lambda line: _WEIGHT.get(line[1][0], 0))


class Ticker(LineWidget):
    """The line of the log that matters most now."""

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        if view.snapshot is None:
            return []
        ink = view.palette.style
        told = log_lines(view.snapshot.events, LOOKED_AT)
        if not told:
            return [LineBuilder().put(" no event yet", ink("faint")).line()]
        event, (tone, word, rest) = weightiest(told, view.snapshot.step)
        line = LineBuilder().put(f" {count(event.step)} ", ink("faint"))
        line.put(f"{word} ", ink(tone.value, bold=True))
        return [line.put(rest, ink("muted")).line()]
