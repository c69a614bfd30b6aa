"""The rows of the sequences table: sequences, and groups of samples or beams as small trees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvtop.timeline.snapshot import BlockState, SequenceRow, Snapshot

STATES = {
    "running": "RUN",
    "prefill": "FILL",
    "holding": "HOLD",
    "waiting": "WAIT",
    "swapped": "SWAP",
}


@dataclass(frozen=True, slots=True)
class RowKey:
    """Which row: a sequence, or (`branch` None) the group of a request."""

    request: int
    branch: int | None


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row. A group's row counts each block once, whoever shares it; None is drawn as `-`."""

    key: RowKey
    name: str
    tree: str
    """What stands before the name: empty, `├ ` or `└ `."""
    state: str
    """As `SequenceRow.state`."""
    prompt: int
    generated: int
    blocks: int | None
    shared: int | None
    waste: int | None
    hit: int | None
    """Percent of the prompt found in the prefix cache; None before admission."""
    preemptions: int
    on_host: bool
    wait_reason: str
    tail: tuple[int, ...]
    sequences: tuple[SequenceRow, ...]
    """The sequences it stands for."""


@dataclass(frozen=True, slots=True)
class TableOrder:
    """What a person chose to see in the table."""

    sort: str = "arrival"
    inverted: bool = False
    tree: bool = True
    """Whether samples and beams stand under a row of their request."""
    filter: str = ""
    search: str = ""
    folded: frozenset[int] = frozenset()
    """Requests whose branches are not shown."""


def table_rows(snapshot: Snapshot, order: TableOrder = TableOrder()) -> list[TableRow]:
    """The table's rows in the snapshot's order; a group stands where its first sequence does."""
    groups: dict[int, list[SequenceRow]] = {}
    for sequence in snapshot.sequences:
        groups.setdefault(sequence.request, []).append(sequence)
    rows: list[TableRow] = []
    for members in groups.values():
        if len(members) == 1:
            rows.append(sequence_row(members[0], ""))
            continue
        rows.append(group_row(snapshot, members))
        rows += [sequence_row(member, "├ ") for member in members[:-1]]
        rows.append(sequence_row(members[-1], "└ "))
    return rows


def sequence_row(sequence: SequenceRow, tree: str) -> TableRow:
    """The row of one sequence."""
    holds = sequence.blocks > 0
    return TableRow(
        key=RowKey(sequence.request, sequence.branch),
        name=sequence.name,
        tree=tree,
        state=sequence.state,
        prompt=sequence.prompt_tokens,
        generated=sequence.generated_tokens,
        blocks=sequence.blocks if holds else None,
        shared=sequence.shared_blocks if holds else None,
        waste=sequence.waste_slots if holds else None,
        hit=_hit(sequence),
        preemptions=sequence.preemptions,
        on_host=sequence.on_host,
        wait_reason=sequence.wait_reason,
        tail=sequence.tail,
        sequences=(sequence,),
    )


def group_row(snapshot: Snapshot, members: list[SequenceRow]) -> TableRow:
    """The row of a request with several sequences: distinct blocks, and the slots that none of them fill."""
    first = members[0]
    on_host = all(member.on_host for member in members)
    columns = snapshot.host if on_host else snapshot.blocks
    blocks = np.unique(np.concatenate([member.table for member in members]))
    shared = waste = None
    if columns is not None and len(blocks):
        shared = int(np.count_nonzero(columns.ref_count[blocks] > 1))
        waste = int((snapshot.source.block_size - columns.fill[blocks]).sum())
    states = {member.state for member in members}
    return TableRow(
        key=RowKey(first.request, None),
        name=str(first.request),
        tree="",
        state=first.state if len(states) == 1 else "running",
        prompt=first.prompt_tokens,
        generated=sum(member.generated_tokens for member in members),
        blocks=len(blocks) or None,
        shared=shared,
        waste=waste,
        hit=_hit(first),
        preemptions=max(member.preemptions for member in members),
        on_host=on_host,
        wait_reason=first.wait_reason,
        tail=(),
        sequences=tuple(members),
    )


def _hit(sequence: SequenceRow) -> int | None:
    """Percent of the prompt that was found in the prefix cache."""
    if not sequence.prompt_tokens or not (sequence.blocks or sequence.preemptions):
        return None
    return round(100 * sequence.prefix_hit_tokens / sequence.prompt_tokens)


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
