"""What the sequences table sorts by, and what its filter and its search look for. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from kvtop.ui.text import visible

if TYPE_CHECKING:
    from kvtop.timeline.snapshot import SequenceRow
    from kvtop.ui.rows import TableRow

STATES = {
    "running": "RUN",
    "prefill": "FILL",
    "holding": "HOLD",
    "waiting": "WAIT",
    "swapped": "SWAP",
}
ARRIVAL = "arrival"
"""The order that is no column's: the snapshot's."""

Value = int | str | tuple[int, int] | None
Decode = Callable[[tuple[int, ...]], str]
"""Text of token ids, as it is shown."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table, and an order of its rows."""

    id: str
    """Its name in settings and in `TableOrder.sort`."""
    head: str
    width: int
    """In cells, without the blank before it."""
    help: str
    value: Callable[[TableRow], Value]
    """What rows are sorted by; None sorts last whatever the direction."""
    figure: bool = True
    """Whether it holds figures, which stand at the right and sort from the highest; names sort from the
    first."""


ID = Column("id", "ID", 6, "request and branch", lambda row: (row.key[0], row.key[1] or 0), figure=False)
COLUMNS: tuple[Column, ...] = (
    Column("state", "STATE", 5, "what it does", lambda row: STATES.get(row.state, row.state), figure=False),
    Column("prompt", "PROMPT", 6, "tokens of the prompt", lambda row: row.prompt),
    Column("gen", "GEN", 4, "generated tokens", lambda row: row.generated),
    Column("stored", "STORED", 6, "tokens whose K/V is stored", lambda row: row.stored),
    Column("max", "MAX", 5, "generated tokens at most", lambda row: row.maximum),
    Column("blk", "BLK", 4, "blocks in its table", lambda row: row.blocks),
    Column("shr", "SHR", 3, "blocks that others hold too", lambda row: row.shared),
    Column("waste", "WASTE", 5, "slots that hold nothing", lambda row: row.waste),
    Column("hit", "HIT%", 4, "prompt found in the cache", lambda row: row.hit),
    Column("pre", "PRE", 3, "times preempted", lambda row: row.preemptions),
)
"""Columns between ID and TEXT, in the order in which they stand."""
BY_ID = {column.id: column for column in (ID, *COLUMNS)}
DEFAULT_COLUMNS = ("state", "prompt", "gen", "blk", "shr", "waste", "hit", "pre")
"""What is shown until settings say otherwise."""
DROPPED = ("max", "stored", "pre", "hit", "waste", "shr", "prompt")
"""What a narrow table goes without, in this order; never the column that it is sorted by."""


def descends(sort: str, inverted: bool) -> bool:
    """Whether the highest comes first. Raises KeyError for a sort that there is not."""
    return (sort != ARRIVAL and BY_ID[sort].figure) != inverted


def arranged(rows: list[TableRow], sort: str, inverted: bool) -> list[TableRow]:
    """Rows by a column; those without a value last, equal ones by arrival. Raises KeyError for a sort that
    there is not."""
    if sort == ARRIVAL:
        return rows[::-1] if inverted else rows
    value = BY_ID[sort].value
    pairs = [(value(row), row) for row in rows]
    present = [pair for pair in pairs if pair[0] is not None]
    # One column's values are of one type, which the type of all columns' values cannot say.
    present.sort(key=itemgetter(0), reverse=descends(sort, inverted))
    absent = [row for key, row in pairs if key is None] if len(present) < len(pairs) else []
    return [row for _, row in present] + absent


def shown_columns(chosen: Iterable[str], room: int, sort: str) -> list[Column]:
    """The chosen columns that fit in `room` cells. Raises KeyError for a column that there is not."""
    columns = [BY_ID[name] for name in chosen if name != ID.id]
    for name in DROPPED:
        if sum(column.width + 1 for column in columns) <= room:
            break
        columns = [column for column in columns if column.id != name or name == sort]
    return columns


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
