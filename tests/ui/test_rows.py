"""Rows of the table: groups count each block once; sorted, filtered, folded; marks go on with sequences."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from kvtop.config import settings
from kvtop.ui.commands.help import column_entries
from kvtop.ui.frame import columns
from kvtop.ui.frame.columns import BY_ID, COLUMNS, column_problems, shown_columns, usable_columns
from kvtop.ui.frame.ordering import Pattern, next_place
from kvtop.ui.frame.row import ARRIVAL, RowKey, TableOrder, toggled
from kvtop.ui.frame.rows import blocks_of, group_figures, living, matching, row_for, table_rows

MANY = [(1, 0), (2, 1), (2, 2), (2, 3), (3, 0), (4, 1), (4, 2)]


@pytest.fixture
def snapshot(session):
    return session.published


@pytest.fixture
def remade(snapshot):
    """A snapshot of sequences made of the first one: (request, branch) and what differs, each."""

    def remade(sequences):
        first = snapshot.sequences[0]
        rows = []
        for request, branch, *changes in sequences:
            name = f"{request}.{branch}" if branch else str(request)
            fields = {"request": request, "branch": branch, "name": name, "id": request << 16 | branch}
            rows.append(dataclasses.replace(first, **fields, **(changes[0] if changes else {})))
        return dataclasses.replace(snapshot, sequences=tuple(rows))

    return remade


def names(rows) -> list[str]:
    return [row.tree + row.name for row in rows]


# -- groups -----------------------------------------------------------------------------------------------


def test_a_group_counts_each_block_once(snapshot) -> None:
    group = next(row for row in table_rows(snapshot) if row.key.branch is None)
    members = [row for row in snapshot.sequences if row.request == group.key.request]
    assert len(members) > 1
    blocks = {int(block) for member in members for block in member.table}
    assert group.blocks == len(blocks) < sum(member.blocks for member in members)
    assert group.shared == sum(snapshot.blocks.ref_count[block] > 1 for block in blocks)
    assert group.waste == sum(16 - snapshot.blocks.fill[block] for block in blocks)
    assert group.stored == sum(snapshot.blocks.fill[block] for block in blocks)
    assert group.generated == sum(member.generated_tokens for member in members)


def test_groups_that_share_blocks_and_swapped_ones_are_counted_apart(remade, snapshot) -> None:
    def table(*blocks):
        return {"table": np.array(blocks, np.int32), "blocks": len(blocks)}

    rows = remade(
        [
            (1, 1, table(5, 6, 7)), (1, 2, table(5, 6, 8)),
            (2, 1, table(5, 9)), (2, 2, table(5, 9)),
            (3, 1, table() | {"state": "waiting"}), (3, 2, table() | {"state": "waiting"}),
            (4, 1, table(0, 1) | {"on_host": True}), (4, 2, table(0, 2) | {"on_host": True}),
        ]
    )  # fmt: skip
    ref_count, fill = np.zeros(512, np.int32), np.full(512, 16, np.int32)
    ref_count[[5, 6, 9]] = 2
    fill[[7, 8]] = 3, 4
    blocks = dataclasses.replace(snapshot.blocks, ref_count=ref_count, fill=fill)
    host = dataclasses.replace(snapshot.host, ref_count=ref_count[:3] + 1, fill=fill[:3])
    rows = dataclasses.replace(rows, blocks=blocks, host=host)
    groups = [[row for row in rows.sequences if row.request == request] for request in (1, 2, 3, 4)]
    assert [tuple(figures) for figures in group_figures(rows, groups)] == [
        (4, 2, 25, 39), (2, 2, 0, 32), (None,) * 4, (3, 0, 0, 48),
    ]  # fmt: skip
    unpublished = group_figures(dataclasses.replace(rows, host=None), groups)[3]
    assert tuple(unpublished) == (3, None, None, None)
    assert group_figures(rows, []) == []


def test_branches_stand_under_their_group(remade) -> None:
    rows = table_rows(remade(MANY))
    assert names(rows) == ["1", "2", "├ 2.1", "├ 2.2", "└ 2.3", "3", "4", "├ 4.1", "└ 4.2"]
    assert [row.folded for row in rows] == [False] * 9


def test_a_folded_group_hides_its_branches_and_a_flat_list_has_no_groups(remade) -> None:
    rows = table_rows(remade(MANY), TableOrder(folded=frozenset({2, 3, 99})))
    assert names(rows) == ["1", "2", "3", "4", "├ 4.1", "└ 4.2"]
    assert [row.folded for row in rows] == [False, True, False, False, False, False]
    flat = table_rows(remade(MANY), TableOrder(tree=False, folded=frozenset({2})))
    assert names(flat) == ["1", "2.1", "2.2", "2.3", "3", "4.1", "4.2"]


def test_a_waiting_request_has_no_figures_for_blocks(make_session) -> None:
    session = make_session(60).run(40)
    waiting = next(row for row in table_rows(session.published) if row.state == "waiting")
    assert (waiting.blocks, waiting.shared, waiting.waste, waiting.stored) == (None,) * 4
    assert waiting.wait_reason


# -- order ------------------------------------------------------------------------------------------------


def by(sort: str, **order) -> TableOrder:
    return TableOrder(sort=sort, tree=False, **order)


def test_figures_sort_from_the_highest_equal_ones_by_arrival_and_absent_ones_last(remade) -> None:
    nothing = {"blocks": 0, "table": np.empty(0, np.int32)}
    rows = remade(
        [
            (1, 0, {"blocks": 3}),
            (2, 0, nothing),
            (3, 0, {"blocks": 20}),
            (4, 0, {"blocks": 3}),
            (5, 0, nothing),
        ]
    )
    assert names(table_rows(rows, by("blk"))) == ["3", "1", "4", "2", "5"]
    assert names(table_rows(rows, by("blk", inverted=True))) == ["1", "4", "3", "2", "5"]


def test_names_sort_from_the_first(remade) -> None:
    states = ["running", "waiting", "swapped", "prefill"]
    rows = remade([(20 - n, 0, {"state": state}) for n, state in enumerate(states)])
    assert names(table_rows(rows, by("id"))) == ["17", "18", "19", "20"]
    assert names(table_rows(rows, by("id", inverted=True))) == ["20", "19", "18", "17"]
    assert [row.state for row in table_rows(rows, by("state"))] == [
        "prefill",
        "running",
        "swapped",
        "waiting",
    ]


def test_ids_sort_as_numbers_and_arrival_is_the_snapshots_order(remade) -> None:
    rows = remade([(10, 0), (9, 2), (9, 1)])
    assert names(table_rows(rows, by("id"))) == ["9.1", "9.2", "10"]
    assert names(table_rows(rows, by("arrival"))) == ["10", "9.2", "9.1"]
    assert names(table_rows(rows, by("arrival", inverted=True))) == ["9.1", "9.2", "10"]


@pytest.mark.parametrize(
    ("sort", "field"),
    [
        ("prompt", "prompt_tokens"), ("gen", "generated_tokens"), ("stored", "stored_tokens"),
        ("max", "max_new_tokens"), ("blk", "blocks"), ("shr", "shared_blocks"), ("waste", "waste_slots"),
        ("hit", "prefix_hit_tokens"), ("pre", "preemptions"),
    ],
)  # fmt: skip
def test_every_column_of_figures_sorts_by_its_own(remade, sort, field) -> None:
    rows = remade([(1, 0, {field: 5}), (2, 0, {field: 90}), (3, 0, {field: 40})])
    assert names(table_rows(rows, by(sort))) == ["2", "3", "1"]


def test_groups_sort_by_their_own_figures_and_branches_inside_their_group(remade) -> None:
    tokens = [{"generated_tokens": value} for value in (50, 10, 40, 20, 60)]
    rows = remade([(1, 0, tokens[0]), *[(2, n, tokens[n]) for n in (1, 2, 3)], (3, 0, tokens[4])])
    assert names(table_rows(rows, TableOrder(sort="gen"))) == ["2", "├ 2.2", "├ 2.3", "└ 2.1", "3", "1"]
    inverted = table_rows(rows, TableOrder(sort="gen", inverted=True))
    assert names(inverted) == ["1", "3", "2", "├ 2.1", "├ 2.3", "└ 2.2"]
    backwards = table_rows(rows, TableOrder(inverted=True))
    assert names(backwards) == ["3", "2", "├ 2.3", "├ 2.2", "└ 2.1", "1"]


def test_an_unknown_column_is_an_error(snapshot) -> None:
    with pytest.raises(KeyError):
        table_rows(snapshot, TableOrder(sort="nothing"))


def test_columns_that_do_not_fit_are_dropped_in_turn_but_never_the_sorted_one() -> None:
    chosen = tuple(column.name for column in COLUMNS)
    full = sum(column.width + 1 for column in COLUMNS)

    def ids(room: int, sort: str = "arrival") -> list[str]:
        return [column.name for column in shown_columns(chosen, room, sort)]

    assert ids(full) == list(chosen)
    assert ids(full - 1) == [name for name in chosen if name != "max"]
    assert ids(0) == ["state", "gen", "blk"]
    assert ids(0, "pre") == ["state", "gen", "blk", "pre"]
    assert [column.name for column in shown_columns(("blk", "id", "gen"), 99, "id")] == ["blk", "gen"]
    assert set(settings.Settings().columns) < set(BY_ID)


def test_settings_name_columns_as_plain_text_and_the_table_says_which_there_are() -> None:
    wrong = settings.Settings(columns=("blk", "bkl", "gen"), columns_place="config.toml:3")
    (problem,) = column_problems(wrong)
    assert problem.startswith(
        'config.toml:3: "columns" has no column "bkl" (did you mean "blk"?); there are: '
    )
    assert usable_columns(wrong) == ("blk", "gen")
    assert column_problems(settings.Settings()) == []


def test_a_row_of_the_table_is_all_that_a_column_needs(monkeypatch) -> None:
    toy = columns.Column("toy", "TOY", "a toy", 5, lambda row: row.prompt * 2)
    monkeypatch.setattr(columns, "COLUMNS", (*columns.COLUMNS, toy))
    monkeypatch.setitem(BY_ID, "toy", toy)
    assert column_problems(settings.Settings(columns=("toy",))) == []
    assert [column.title for column in shown_columns(("toy",), 20, ARRIVAL)] == ["TOY"]
    assert "a toy" in [entry.text for entry in column_entries()]


# -- filter and search ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("42", ["42"]), ("HOST", ["7"]), ("swap", ["7"]), ("Draft", ["9"]), ("we the", ["42", "7", "9"]),
        ("42|draft", ["42", "9"]), ("|", ["42", "7", "9"]), ("zzz|", []), ("[42]", []), (".", []),
        ("‹202e›", ["9"]),
    ],
)  # fmt: skip
def test_a_filter_is_plain_text_with_alternatives(remade, text, found) -> None:
    swapped = {"state": "swapped", "wait_reason": "waits on the host"}
    rows = remade([(42, 0), (7, 0, swapped), (9, 0, {"label": "four drafts\u202e"})])
    shown = table_rows(rows, TableOrder(filter=text), lambda tokens: "We the People")
    assert names(shown) == found


def test_a_filter_looks_at_texts_only_with_a_decoder(remade) -> None:
    rows = remade([(1, 0)])
    assert table_rows(rows, TableOrder(filter="people")) == []
    assert table_rows(rows, TableOrder(filter="people"), lambda tokens: "People")
    empty = remade([(1, 0, {"tail": ()})])
    assert table_rows(empty, TableOrder(filter="people"), lambda tokens: "People") == []


def test_a_group_stays_when_a_branch_does_and_still_counts_all(remade) -> None:
    rows = table_rows(remade(MANY), TableOrder(filter="2.3|4.1"))
    assert names(rows) == ["2", "└ 2.3", "4", "└ 4.1"]
    assert len(rows[0].sequences) == 3
    assert rows[0].blocks == table_rows(remade(MANY))[1].blocks


def test_a_search_finds_branches_and_folded_groups_that_have_one(remade) -> None:
    open_rows = table_rows(remade(MANY))
    assert matching(open_rows, "2.3|1") == {
        RowKey(1, 0), RowKey(2, 1), RowKey(2, 3), RowKey(4, 1),
    }  # fmt: skip
    assert matching(table_rows(remade(MANY), TableOrder(folded=frozenset({2}))), "2.3") == {RowKey(2, None)}
    assert matching(open_rows, "") == matching(open_rows, " | ") == frozenset()
    assert not Pattern("||")


def test_the_next_match_goes_round() -> None:
    assert [next_place([2, 5, 9], start, 1) for start in (0, 2, 3, 9, 10)] == [2, 2, 5, 9, 2]
    assert [next_place([2, 5, 9], start, -1) for start in (10, 9, 8, 2, 1, -1)] == [9, 9, 5, 2, 9, 9]
    assert next_place([], 3, 1) is None


# -- keys -------------------------------------------------------------------------------------------------


def test_keys_go_on_with_their_sequences_and_end_with_them(remade) -> None:
    rows = remade([(1, 0), (2, 1), (2, 2), (3, 2), (4, 0), (4, 1)])
    keys = [RowKey(*key) for key in [(1, 0), (2, 2), (2, None), (3, None), (3, 1), (4, 0), (9, None), (9, 1)]]
    assert living(rows, keys) == {
        RowKey(1, 0): RowKey(1, 0),
        RowKey(2, 2): RowKey(2, 2),
        RowKey(2, None): RowKey(2, None),
        RowKey(3, None): RowKey(3, 2),  # a group of which one is left
        RowKey(4, 0): RowKey(4, 0),
    }
    split = remade([(5, 1), (5, 2)])
    assert living(split, [RowKey(5, 0)]) == {RowKey(5, 0): RowKey(5, None)}


def test_a_hidden_row_is_shown_by_what_stands_in_for_it(remade) -> None:
    folded = table_rows(remade(MANY), TableOrder(folded=frozenset({2})))
    assert row_for(folded, RowKey(2, 3)).key == (2, None)
    flat = table_rows(remade(MANY), TableOrder(tree=False))
    assert row_for(flat, RowKey(4, None)).key == (4, 1)
    assert row_for(table_rows(remade(MANY), TableOrder(filter="2.3")), RowKey(2, 1)) is None
    assert row_for(flat, RowKey(1, 0)).key == (1, 0)


def test_a_groups_tag_stands_for_its_branches(remade) -> None:
    rows = {row.key: row for row in table_rows(remade(MANY))}
    group, first, last = RowKey(2, None), RowKey(2, 1), RowKey(2, 3)

    def press(tags, key):
        return toggled(frozenset(tags), rows[key], (1, 2, 3))

    assert press([], first) == {first}
    assert press([first], first) == frozenset()
    assert press([first, RowKey(1, 0)], group) == {group, RowKey(1, 0)}
    assert press([group], group) == frozenset()
    assert press([group], last) == {first, RowKey(2, 2)}


# -- blocks -----------------------------------------------------------------------------------------------


def test_the_blocks_of_a_group_are_those_of_all_its_branches(snapshot) -> None:
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
