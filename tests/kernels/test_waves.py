"""Copies in groups, against copying one pair after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.kernels.waves import waves

BLOCKS = 6
PAIRS = st.lists(st.tuples(st.integers(0, BLOCKS - 1), st.integers(0, BLOCKS - 1)), max_size=12)


def pools(one_pool: bool) -> tuple[np.ndarray, np.ndarray]:
    """What is in each block at first, all different."""
    source = np.arange(BLOCKS)
    return source, source if one_pool else np.arange(100, 100 + BLOCKS)


@pytest.mark.parametrize("one_pool", [True, False])
@given(PAIRS, st.randoms(use_true_random=False))
def test_groups_give_what_copying_in_order_gives(one_pool, pairs, random) -> None:
    source, target = pools(one_pool)
    for from_block, to_block in pairs:
        target[to_block] = source[from_block]
    grouped_source, grouped_target = pools(one_pool)
    for group in waves(pairs, one_pool):
        random.shuffle(group)
        for from_block, to_block in group:
            grouped_target[to_block] = grouped_source[from_block]
    assert (grouped_target == target).all()
    assert (grouped_source == source).all()


@pytest.mark.parametrize("one_pool", [True, False])
@given(PAIRS)
def test_within_a_group_nobody_writes_what_another_touches(one_pool, pairs) -> None:
    groups = waves(pairs, one_pool)
    assert sorted(pair for group in groups for pair in group) == sorted(pairs)
    for group in groups:
        assert group
        for i, (_, destination) in enumerate(group):
            others = group[:i] + group[i + 1 :]
            assert destination not in [other[1] for other in others]
            assert not one_pool or destination not in [other[0] for other in others]


@pytest.mark.parametrize("one_pool", [True, False])
@given(PAIRS)
def test_no_group_more_than_the_longest_chain(one_pool, pairs) -> None:
    chains: list[int] = []
    for i, (source, destination) in enumerate(pairs):
        before = [0]
        for j, (earlier_source, earlier_destination) in enumerate(pairs[:i]):
            conflict = destination == earlier_destination or (
                one_pool and (source == earlier_destination or destination == earlier_source)
            )
            if conflict:
                before.append(chains[j])
        chains.append(1 + max(before))
    assert len(waves(pairs, one_pool)) == max(chains, default=0)


def test_copies_that_do_not_meet_are_one_group() -> None:
    pairs = [(3, 10), (3, 11), (4, 12), (5, 13)]
    assert waves(pairs, one_pool=True) == [pairs]
    assert waves([(0, 1), (1, 0)], one_pool=False) == [[(0, 1), (1, 0)]]
    assert waves([], one_pool=True) == []


def test_a_block_read_before_it_is_overwritten_waits() -> None:
    assert waves([(0, 1), (2, 0), (0, 3)], one_pool=True) == [[(0, 1)], [(2, 0)], [(0, 3)]]
