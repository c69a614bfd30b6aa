"""Chains of blocks as segments of a tree."""

from __future__ import annotations

from kvtop.analysis.prefix_segments import segments
from kvtop.timeline.snapshot import PrefixNode


def node(hash_: int, parent: int | None = None, *, depth: int = 0, ref: int = 1, hits: int = 0) -> PrefixNode:
    return PrefixNode(hash_, hash_, parent, depth, ref, hits, (1, 2), 5)


def chain(*hashes: int, after: int | None = None, ref: int = 1) -> list[PrefixNode]:
    nodes = []
    for depth, hash_ in enumerate(hashes):
        nodes.append(node(hash_, after, depth=depth, ref=ref))
        after = hash_
    return nodes


def test_a_chain_is_one_segment() -> None:
    found = segments(chain(1, 2, 3, 4))
    assert (found.starts, found.ends, found.parents, found.levels) == ([0], [4], [-1], [0])


def test_a_branch_ends_a_segment() -> None:
    found = segments([*chain(1, 2), *chain(3, 4, after=2), *chain(5, after=4), *chain(6, after=2)])
    assert list(zip(found.starts, found.ends, found.parents, found.levels, strict=True)) == [
        (0, 2, -1, 0),
        (2, 5, 0, 1),
        (5, 6, 0, 1),
    ]


def test_a_segment_has_one_reference_count() -> None:
    found = segments([*chain(1, 2, ref=3), *chain(3, 4, after=2, ref=1)])
    assert (found.starts, found.parents, found.levels) == ([0, 2], [-1, 0], [0, 1])


def test_what_has_lost_its_beginning_is_a_root() -> None:
    # By depth alone, 9 might be taken for a child of 2.
    found = segments([*chain(1, 2), node(9, 77, depth=2), node(10, 9, depth=3)])
    assert (found.starts, found.ends, found.parents) == ([0, 2], [2, 4], [-1, -1])
    assert found.roots == 2


def test_of_equal_blocks_the_last_before_it_carries_what_follows() -> None:
    after_the_second = segments([node(1), node(1), node(2, 1, depth=1)])
    assert (after_the_second.starts, after_the_second.parents) == ([0, 1], [-1, -1])
    after_the_first = segments([node(1), node(2, 1, depth=1), node(1), node(1)])
    assert (after_the_first.starts, after_the_first.parents) == ([0, 2, 3], [-1, -1, -1])


def test_hashes_may_have_a_sign_or_none() -> None:
    found = segments([node(-5), node(3, -5, depth=1), node((1 << 64) - 9), node(4, -9, depth=1)])
    assert (found.starts, found.parents) == ([0, 2], [-1, -1])


def test_siblings_are_sorted_by_hits() -> None:
    nodes = [
        node(1, hits=1),
        node(2, 1, depth=1, hits=0),
        node(3, 1, depth=1, hits=4),
        node(4, 3, depth=2, ref=2, hits=1),
        node(5, hits=7),
    ]
    found = segments(nodes)
    assert found.arranged() == [0, 1, 2, 3, 4]
    assert [nodes[found.starts[s]].hash for s in found.arranged(by_hits=True)] == [5, 1, 3, 4, 2]


def test_nothing_is_cached() -> None:
    found = segments([])
    assert (found.roots, found.arranged(), found.arranged(by_hits=True)) == (0, [], [])
