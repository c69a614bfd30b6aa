"""The rows of the sequences, as types: which row, what it stands for, and what a person chose to see.

Keys and rows are named tuples: hundreds are made for every frame, and a frozen dataclass takes three times as
long to make and to hash.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kvtop.memory.events import branch_of, request_of
from kvtop.timeline.snapshot import SequenceRow

ARRIVAL = "arrival"
"""The order that is no column's: the snapshot's."""
STATES = {
    "running": "RUN",
    "prefill": "FILL",
    "holding": "HOLD",
    "waiting": "WAIT",
    "swapped": "SWAP",
}
"""A sequence's state -> as rows show it."""
STATE_INKS = {
    "running": "good",
    "prefill": "primary",
    "holding": "primary",
    "waiting": "muted",
    "swapped": "warning",
}
"""A sequence's state -> key of the palette."""
BRANCH, LAST_BRANCH = "├ ", "└ "
"""What stands before the name of a branch under its group."""


class RowKey(NamedTuple):
    """Which row: a sequence, or (`branch` None) the group of a request."""

    request: int
    branch: int | None

    @classmethod
    def of(cls, sequence: int) -> RowKey:
        """The row of one sequence, by its id."""
        return cls(request_of(sequence), branch_of(sequence))

    @property
    def name(self) -> str:
        """As the sequence's own: `42`, or `42.1` for a branch."""
        return f"{self.request}.{self.branch}" if self.branch else str(self.request)


class GroupFigures(NamedTuple):
    """What a group holds, each block counted once. None where it holds nothing, or it is not published."""

    blocks: int | None = None
    shared: int | None = None
    waste: int | None = None
    stored: int | None = None


class TableRow(NamedTuple):
    """One row; what it shows is worked out when it is drawn. A figure that is None is drawn as `-`."""

    key: RowKey
    sequences: tuple[SequenceRow, ...]
    """The sequences it stands for: one, or all of a group's."""
    tree: str = ""
    """What stands before the name: empty, `├ ` or `└ `."""
    figures: GroupFigures | None = None
    """What a group holds; None for a sequence, which knows itself."""
    folded: bool = False
    """Whether a group's branches have no rows of their own."""

    @property
    def name(self) -> str:
        return self.sequences[0].name if self.figures is None else str(self.key.request)

    @property
    def label(self) -> str:
        return self.sequences[0].label

    @property
    def state(self) -> str:
        """As `SequenceRow.state`; of a group the state that all are in, else `running`."""
        first = self.sequences[0].state
        return first if all(sequence.state == first for sequence in self.sequences) else "running"

    @property
    def prompt(self) -> int:
        return self.sequences[0].prompt_tokens

    @property
    def generated(self) -> int:
        if self.figures is None:
            return self.sequences[0].generated_tokens
        return sum([sequence.generated_tokens for sequence in self.sequences])

    @property
    def maximum(self) -> int:
        """Generated tokens at most, for each sequence."""
        return self.sequences[0].max_new_tokens

    @property
    def blocks(self) -> int | None:
        return self.figures.blocks if self.figures is not None else self.sequences[0].blocks or None

    @property
    def shared(self) -> int | None:
        if self.figures is not None:
            return self.figures.shared
        one = self.sequences[0]
        return one.shared_blocks if one.blocks else None

    @property
    def waste(self) -> int | None:
        if self.figures is not None:
            return self.figures.waste
        one = self.sequences[0]
        return one.waste_slots if one.blocks else None

    @property
    def stored(self) -> int | None:
        """Tokens whose K/V is stored."""
        if self.figures is not None:
            return self.figures.stored
        one = self.sequences[0]
        return one.stored_tokens if one.blocks else None

    @property
    def hit(self) -> int | None:
        """Percent of the prompt found in the prefix cache; None before admission."""
        one = self.sequences[0]
        if not one.prompt_tokens or not (one.blocks or one.preemptions):
            return None
        return round(100 * one.prefix_hit_tokens / one.prompt_tokens)

    @property
    def preemptions(self) -> int:
        return max([sequence.preemptions for sequence in self.sequences])

    @property
    def on_host(self) -> bool:
        return all(sequence.on_host for sequence in self.sequences)

    @property
    def wait_reason(self) -> str:
        return self.sequences[0].wait_reason

    @property
    def tail(self) -> tuple[int, ...]:
        """The newest tokens; none for a group."""
        return self.sequences[0].tail if self.figures is None else ()


@dataclass(frozen=True, slots=True)
class TableOrder:
    """What a person chose to see in the table."""

    sort: str = ARRIVAL
    """`arrival`, or the id of a column of `ordering.BY_ID`."""
    inverted: bool = False
    tree: bool = True
    """Whether samples and beams stand under a row of their request."""
    filter: str = ""
    search: str = ""
    folded: frozenset[int] = frozenset()
    """Requests whose branches are not shown."""


_tuple = tuple.__new__


def sequence_row(sequence: SequenceRow, tree: str = "") -> TableRow:
    """The row of one sequence."""
    # Past the named tuples' own constructors, which are written in Python: this is called for every sequence.
    key = _tuple(RowKey, (sequence.request, sequence.branch))
    return _tuple(TableRow, (key, (sequence,), tree, None, False))


def kind(row: TableRow) -> str:
    """What a group is, or what a sequence is that does not stand under its group; empty for one alone."""
    one, alive = row.sequences[0], len(row.sequences)
    beams = one.beam_width > 1
    if row.figures is not None:
        if not beams and one.n == 1:
            return "forked"
        whole = f"{alive} of {one.n}" if alive < one.n and not beams else str(alive)
        return f"{whole} {'beams' if beams else 'samples'}"
    if row.tree:
        return ""
    if beams or one.n > 1:
        if not one.generated_tokens:
            return f"{one.beam_width} beams" if beams else f"{one.n} samples"
        return "beam" if beams else "sample"
    return "fork" if one.branch else ""


def is_tagged(key: RowKey, tags: Collection[RowKey]) -> bool:
    """Whether a row is tagged: itself, or the group that it is in."""
    return key in tags or RowKey(key.request, None) in tags


def toggled(tags: frozenset[RowKey], row: TableRow, branches: Iterable[int]) -> frozenset[RowKey]:
    """The tags after a row's was put on or taken off. `branches` are all of its request's.

    A group's tag stands for all of its branches: it takes their place, and where one branch is untagged the
    others keep tags of their own.
    """
    group = RowKey(row.key.request, None)
    each = frozenset([RowKey(row.key.request, branch) for branch in branches])
    if row.key == group:
        return tags - {group} if group in tags else tags - each | {group}
    if group in tags:
        return tags - {group} | each - {row.key}
    return tags ^ {row.key}
