"""What the sequences table sorts by, and what its filter and its search look for. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from kvtop.timeline.snapshot import SequenceRow
from kvtop.ui.draw.text import visible
from kvtop.ui.frame.columns import BY_ID
from kvtop.ui.frame.row import ARRIVAL, STATES, TableRow

Decode = Callable[[tuple[int, ...]], str]
"""Text of token ids, as it is shown."""


def descends(sort: str, inverted: bool) -> bool:
    """Whether the highest comes first. Raises KeyError for a sort that there is not."""
    return (sort != ARRIVAL and BY_ID[sort].numeric) != inverted


def arranged(rows: list[TableRow], sort: str, inverted: bool) -> list[TableRow]:
    """Rows by a column; those without a value last, equal ones by arrival. Raises KeyError for a sort that
    there is not."""
    if sort == ARRIVAL:
        return rows[::-1] if inverted else rows
    order = BY_ID[sort].order
    pairs = [(order(row), row) for row in rows]
    present = [pair for pair in pairs if pair[0] is not None]
    # One column's values are of one type, which the type of all columns' values cannot say.
    present.sort(key=itemgetter(0), reverse=descends(sort, inverted))
    absent = [row for key, row in pairs if key is None] if len(present) < len(pairs) else []
    return [row for _, row in present] + absent


class Pattern:
    """Plain text to look for, whatever its case; `|` stands between alternatives.

    It is found in what a row shows: name, label, state, the reason why it waits, and the newest text when
    `decode` is given.
    """

    def __init__(self, text: str, decode: Decode | None = None) -> None:
        self.needles = tuple(part.casefold() for part in text.split("|") if part.strip())
        self._decode = decode

    def __bool__(self) -> bool:
        """Whether there is something to look for."""
        return bool(self.needles)

    def within(self, text: str) -> bool:
        """Whether one of the alternatives stands in `text`."""
        folded = text.casefold()
        return any(needle in folded for needle in self.needles)

    def finds(self, sequence: SequenceRow) -> bool:
        """Whether it stands in what a sequence's row shows."""
        state = sequence.state
        words = f"{sequence.name}\n{STATES.get(state, '')}\n{state}\n{sequence.label}\n{sequence.wait_reason}"
        if self.within(words if words.isascii() else "\n".join(map(visible, words.split("\n")))):
            return True
        return self._decode is not None and bool(sequence.tail) and self.within(self._decode(sequence.tail))

    def finds_row(self, row: TableRow) -> bool:
        """Whether it stands in a row. A group whose branches have rows of their own is found by its own
        words only, a folded one by any branch."""
        if row.key.branch is None and not row.folded:
            return self.within(f"{row.name}\n{visible(row.label)}")
        return any(map(self.finds, row.sequences))


def next_place(places: Sequence[int], start: int, step: int) -> int | None:
    """Of ascending places the first at or after `start` (step 1) or at or before it (step -1), going round
    at the end; None when there is none."""
    if not places:
        return None
    if step > 0:
        return next((place for place in places if place >= start), places[0])
    return next((place for place in reversed(places) if place <= start), places[-1])
