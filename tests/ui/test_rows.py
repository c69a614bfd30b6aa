"""Rows of the table: groups count each block once."""

from __future__ import annotations

import numpy as np

from kvtop.ui.rows import RowKey, blocks_of, table_rows


def test_a_group_counts_each_block_once(session) -> None:
    snapshot = session.published
    rows = table_rows(snapshot)
    group = next(row for row in rows if row.key.branch is None)
    members = [row for row in snapshot.sequences if row.request == group.key.request]
    assert len(members) > 1
    blocks = {int(block) for member in members for block in member.table}
    assert group.blocks == len(blocks) < sum(member.blocks for member in members)
    assert group.shared == sum(snapshot.blocks.ref_count[block] > 1 for block in blocks)
    assert group.waste == sum(16 - snapshot.blocks.fill[block] for block in blocks)
    assert group.generated == sum(member.generated_tokens for member in members)


def test_branches_stand_under_their_group(session) -> None:
    rows = table_rows(session.published)
    place = next(index for index, row in enumerate(rows) if row.key.branch is None)
    number = len(rows[place].sequences)
    trees = [row.tree for row in rows[place : place + number + 1]]
    assert trees == ["", *["├ "] * (number - 1), "└ "]
    assert len({row.key.request for row in rows[place : place + number + 1]}) == 1


def test_a_waiting_request_has_no_figures_for_blocks(make_session) -> None:
    session = make_session(60).run(40)
    waiting = next(row for row in table_rows(session.published) if row.state == "waiting")
    assert (waiting.blocks, waiting.shared, waiting.waste) == (None, None, None)
    assert waiting.wait_reason


def test_the_blocks_of_a_group_are_those_of_all_its_branches(session) -> None:
    snapshot = session.published
    group = next(row for row in table_rows(snapshot) if row.key.branch is None)
    mask = blocks_of(snapshot, group.key)
    assert mask is not None
    tables = [member.table for member in group.sequences]
    assert set(np.flatnonzero(mask)) == {int(block) for table in tables for block in table}
    first = blocks_of(snapshot, RowKey(group.key.request, group.sequences[0].branch))
    assert first is not None
    assert set(np.flatnonzero(first)) == set(group.sequences[0].table.tolist())


def test_a_swapped_sequence_lights_nothing_on_the_device(make_session) -> None:
    session = make_session(200).run(200)
    for _ in range(300):
        swapped = [row for row in session.published.sequences if row.on_host]
        if swapped:
            break
        session.advance()
    assert blocks_of(session.published, RowKey(swapped[0].request, swapped[0].branch)) is None
