"""How far the context is split for a decode step: host arithmetic over lengths that the host knows anyway.

One program per (row, KV head) leaves most of a large GPU idle at a small batch, and lets one long row run on
alone after the short ones are done. So the visible context of each row is cut into spans of equal size, one
program each, and a second pass reduces them (flash-decoding). Nothing here looks at the device: no sync.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MAX_SPLITS = 64
MIN_SPAN = 128
"""Tokens; a smaller piece is mostly the start and the end of a program."""

RESIDENT = 2
"""Programs at a time on one processor: what the shared memory of the shipped configurations admits."""

# Costs in tokens: the time in which one of the resident programs reads that many tokens of K and V.
START = 64
"""A program's own cost: lengths, table and first tile one after the other, then its partial result."""
EMPTY = 24
"""A program that finds its span behind the row's end."""
REDUCE = 100
"""The second pass: one more launch."""

CANDIDATES = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, MAX_SPLITS])


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """Row by row, split i reads `tokens` tokens from the row's first visible one + i x `tokens`."""

    splits: int
    tokens: int
    """A split's span; `splits * tokens` covers the longest row's visible context."""


def plan_decode(
    lengths: npt.NDArray[np.integer], kv_heads: int, processors: int, tile: int, window: int = 0
) -> DecodePlan:
    """The number of splits that should end a decode step of these rows soonest. Changes nothing.

    lengths: tokens of each decoding row, its newest included. processors: of the device (132 on an H100).
    tile: tokens that a program reads at a time; spans are multiples. window: rows see their last `window`
    tokens; 0 means all. A plan holds for every smaller window too.

    The makespan of equal programs on `processors * RESIDENT` places is at most (all work / places) + one
    program (Graham, 1966); finer spans shorten the second term and add programs to the first.
    """
    visible = np.minimum(lengths, window) if window else np.asarray(lengths)
    longest = max(int(visible.max(initial=1)), 1)
    spans = -(-np.maximum(-(-longest // CANDIDATES), MIN_SPAN) // tile) * tile
    splits = -(-longest // spans)
    working = (-(-visible[:, None] // spans)).sum(0)
    idle = len(visible) * splits - working
    places = processors * RESIDENT
    cost = spans + kv_heads * (working * START + idle * EMPTY) / places + REDUCE * (splits > 1)
    best = int(np.argmin(cost))
    return DecodePlan(int(splits[best]), int(spans[best]))
