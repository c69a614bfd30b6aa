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
        (2, 5, 0, 0),
        (5, 6, 0, 1),
    ]


def test_prompts_that_part_at_every_block_make_no_staircase() -> None:
    # A trunk of forty blocks; off each one hangs a chain of two that ends there.
    nodes, after = [], None
    for number in range(1, 41):
        nodes += chain(number, after=after)
        nodes += chain(1000 + number, 2000 + number, after=number)
        after = number
    found = segments(nodes)
    assert max(found.levels) == 1
    order = found.arranged()
    assert [nodes[found.starts[s]].hash for s in order[:4]] == [1, 1001, 2, 1002]
    assert [found.goes_on[s] for s in order[:4]] == [False, False, True, False]
    assert sorted(order) == list(range(len(found.starts)))


def test_a_full_binary_tree_is_as_deep_as_it_must_be() -> None:
    nodes = []

    def grow(hash_: int, parent: int | None) -> None:
        nodes.append(node(hash_, parent))
        if hash_ < 32:
            grow(2 * hash_, hash_)
            grow(2 * hash_ + 1, hash_)

    grow(1, None)
    found = segments(nodes)
    assert len(found.starts) == 63
    assert max(found.levels) == 5


def test_a_segment_has_one_reference_count() -> None:
    found = segments([*chain(1, 2, ref=3), *chain(3, 4, after=2, ref=1)])
    assert (found.starts, found.parents, found.levels) == ([0, 2], [-1, 0], [0, 0])


def test_what_has_lost_its_beginning_is_a_root() -> None:
    # By depth alone, 9 might be taken for a child of 2.
    found = segments([*chain(1, 2), node(9, 77, depth=2), node(10, 9, depth=3)])
    assert (found.starts, found.ends, found.parents) == ([0, 2], [2, 4], [-1, -1])
    assert found.roots == 2


def test_equal_blocks_are_no_branches() -> None:
    first, second, third = (PrefixNode(block, 1, None, 0, 1, 0, (1,), 5) for block in (10, 11, 12))
    below = PrefixNode(20, 2, 1, 1, 1, 0, (2,), 5)
    for given, one in (([first, second, below, third], second), ([first, below, second, third], first)):
        found = segments(given)
        # The chain goes on from the block before it.
        assert [node.block for node in found.nodes] == [one.block, 20]
        assert (found.starts, found.parents) == ([0], [-1])
        assert sorted(node.block for node in found.equal[0]) == sorted({10, 11, 12} - {one.block})
    alone = segments([first, second])
    assert ([node.block for node in alone.nodes], alone.roots) == ([10], 1)


def test_equal_blocks_deeper_down() -> None:
    given = [*chain(1), node(2, 1, depth=1), node(2, 1, depth=1), *chain(3, after=2), node(4)]
    found = segments(given)
    assert (found.starts, found.ends, found.parents) == ([0, 3], [3, 4], [-1, -1])
    assert list(found.equal) == [1]


def test_hashes_may_have_a_sign_or_none() -> None:
    found = segments([node(-5), node(3, -5, depth=1), node((1 << 64) - 9), node(4, -9, depth=1)])
    assert (found.starts, found.parents) == ([0, 2], [-1, -1])


def test_what_branches_off_stands_before_what_goes_on() -> None:
    nodes = [*chain(1), *chain(2, 3, 4, after=1), *chain(5, after=1), *chain(6, 7, after=1)]
    found = segments(nodes)
    assert [nodes[found.starts[s]].hash for s in found.arranged()] == [1, 5, 6, 2]
    assert found.levels == [0, 0, 1, 1]
    equals = [*chain(1), *chain(2, after=1), *chain(3, after=1)]
    assert segments(equals).goes_on == [False, True, False]


def test_siblings_are_sorted_by_hits() -> None:
    nodes = [
        node(1, hits=1),
        *chain(9, 10, after=1),
        node(2, 1, depth=1, hits=0),
        node(3, 1, depth=1, hits=4),
        node(5, hits=7),
    ]
    found = segments(nodes)
    assert [nodes[found.starts[s]].hash for s in found.arranged()] == [1, 2, 3, 9, 5]
    assert [nodes[found.starts[s]].hash for s in found.arranged(by_hits=True)] == [5, 1, 3, 2, 9]


def test_nothing_is_cached() -> None:
    found = segments([])
    assert (found.roots, found.arranged(), found.arranged(by_hits=True)) == (0, [], [])
