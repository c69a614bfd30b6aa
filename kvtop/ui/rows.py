"""The rows of the sequences table: sequences, and groups of samples or beams as small trees."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvtop.timeline.snapshot import BlockColumns, BlockState, SequenceRow, Snapshot
from kvtop.ui.ordering import ARRIVAL, Decode, Pattern, arranged

# Keys and rows are named tuples: hundreds are made for every frame, and a frozen dataclass takes three times
# as long to make and to hash.


BRANCH, LAST_BRANCH = "├ ", "└ "
"""What stands before the name of a branch under its group."""


class RowKey(NamedTuple):
    """Which row: a sequence, or (`branch` None) the group of a request."""

    request: int
    branch: int | None


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
        return sum([sequence.generated_tokens for sequence in self.sequences])

    @property
    def maximum(self) -> int:
        """Generated tokens at most, for each sequence."""
        return self.sequences[0].max_new_tokens

    @property
    def held(self) -> GroupFigures:
        """Blocks, what is shared and wasted of them, and stored tokens."""
        if self.figures is not None:
            return self.figures
        one = self.sequences[0]
        if not one.blocks:
            return GroupFigures()
        return GroupFigures(one.blocks, one.shared_blocks, one.waste_slots, one.stored_tokens)

    @property
    def blocks(self) -> int | None:
        return self.held.blocks

    @property
    def shared(self) -> int | None:
        return self.held.shared

    @property
    def waste(self) -> int | None:
        return self.held.waste

    @property
    def stored(self) -> int | None:
        """Tokens whose K/V is stored."""
        return self.held.stored

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
    if not order.tree:
        return arranged([sequence_row(row) for row in kept], order.sort, order.inverted)
    shown: dict[int, list[SequenceRow]] = {}
    for sequence in kept:
        shown.setdefault(sequence.request, []).append(sequence)
    groups = _groups(snapshot, shown)
    figures = dict(zip(groups, group_figures(snapshot, list(groups.values())), strict=True))
    tops = [
        TableRow(RowKey(request, None), tuple(groups[request]), "", figures[request], request in order.folded)
        if request in groups
        else sequence_row(branches[0])
        for request, branches in shown.items()
    ]
    rows: list[TableRow] = []
    for top in arranged(tops, order.sort, order.inverted):
        rows.append(top)
        if top.key.branch is None and not top.folded:
            rows += _branches(shown[top.key.request], order)
    return rows


def _groups(snapshot: Snapshot, shown: Collection[int]) -> dict[int, list[SequenceRow]]:
    """All sequences of the requests that have several and are shown."""
    groups: dict[int, list[SequenceRow]] = {}
    for sequence in snapshot.sequences:
        groups.setdefault(sequence.request, []).append(sequence)
    return {request: groups[request] for request in shown if len(groups[request]) > 1}


def _branches(members: list[SequenceRow], order: TableOrder) -> list[TableRow]:
    """The rows under a group's row."""
    rows = arranged([sequence_row(member, BRANCH) for member in members], order.sort, order.inverted)
    rows[-1] = TableRow(rows[-1].key, rows[-1].sequences, LAST_BRANCH)
    return rows


def sequence_row(sequence: SequenceRow, tree: str = "") -> TableRow:
    """The row of one sequence."""
    return TableRow(RowKey(sequence.request, sequence.branch), (sequence,), tree)


def group_figures(snapshot: Snapshot, groups: Sequence[Sequence[SequenceRow]]) -> list[GroupFigures]:
    """The figures of groups of sequences, in one pass over all of their tables."""
    figures = [GroupFigures()] * len(groups)
    for on_host, columns in ((False, snapshot.blocks), (True, snapshot.host)):
        places = [index for index, group in enumerate(groups) if _on_host(group) == on_host]
        if not places:
            continue
        tables = [[member.table for member in groups[place]] for place in places]
        found = _distinct(columns, snapshot.source.block_size, tables)
        for place, figure in zip(places, found, strict=True):
            figures[place] = figure
    return figures


def _on_host(members: Iterable[SequenceRow]) -> bool:
    return all(member.on_host for member in members)


def _distinct(
    columns: BlockColumns | None, block_size: int, groups: list[list[NDArray[np.int32]]]
) -> list[GroupFigures]:
    """The figures of groups whose tables lie in one pool."""
    flat = np.concatenate([table for tables in groups for table in tables]).astype(np.int64)
    if not len(flat):
        return [GroupFigures()] * len(groups)
    span = int(flat.max()) + 1
    lengths = [sum(map(len, tables)) for tables in groups]
    # Sorted, then without repetitions: np.unique hashes, which takes ten times as long here.
    held = np.sort(np.repeat(np.arange(len(groups)), lengths) * span + flat)
    group, block = np.divmod(held[np.diff(held, prepend=-1) > 0], span)
    number = np.bincount(group, minlength=len(groups)).tolist()
    if columns is None:
        return [GroupFigures(blocks or None) for blocks in number]
    shared = np.bincount(group, columns.ref_count[block] > 1, len(groups)).astype(int).tolist()
    stored = np.bincount(group, columns.fill[block], len(groups)).astype(int).tolist()
    return [
        GroupFigures(blocks, others, blocks * block_size - filled, filled) if blocks else GroupFigures()
        for blocks, others, filled in zip(number, shared, stored, strict=True)
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


def blocks_of_rows(snapshot: Snapshot, keys: Iterable[RowKey]) -> NDArray[np.bool_] | None:
    """A mask of the device blocks that some rows' sequences hold; None when they hold none."""
    masks = [mask for key in keys if (mask := blocks_of(snapshot, key)) is not None]
    return np.logical_or.reduce(masks) if masks else None


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
