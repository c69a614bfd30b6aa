"""The tree of cached blocks as segments, so that a long prompt is one line and not a hundred.

A segment is a stretch of blocks without a branch in it and with one reference count: a node of the radix
tree over blocks, cut where sharing changes. Of the segments that follow one, the one with most blocks below
it goes on at its level and the others branch off (heavy paths: Sleator and Tarjan, A Data Structure for
Dynamic Trees, 1983), so that prompts which part at every block do not make a staircase: no segment is more
than log2(n) levels deep.

Equal blocks are not merged by the cache: what a swapped sequence brings back, or computes beside another,
lies in blocks of its own. They are counted with the one that the chain goes on from, and are no branches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from kvtop.timeline.snapshot import PrefixNode

_MASK = (1 << 64) - 1
_HASH, _REF_COUNT = attrgetter("hash"), attrgetter("ref_count")


@dataclass(frozen=True, slots=True)
class PrefixSegments:
    """Segments in the order of `nodes`, a parent before its children. All lists have an entry a segment."""

    given: Sequence[PrefixNode]
    """All nodes, as they were handed in."""
    nodes: Sequence[PrefixNode]
    """One node for each hash."""
    equal: dict[int, tuple[PrefixNode, ...]]
    """The other nodes with the hash of a node, by its place in `nodes`; only where there are some."""
    starts: list[int]
    ends: list[int]
    """Segment `i` consists of `nodes[starts[i]:ends[i]]`."""
    parents: list[int]
    """The segment that a segment goes on from; -1 for one that begins a text, or whose beginning is not
    among the nodes."""
    goes_on: list[bool]
    """Whether it goes on at its parent's level: of all that follow the parent it has most blocks below it."""
    levels: list[int]
    """How often one has to branch off to get there; 0 for roots."""

    @property
    def roots(self) -> int:
        """Segments with nothing before them."""
        return self.parents.count(-1)

    def arranged(self, *, by_hits: bool = False) -> list[int]:
        """Segments in the order in which a tree shows them: what branches off, then what goes on.

        Siblings stand as they come or, with `by_hits`, by the hits of their first block, most first.
        """
        children: dict[int, list[int]] = {}
        for segment, parent in enumerate(self.parents):
            children.setdefault(parent, []).append(segment)
        if by_hits:
            for siblings in children.values():
                siblings.sort(key=lambda segment: -self.nodes[self.starts[segment]].hits)
        order: list[int] = []
        stack = children.get(-1, [])[::-1]
        while stack:
            segment = stack.pop()
            order.append(segment)
            below = children.get(segment, ())
            stack += [child for child in below if self.goes_on[child]]
            stack += [child for child in below if not self.goes_on[child]][::-1]
        return order


def segments(given: Sequence[PrefixNode]) -> PrefixSegments:
    """The segments of chains that are given depth first, each parent before its children.

    A node whose parent is not among those before it begins a tree of its own.
    """
    if not given:
        return PrefixSegments(given, given, {}, [], [], [], [], [])
    nodes, equal, parent = _without_equals(given)
    number = len(nodes)
    references = np.fromiter(map(_REF_COUNT, nodes), np.int64, number)
    places = np.arange(number)
    children = np.bincount(parent[parent >= 0], minlength=number)
    continued = np.zeros(number, np.bool_)
    continued[1:] = (parent[1:] == places[:-1]) & (children[:-1] == 1) & (references[1:] == references[:-1])
    starts = np.flatnonzero(~continued)
    segment_of = np.cumsum(~continued) - 1
    above = parent[starts]
    parents: list[int] = np.where(above < 0, -1, segment_of[above]).tolist()
    begins, ends = starts.tolist(), [*starts[1:].tolist(), number]
    goes_on = _heaviest(parents, [end - begin for begin, end in zip(begins, ends, strict=True)])
    levels: list[int] = []
    for before, heaviest in zip(parents, goes_on, strict=True):
        levels.append(levels[before] + (not heaviest) if before >= 0 else 0)
    return PrefixSegments(given, nodes, equal, begins, ends, parents, goes_on, levels)


def _without_equals(
    given: Sequence[PrefixNode],
) -> tuple[Sequence[PrefixNode], dict[int, tuple[PrefixNode, ...]], NDArray[np.intp]]:
    """One node for each hash, the others by its place, and the place of each node's parent (-1 for none).

    Of several the chain goes on from the last one before what follows: it stands for them all.
    """
    number = len(given)
    hashes = _hashes(map(_HASH, given))
    wanted = _hashes(node.parent or 0 for node in given)
    places = np.arange(number)
    order = np.argsort(hashes, kind="stable")
    found = np.searchsorted(hashes, wanted, side="right", sorter=order) - 1
    while (late := (found >= 0) & (order[found] >= places) & (hashes[order[found]] == wanted)).any():
        found[late] -= 1
    candidate = order[found]
    parent = np.where((found >= 0) & (hashes[candidate] == wanted) & (wanted != 0), candidate, -1)
    same = hashes[order[1:]] == hashes[order[:-1]]
    edges = np.flatnonzero(np.concatenate(([True], ~same, [True])))
    if len(edges) > number:
        return given, {}, parent
    followed = np.zeros(number, np.bool_)
    followed[parent[parent >= 0]] = True
    stands_for = places.copy()
    others: dict[int, list[int]] = {}
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if end - begin > 1:
            group = order[begin:end].tolist()
            one = next((place for place in group if followed[place]), group[0])
            others[one] = [place for place in group if place != one]
            stands_for[group] = one
    kept = stands_for == places
    renumbered = np.cumsum(kept) - 1
    nodes = [given[place] for place in np.flatnonzero(kept).tolist()]
    equal = {int(renumbered[one]): tuple(given[place] for place in rest) for one, rest in others.items()}
    above = parent[kept]
    return nodes, equal, np.where(above < 0, -1, renumbered[stands_for[above]])


def _heaviest(parents: list[int], sizes: list[int]) -> list[bool]:
    """Whether a segment has more blocks in and below it than its siblings; the first of equal ones has."""
    weights, heaviest = sizes[:], [-1] * len(parents)
    for segment in range(len(parents) - 1, -1, -1):
        parent = parents[segment]
        if parent >= 0:
            weights[parent] += weights[segment]
            best = heaviest[parent]
            if best < 0 or weights[segment] >= weights[best]:
                heaviest[parent] = segment
    return [parent >= 0 and heaviest[parent] == segment for segment, parent in enumerate(parents)]


def _hashes(values: Iterable[int]) -> NDArray[np.int64]:
    """64-bit hashes as signed numbers, however they are given."""
    given = list(values)
    try:
        return np.array(given, np.int64)
    except OverflowError:
        return np.array([value & _MASK for value in given], np.uint64).view(np.int64)
