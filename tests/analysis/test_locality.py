"""How scattered a table is."""

from __future__ import annotations

import numpy as np
import pytest

from kvtop.analysis.locality import access_path, locality, readers, run_counts


def table(*blocks: int):
    return np.array(blocks, np.int32)


@pytest.mark.parametrize(
    ("blocks", "runs", "span", "adjacent"),
    [
        ((4, 5, 6, 7), 1, 4, 1.0),
        ((7, 6, 5, 4), 4, 4, 0.0),
        ((4, 5, 9, 10, 2), 3, 9, 0.5),
        ((3,), 1, 1, None),
        ((), 0, 0, None),
    ],
)
def test_runs_count_up_by_one(blocks, runs, span, adjacent) -> None:
    found = locality(table(*blocks))
    assert (found.blocks, found.runs, found.span, found.adjacent) == (len(blocks), runs, span, adjacent)


def test_runs_of_many_tables_are_those_of_each() -> None:
    tables = [table(4, 5, 9), table(), table(10, 11), table(3), table(), table(4, 2)]
    assert run_counts(tables).tolist() == [locality(one).runs for one in tables] == [2, 0, 1, 1, 0, 2]
    assert run_counts([table()]).tolist() == [0]
    assert run_counts([]).tolist() == []


def test_the_mean_run() -> None:
    assert locality(table(4, 5, 9, 10, 2)).mean_run == pytest.approx(5 / 3)
    assert locality(table()).mean_run == 0.0


def test_a_shared_block_is_read_once_for_each_sequence() -> None:
    found = readers([table(3, 4, 5), table(3, 4, 9), table(3)])
    assert found.blocks.tolist() == [3, 4, 5, 9]
    assert found.counts.tolist() == [3, 2, 1, 1]
    assert (found.distinct, found.reads) == (4, 7)
    assert (readers([]).distinct, readers([]).reads) == (0, 0)


def test_a_cell_has_the_most_readers_of_its_blocks() -> None:
    found = readers([table(0, 1, 11), table(1), table(11), table(11)])
    assert found.per_cell(12, 12).tolist() == [1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]
    assert found.per_cell(3, 12).tolist() == [2, 0, 3]
    assert found.per_cell(3, 6).tolist() == [2, 0, 0]


def test_a_path_has_one_value_a_block_or_means() -> None:
    assert access_path(table(0, 5, 10), 11, 8).tolist() == [0.0, 0.5, 1.0]
    assert access_path(table(0, 10, 5, 5, 10, 10), 11, 3).tolist() == [0.5, 0.5, 1.0]
    assert len(access_path(table(*range(100)), 100, 7)) == 7
    assert len(access_path(table(), 100, 7)) == 0
