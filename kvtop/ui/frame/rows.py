"""The rows of the sequences table: sequences, and groups of samples or beams as small trees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kvtop.timeline.snapshot import BlockColumns, BlockState, SequenceRow, Snapshot
from kvtop.ui.frame.ordering import Decode, Pattern, arranged
from kvtop.ui.frame.row import BRANCH, LAST_BRANCH, GroupFigures, RowKey, TableOrder, TableRow, sequence_row

AS_IT_COMES = TableOrder()


def table_rows(
    snapshot: Snapshot, order: TableOrder = AS_IT_COMES, decode: Decode | None = None
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
