"""Copies of blocks that stand for one after the other, in groups that may run all at once."""

from __future__ import annotations

from kvtop.kernels.protocol import Pairs


def waves(pairs: Pairs, one_pool: bool) -> list[list[tuple[int, int]]]:
    """The pairs (source, destination) in as few groups as possible. Changes nothing.

    Within a group no destination is another pair's source or destination, so its copies may run in any
    order; the groups run one after the other, and the outcome is that of the pairs in the order given.
    one_pool: sources and destinations are blocks of the same pool; else an equal id is another block.
    """
    read: dict[int, int] = {}
    written: dict[int, int] = {}
    groups: list[list[tuple[int, int]]] = []
    for source, destination in pairs:
        wave = written.get(destination, 0)
        if one_pool:
            wave = max(wave, written.get(source, 0), read.get(destination, 0))
            read[source] = max(read.get(source, 0), wave + 1)
        written[destination] = wave + 1
        if wave == len(groups):
            groups.append([])
        groups[wave].append((source, destination))
    return groups
