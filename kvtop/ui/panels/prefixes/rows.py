"""The rows of the tree of prefixes: which segments stand where, folded or block by block. Pure functions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from typing import NamedTuple

from kvtop.analysis.prefix_segments import PrefixSegments, segments
from kvtop.timeline.snapshot import PrefixNode
from kvtop.ui.frame.ordering import Pattern

FOLDS_FROM = 3
"""Blocks from which on a segment is folded into one row."""


class PrefixRow(NamedTuple):
    """One row: a block, or a whole segment that is folded."""

    segment: int
    first: int
    """Place of its first node."""
    last: int
    """Place after its last node."""

    @property
    def places(self) -> range:
        """Places of its nodes."""
        return range(self.first, self.last)

    @property
    def folded(self) -> bool:
        """Whether it stands for several blocks."""
        return self.last - self.first > 1


class PrefixRows:
    """The rows of one tree of nodes.

    `opened` has the hashes of the first blocks of segments that are shown block by block.
    """

    def __init__(
        self, nodes: Sequence[PrefixNode], opened: Collection[int] = (), *, by_hits: bool = False
    ) -> None:
        self.segments: PrefixSegments = segments(nodes)
        self.nodes = self.segments.nodes
        order = self.segments.arranged(by_hits=by_hits)
        self.rows = self._rows(order, opened)
        self._ended = self._path_ends(order)

    def _rows(self, order: list[int], opened: Collection[int]) -> list[PrefixRow]:
        starts, ends, nodes = self.segments.starts, self.segments.ends, self.nodes
        rows: list[PrefixRow] = []
        for segment in order:
            start, end = starts[segment], ends[segment]
            if end - start >= FOLDS_FROM and nodes[start].hash not in opened:
                rows.append(PrefixRow(segment, start, end))
            else:
                rows += [PrefixRow(segment, place, place + 1) for place in range(start, end)]
        return rows

    def _path_ends(self, order: list[int]) -> frozenset[int]:
        """The segments after which nothing goes on at their level."""
        parents = self.segments.parents
        followed = {parents[segment] for segment in order if self.segments.goes_on[segment]}
        return frozenset(order) - followed

    def equal(self, row: PrefixRow) -> list[PrefixNode]:
        """The blocks that hold the same as those of a row."""
        equal = self.segments.equal
        return [node for place in row.places for node in equal.get(place, ())] if equal else []

    def foldable(self, row: PrefixRow) -> bool:
        """Whether the row's segment can be one row."""
        return self.segments.ends[row.segment] - self.segments.starts[row.segment] >= FOLDS_FROM

    def guide(self, row: PrefixRow) -> str:
        """The lines of the tree before a row, two cells a level: a line for all that goes on below, then
        where the row's own line begins, goes on or ends."""
        segment = row.segment
        level = self.segments.levels[segment]
        begins = row.first == self.segments.starts[segment] and not self.segments.goes_on[segment]
        ends = row.last == self.segments.ends[segment] and segment in self._ended
        starts = "├ " if level else "─ " if ends else "┌ "
        goes_on = "└ " if ends else "│ "
        return "│ " * level + (starts if begins else goes_on)

    def place_of(self, block: int) -> int | None:
        """Which row shows a block, or one that is equal to it; None when it is not in the tree."""
        node = next((place for place, node in enumerate(self.nodes) if node.block == block), None)
        if node is None:
            equal = self.segments.equal.items()
            node = next((place for place, others in equal if any(o.block == block for o in others)), None)
        return None if node is None else self.row_of(node)

    def row_of(self, node: int) -> int:
        """Which row shows a node."""
        return next(place for place, row in enumerate(self.rows) if row.first <= node < row.last)


def found(tree: PrefixRows, pattern: Pattern, text: Callable[[PrefixNode], str]) -> list[int]:
    """Places of the nodes in which a pattern begins, ascending. It may run from a block into the next one of
    its segment, not from one segment into another."""
    if not pattern:
        return []
    places: set[int] = set()
    for start, end in zip(tree.segments.starts, tree.segments.ends, strict=True):
        texts = [text(node).casefold() for node in tree.nodes[start:end]]
        whole, ends = "".join(texts), [*accumulate(map(len, texts))]
        for needle in pattern.needles:
            at = whole.find(needle)
            while at >= 0:
                places.add(start + bisect_right(ends, at))
                at = whole.find(needle, at + 1)
    return sorted(places)
