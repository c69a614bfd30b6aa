"""The rows of the sequences table: sequences, and groups of samples or beams as small trees."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvtop.memory.events import branch_of, request_of
from kvtop.timeline.snapshot import BlockColumns, BlockState, SequenceRow, Snapshot
from kvtop.ui.ordering import ARRIVAL, Decode, Pattern, arranged

# Keys and rows are named tuples: hundreds are made for every frame, and a frozen dataclass takes three times
# as long to make and to hash.


_tuple = tuple.__new__

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


def table_rows(
    snapshot: Snapshot, order: TableOrder = TableOrder(), decode: Decode | None = None
) -> list[TableRow]:
    """The rows that an order shows. Groups sort by their own figures, branches inside their group.

    A filter looks at the text of sequences when `decode` is given. A group stays when one of its branches
    does. Raises KeyError for a sort that there is not.
    """
    pattern = Pattern(order.filter, decode)
    kept = [row for row in snapshot.sequences if pattern.finds(row)] if pattern else snapshot.sequences
    groups = _groups(snapshot, kept) if order.tree else {}
    rows = [sequence_row(one, BRANCH if one.request in groups else "") for one in kept]
    if not groups:
        return arranged(rows, order.sort, order.inverted)
    branches: dict[int, list[TableRow]] = {request: [] for request in groups}
    for row in arranged(rows, order.sort, order.inverted):
        if row.tree:
            branches[row.key.request].append(row)
    tops, heads = _group_rows(snapshot, groups, order), []
    for row in rows:
        if not row.tree:
            heads.append(row)
        elif (group := tops.pop(row.key.request, None)) is not None:
            heads.append(group)  # where its first sequence stands
    shown: list[TableRow] = []
    for head in arranged(heads, order.sort, order.inverted):
        shown.append(head)
        if head.figures is not None and not head.folded:
            *most, last = branches[head.key.request]
            shown += [*most, TableRow(last.key, last.sequences, LAST_BRANCH)]
    return shown


def _groups(snapshot: Snapshot, kept: Iterable[SequenceRow]) -> dict[int, tuple[SequenceRow, ...]]:
    """All sequences of the requests that have several, of which one is kept."""
    groups: dict[int, list[SequenceRow]] = {one.request: [] for one in kept}
    for one in snapshot.sequences:
        if one.request in groups:
            groups[one.request].append(one)
    return {request: tuple(members) for request, members in groups.items() if len(members) > 1}


def _group_rows(
    snapshot: Snapshot, groups: dict[int, tuple[SequenceRow, ...]], order: TableOrder
) -> dict[int, TableRow]:
    """The groups' own rows."""
    figures = group_figures(snapshot, list(groups.values()))
    return {
        request: TableRow(RowKey(request, None), members, "", figure, request in order.folded)
        for (request, members), figure in zip(groups.items(), figures, strict=True)
    }


def sequence_row(sequence: SequenceRow, tree: str = "") -> TableRow:
    """The row of one sequence."""
    # Past the named tuples' own constructors, which are written in Python: this is called for every sequence.
    key = _tuple(RowKey, (sequence.request, sequence.branch))
    return _tuple(TableRow, (key, (sequence,), tree, None, False))


def group_figures(snapshot: Snapshot, groups: Sequence[Sequence[SequenceRow]]) -> list[GroupFigures]:
    """The figures of groups of sequences, in one pass over all of their tables."""
    figures = [GroupFigures()] * len(groups)
    hosts = [all(member.on_host for member in group) for group in groups]
    for on_host, columns in ((False, snapshot.blocks), (True, snapshot.host)):
        places = [place for place, host in enumerate(hosts) if host == on_host]
        if not places:
            continue
        tables = [[member.table for member in groups[place]] for place in places]
        found = _distinct(columns, snapshot.source.block_size, tables)
        for place, figure in zip(places, found, strict=True):
            figures[place] = figure
    return figures


def _distinct(
    columns: BlockColumns | None, block_size: int, groups: list[list[NDArray[np.int32]]]
) -> list[GroupFigures]:
    """The figures of groups whose tables lie in one pool."""
    flat = np.concatenate([table for tables in groups for table in tables]).astype(np.int64)
    if not len(flat):
        return [GroupFigures()] * len(groups)
    span = int(flat.max()) + 1
    bases = np.arange(len(groups) + 1) * span
    lengths = [sum(map(len, tables)) for tables in groups]
    # Sorted, then without repetitions: np.unique hashes, which takes ten times as long here.
    held = np.sort(np.repeat(bases[:-1], lengths) + flat)
    held = held[np.diff(held, prepend=-1) > 0]
    ends = np.searchsorted(held, bases)
    number = np.diff(ends)
    if columns is None:
        return [GroupFigures(blocks or None) for blocks in number.tolist()]
    block = held - np.repeat(bases[:-1], number)
    shared, stored = (
        np.diff(np.append(0, np.cumsum(values, dtype=np.int64))[ends]).tolist()
        for values in (columns.ref_count[block] > 1, columns.fill[block])
    )
    return [
        GroupFigures(blocks, others, blocks * block_size - filled, filled) if blocks else GroupFigures()
        for blocks, others, filled in zip(number.tolist(), shared, stored, strict=True)
    ]


# -- keys, and what becomes of them -----------------------------------------------------------------------


def living(snapshot: Snapshot, keys: Iterable[RowKey]) -> dict[RowKey, RowKey]:
    """Each key whose sequence or group lives, with the key it has by now.

    A group of which one sequence is left is that sequence, and a request that has branched since is its
    group. Keys of what has ended are left out.
    """
    branches: dict[int, list[int]] = {}
    for sequence in snapshot.sequences:
        branches.setdefault(sequence.request, []).append(sequence.branch)
    heirs: dict[RowKey, RowKey] = {}
    for key in keys:
        alive = branches.get(key.request)
        if alive is None:
            continue
        if key.branch in alive:
            heirs[key] = key
        elif not key.branch:
            heirs[key] = RowKey(key.request, None if len(alive) > 1 else alive[0])
    return heirs


def row_for(rows: Iterable[TableRow], key: RowKey) -> TableRow | None:
    """The row that shows a key: its own, the folded group that it is in, or in a flat list the group's
    first sequence; None when a filter hides it."""
    stands_in = None
    for row in rows:
        if row.key == key:
            return row
        if row.key.request == key.request and stands_in is None and (row.folded or key.branch is None):
            stands_in = row
    return stands_in


def matching(rows: Iterable[TableRow], search: str, decode: Decode | None = None) -> frozenset[RowKey]:
    """The keys of the rows that a search finds."""
    pattern = Pattern(search, decode)
    return frozenset([row.key for row in rows if pattern.finds_row(row)]) if pattern else frozenset()


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


# -- blocks -----------------------------------------------------------------------------------------------


def blocks_of(snapshot: Snapshot, key: RowKey) -> NDArray[np.bool_] | None:
    """A mask of the device blocks that a row's sequences hold; None when it holds none."""
    tables = [
        row.table
        for row in snapshot.sequences
        if row.request == key.request
        and key.branch in (None, row.branch)
        and not row.on_host
        and len(row.table)
    ]
    if not tables:
        return None
    mask = np.zeros(len(snapshot.blocks.state), np.bool_)
    for table in tables:
        mask[table] = True
    mask &= snapshot.blocks.state >= BlockState.USED
    return mask
