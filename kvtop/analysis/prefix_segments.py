"""The tree of cached blocks as segments, so that a long prompt is one line and not a hundred.

A segment is a stretch of blocks without a branch in it and with one reference count: a node of the radix
tree over blocks, cut where sharing changes.
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

    nodes: Sequence[PrefixNode]
    starts: list[int]
    ends: list[int]
    """Segment `i` consists of `nodes[starts[i]:ends[i]]`."""
    parents: list[int]
    """The segment that a segment goes on from; -1 for one that begins a text, or whose beginning is not
    among the nodes."""
    levels: list[int]
    """How many segments are above it."""

    @property
    def roots(self) -> int:
        """Segments with nothing before them."""
        return self.parents.count(-1)

    def arranged(self, *, by_hits: bool = False) -> list[int]:
        """Segments in the order in which a tree shows them: as they come, or, with `by_hits`, siblings
        sorted by the hits of their first block, most first."""
        if not by_hits:
            return list(range(len(self.starts)))
        children: dict[int, list[int]] = {}
        for segment, parent in enumerate(self.parents):
            children.setdefault(parent, []).append(segment)
        for siblings in children.values():
            siblings.sort(key=lambda segment: -self.nodes[self.starts[segment]].hits)
        order: list[int] = []
        stack = children.get(-1, [])[::-1]
        while stack:
            segment = stack.pop()
            order.append(segment)
            stack += children.get(segment, [])[::-1]
        return order


def segments(nodes: Sequence[PrefixNode]) -> PrefixSegments:
    """The segments of chains that are given depth first, each parent before its children.

    A node whose parent is not among those before it begins a tree of its own.
    """
    number = len(nodes)
    if not number:
        return PrefixSegments(nodes, [], [], [], [])
    hashes = _hashes(map(_HASH, nodes))
    wanted = _hashes(node.parent or 0 for node in nodes)
    references = np.fromiter(map(_REF_COUNT, nodes), np.int64, number)
    places = np.arange(number)
    order = np.argsort(hashes, kind="stable")
    # Of several blocks with one hash the chain goes on from the last one before it.
    found = np.searchsorted(hashes, wanted, side="right", sorter=order) - 1
    while (late := (found >= 0) & (order[found] >= places) & (hashes[order[found]] == wanted)).any():
        found[late] -= 1
    candidate = order[found]
    known = (found >= 0) & (hashes[candidate] == wanted) & (wanted != 0)
    parent = np.where(known, candidate, -1)
    children = np.bincount(parent[known], minlength=number)
    goes_on = np.zeros(number, np.bool_)
    goes_on[1:] = (parent[1:] == places[:-1]) & (children[:-1] == 1) & (references[1:] == references[:-1])
    starts = np.flatnonzero(~goes_on)
    segment_of = np.cumsum(~goes_on) - 1
    above = parent[starts]
    parents: list[int] = np.where(above < 0, -1, segment_of[above]).tolist()
    levels: list[int] = []
    for before in parents:
        levels.append(levels[before] + 1 if before >= 0 else 0)
    ends = [*starts[1:].tolist(), number]
    return PrefixSegments(nodes, starts.tolist(), ends, parents, levels)


def _hashes(values: Iterable[int]) -> NDArray[np.int64]:
    """64-bit hashes as signed numbers, however they are given."""
    given = list(values)
    try:
        return np.array(given, np.int64)
    except OverflowError:
        return np.array([value & _MASK for value in given], np.uint64).view(np.int64)
