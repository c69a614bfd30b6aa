"""The one table of the sequences' columns: a row here is a column, its order, its help and its setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kvtop.config import Settings, suggestion
from kvtop.ui.draw.text import visible
from kvtop.ui.frame.row import STATES, TableRow

Value = int | str | tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table, and an order of its rows."""

    name: str
    """Its name in settings and in `TableOrder.sort`."""
    title: str
    """What stands at its head."""
    meaning: str
    """A few words, for help, setup and the list of what to sort by."""
    width: int
    """In cells, without the blank before it."""
    order: Callable[[TableRow], Value]
    """What rows are sorted by; None sorts last whatever the direction."""
    cell: Callable[[TableRow], str] | None = None
    """What a row shows; without it the value that rows are sorted by, and a dash where there is none."""
    numeric: bool = True
    """Whether it holds numbers, which stand at the right and sort from the highest; names sort from the
    first."""

    def text(self, row: TableRow) -> str:
        """What a row shows in this column."""
        if self.cell is not None:
            return self.cell(row)
        value = self.order(row)
        return "-" if value is None else str(value)


def _state(row: TableRow) -> str:
    return STATES.get(row.state, visible(row.state).upper())


def _blocks(row: TableRow) -> str:
    """Blocks of host memory have an h."""
    return "-" if row.blocks is None else f"{row.blocks}h" if row.on_host else str(row.blocks)


def _id(row: TableRow) -> Value:
    return row.key[0], row.key[1] or 0


ID = Column(
    "id", "ID", "the request, with .n for a sample, beam or fork", 6, _id, lambda row: row.name, numeric=False
)
COLUMNS: tuple[Column, ...] = (
    Column("state", "STATE", "RUN, FILL (prefill), HOLD, WAIT, SWAP", 5, _state, numeric=False),
    Column("prompt", "PROMPT", "tokens of the prompt", 6, lambda row: row.prompt),
    Column("gen", "GEN", "generated tokens", 4, lambda row: row.generated),
    Column("stored", "STORED", "tokens whose K/V is stored", 6, lambda row: row.stored),
    Column("max", "MAX", "generated tokens at most", 5, lambda row: row.maximum),
    Column("blk", "BLK", "blocks in its table; h: in host memory", 4, lambda row: row.blocks, _blocks),
    Column("shr", "SHR", "blocks that others hold too", 3, lambda row: row.shared),
    Column("waste", "WASTE", "allocated slots that hold nothing", 5, lambda row: row.waste),
    Column("hit", "HIT%", "prompt found in the prefix cache", 4, lambda row: row.hit),
    Column("pre", "PRE", "times its group was preempted", 3, lambda row: row.preemptions),
)
"""Columns between ID and TEXT, in the order in which they stand."""
BY_ID = {column.name: column for column in (ID, *COLUMNS)}
DROPPED = ("max", "stored", "pre", "hit", "waste", "shr", "prompt")
"""What a narrow table goes without, in this order; never the column that it is sorted by."""


def shown_columns(chosen: Iterable[str], room: int, sort: str) -> list[Column]:
    """The chosen columns that fit in `room` cells. Raises KeyError for a column that there is not."""
    columns = [BY_ID[name] for name in chosen if name != ID.name]
    for name in DROPPED:
        if sum(column.width + 1 for column in columns) <= room:
            break
        columns = [column for column in columns if column.name != name or name == sort]
    return columns


def column_problems(settings: Settings) -> list[str]:
    """One line for each column that there is not."""
    known = [column.name for column in COLUMNS]
    before = f"{settings.columns_place}: " if settings.columns_place else ""
    return [
        f'{before}"columns" has no column "{name}"{suggestion(name, known)}; there are: {", ".join(known)}'
        for name in settings.columns
        if name not in known
    ]


def usable_columns(settings: Settings) -> tuple[str, ...]:
    """The columns that the settings name, without those that there are not."""
    known = {column.name for column in COLUMNS}
    return tuple(name for name in settings.columns if name in known)
