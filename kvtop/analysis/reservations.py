"""The same live requests under paging and under one contiguous region a sequence.

Before paging, a serving system gave every sequence one contiguous region at admission, long enough for all
it might ever store. Kwon et al. (Efficient Memory Management for Large Language Model Serving with
PagedAttention, SOSP 2023, section 3.1 and figures 2 and 3) sort the slots of such a region into those that
hold tokens, those *reserved* for tokens to come, and *internal* fragmentation: those that no token will ever
take. What is left between regions, *external* fragmentation, depends on the allocator and on the order of
arrivals. Nothing here simulates that: regions are laid end to end, so what is admitted is an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from kvtop.timeline.snapshot import SequenceRow


class Scheme(str, Enum):
    """How long a contiguous region is; the names are those of figure 2 of the paper."""

    ORACLE = "oracle"
    """Prompt and answer exactly. The paper's oracle knows how long the answer gets; this one takes the
    request's own cap, which is as much as a request tells."""
    POW2 = "pow2"
    """The next power of two of that, as an allocator of power-of-two sizes would give. (The paper's Pow2
    rounds the answer alone.)"""
    MAX = "max"
    """As many positions as the model has, because nobody knows how long the answer gets."""


@dataclass(frozen=True, slots=True)
class Demand:
    """One live request, as an allocator of contiguous regions sees it. Lengths are in tokens."""

    request: int
    prompt: int
    max_new: int
    stored: tuple[int, ...]
    """Tokens whose K/V is stored now, of every region: sequences that are still to branch off have 0."""

    @property
    def regions(self) -> int:
        """Regions that it needs at once: one for each sample or beam, for nothing can be shared."""
        return len(self.stored)


@dataclass(frozen=True, slots=True)
class Region:
    """The slots of one request, in tokens: of a region each, or of its blocks."""

    request: int
    used: int
    """Slots that hold a token."""
    later: int
    """Slots reserved for tokens that may still come."""
    never: int
    """Slots that no token will take as things stand: beyond the cap, or the rest of a last block."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """What the live requests take under one scheme. Slots are in tokens."""

    slots: int
    """The whole pool."""
    regions: tuple[Region, ...]
    """In arrival order, of the requests that are in."""
    admitted: int
    """Requests that are in."""
    requests: int
    """Requests that live: those in, and those that wait."""
    cached: int
    """Slots that hold nothing but what may be found again; 0 without paging."""
    more: int | None
    """How many more of their average size fit beside them; None when there is no average."""

    @property
    def used(self) -> int:
        """Slots that hold a token."""
        return sum(region.used for region in self.regions)

    @property
    def later(self) -> int:
        """Slots reserved for tokens that may still come."""
        return sum(region.later for region in self.regions)

    @property
    def never(self) -> int:
        """Slots that no token will take."""
        return sum(region.never for region in self.regions)

    @property
    def reserved(self) -> int:
        """Slots that are taken from the pool, whatever is in them."""
        return self.used + self.later + self.never


def demands(rows: Iterable[SequenceRow]) -> tuple[Demand, ...]:
    """The live requests of a snapshot's rows, in arrival order (request ids count arrivals up).

    A request that has not branched yet needs its regions from the start, and a beam search keeps all of
    its own.
    """
    groups: dict[int, list[SequenceRow]] = {}
    for row in rows:
        groups.setdefault(row.request, []).append(row)
    return tuple(_demand(groups[request]) for request in sorted(groups))


def _demand(members: list[SequenceRow]) -> Demand:
    first = members[0]
    branched = len(members) > 1 or first.generated_tokens > 0
    wanted = first.beam_width if first.beam_width > 1 else 1 if branched else first.n
    stored = [member.stored_tokens for member in members]
    stored += [0] * (wanted - len(members))
    return Demand(first.request, first.prompt_tokens, first.max_new_tokens, tuple(stored))


def region_length(scheme: Scheme, demand: Demand, max_positions: int | None) -> int:
    """Slots of one region of a request. No region is longer than the model has positions.

    Raises ValueError for MAX when `max_positions` is not known.
    """
    if scheme is Scheme.MAX:
        if max_positions is None:
            raise ValueError("the scheme max needs the model's number of positions")
        return max_positions
    needed = demand.prompt + demand.max_new
    length = needed if scheme is Scheme.ORACLE else 1 << max(0, needed - 1).bit_length()
    return length if max_positions is None else min(length, max_positions)


def contiguous(
    scheme: Scheme,
    live: Sequence[Demand],
    slots: int,
    *,
    max_positions: int | None = None,
    max_sequences: int | None = None,
) -> Reservation:
    """What a pool of `slots` tokens admits of the live requests, first come first served.

    The first that does not fit stops all that come after it, as in the scheduler. `max_sequences` bounds
    the regions as it bounds the sequences that run.
    """
    regions: list[Region] = []
    free, admitted, short = slots, 0, False
    for demand in live:
        length = region_length(scheme, demand, max_positions)
        if max_sequences is not None and len(regions) + demand.regions > max_sequences:
            break
        if demand.regions * length > free:
            short = True
            break
        free -= demand.regions * length
        admitted += 1
        regions += _regions(demand, length)
    reserved = slots - free
    more = 0 if short else free * admitted // reserved if reserved else None
    return Reservation(slots, tuple(regions), admitted, len(live), 0, more)


def _regions(demand: Demand, length: int) -> list[Region]:
    """The regions of an admitted request."""
    cap = min(length, demand.prompt + demand.max_new)
    regions = []
    for stored in demand.stored:
        used = min(stored, length)
        later = max(0, cap - used)
        regions.append(Region(demand.request, used, later, length - used - later))
    return regions


def paged(
    rows: Sequence[SequenceRow],
    fill: NDArray[np.int32],
    *,
    block_size: int,
    total_blocks: int,
    used_blocks: int,
    cached_blocks: int,
) -> Reservation:
    """What the live requests take in blocks, each block counted once: for the first request that holds it.

    `fill` has the filled slots of every block of the pool. Costs what the tables with shared blocks cost,
    not what the pool does.
    """
    holders = sorted(
        (row for row in rows if row.blocks and not row.on_host), key=lambda row: (row.request, row.branch)
    )
    shared = [row for row in holders if row.shared_blocks]
    first = _first_holders(shared)
    regions: dict[int, tuple[int, int]] = {}
    for row in holders:
        used, waste = row.stored_tokens, row.waste_slots
        if row.shared_blocks:
            mine = first[row.id]
            used = int(fill[mine].sum())
            waste = len(mine) * block_size - used
        before = regions.get(row.request, (0, 0))
        regions[row.request] = before[0] + used, before[1] + waste
    admitted = len(regions)
    left = total_blocks - used_blocks
    more = left * admitted // used_blocks if used_blocks and admitted else None
    return Reservation(
        total_blocks * block_size,
        tuple(Region(request, used, 0, waste) for request, (used, waste) in regions.items()),
        admitted,
        len({row.request for row in rows}),
        cached_blocks * block_size,
        more,
    )


def _first_holders(rows: Sequence[SequenceRow]) -> dict[int, NDArray[np.int32]]:
    """The blocks of each sequence that no sequence before it holds."""
    if not rows:
        return {}
    blocks, places = np.unique(np.concatenate([row.table for row in rows]), return_index=True)
    bounds = np.cumsum([len(row.table) for row in rows])
    owner = np.searchsorted(bounds, places, side="right")
    return {row.id: blocks[owner == index] for index, row in enumerate(rows)}
