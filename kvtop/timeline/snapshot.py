"""The frozen picture of memory that the screens see, and nothing else.

Built by the engine's thread when a screen asks, published by one attribute assignment, never changed
afterwards. What a source does not publish is None and is drawn as "not published", never as zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvtop.memory.events import AnyEvent

SCHEMA_VERSION = 1


class BlockState(IntEnum):
    """What a block is; values index the map's look-up tables."""

    FREE = 0
    CACHED = 1
    """Reference count 0 but findable by hash: an eviction candidate."""
    USED = 2
    SHARED = 3
    """Reference count above 1."""


@dataclass(frozen=True, slots=True)
class BlockColumns:
    """One entry a block id. Arrays are read-only copies."""

    state: NDArray[np.uint8]
    """A `BlockState` each."""
    ref_count: NDArray[np.int32]
    owner: NDArray[np.int32]
    """Index into `Snapshot.sequences` of the first sequence whose table holds it; -1 without one."""
    fill: NDArray[np.int32]
    """Filled slots, 0 to block size."""
    has_hash: NDArray[np.bool_]
    touched: NDArray[np.int32]
    """Step of the last allocation, share, release or free; 0 if never."""


@dataclass(frozen=True, slots=True)
class SequenceRow:
    """One live sequence, or a waiting request's prompt."""

    id: int
    name: str
    """`42`, or `42.1` for a branch."""
    request: int
    branch: int
    label: str
    state: str
    """`running`, `prefill`, `holding`, `waiting`, `swapped`."""
    wait_reason: str
    prompt_tokens: int
    generated_tokens: int
    stored_tokens: int
    max_new_tokens: int
    n: int
    beam_width: int
    blocks: int
    """Table entries, on the device or (swapped) on the host."""
    on_host: bool
    shared_blocks: int
    """Table entries whose block has a reference count above 1."""
    waste_slots: int
    """Allocated token slots that hold nothing; for a shared block each holder counts it."""
    prefix_hit_tokens: int
    preemptions: int
    table: NDArray[np.int32]
    """Physical block ids by logical index."""
    tail: tuple[int, ...]
    """The last tokens, for a line of text; at most 32."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals since the start, and the state of the pools. Units in the names or below.

    `used`, `cached` and `free` add up to `total`; do not add `shared` to them, it is part of `used`.
    """

    total_blocks: int
    used_blocks: int
    shared_blocks: int
    cached_blocks: int
    free_blocks: int
    stored_tokens: int
    """Filled physical slots of used blocks, each once."""
    slots: int
    """Used blocks x block size."""
    host_total_blocks: int
    host_used_blocks: int
    running: int
    waiting: int
    swapped: int
    """running, waiting and swapped count sequences; finished, aborted and rejected count requests."""
    finished: int
    aborted: int
    rejected: int
    preempted_swap: int
    preempted_recompute: int
    cow_copies: int
    evictions: int
    prefix_queries: int
    prefix_hits: int
    """Prefix-cache figures are in tokens and count first admissions only."""
    generated_tokens: int


@dataclass(frozen=True, slots=True)
class Owner:
    """A table entry that points at the inspected block."""

    sequence: int
    name: str
    logical: int


@dataclass(frozen=True, slots=True)
class BlockDetail:
    """The block under the cursor."""

    block: int
    state: BlockState
    ref_count: int
    fill: int
    block_size: int
    hash: int | None
    parent_hash: int | None
    owners: tuple[Owner, ...]
    token_ids: tuple[int, ...] | None
    """The tokens whose K/V it holds; None when the source does not know."""
    first_position: int | None
    touched: int
    life: tuple[str, ...]
    """The last events that touched it, oldest first, in words."""


@dataclass(frozen=True, slots=True)
class SequenceDetail:
    """The sequence under the cursor, in full."""

    id: int
    name: str
    prompt_token_ids: tuple[int, ...]
    generated_token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StepFigures:
    """What the newest step did, and rates over the last seconds of wall time."""

    scheduled_tokens: int
    prefill_tokens: int
    schedule_seconds: float
    run_seconds: float
    update_seconds: float
    tokens_per_second: float | None
    steps_per_second: float | None


@dataclass(frozen=True, slots=True)
class Source:
    """What is being looked at; fixed for a session."""

    kind: str
    """`live`, `recorded` or `attached`."""
    model: str
    device: str | None
    dtype: str | None
    attention: str | None
    block_size: int
    bytes_per_block: int | None
    weight_bytes: int | None
    workload: str
    seed: int | None
    preemption: str | None
    max_sequences: int | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a screen may draw, at one moment of one step."""

    source: Source
    step: int
    order: int
    counters: Counters
    blocks: BlockColumns
    host: BlockColumns | None
    sequences: tuple[SequenceRow, ...]
    """Running first (by arrival), then swapped, then waiting in queue order."""
    figures: StepFigures | None
    events: tuple[AnyEvent, ...]
    """The newest events worth a line in the log, oldest first; at most 256."""
    block_detail: BlockDetail | None = None
    sequence_detail: SequenceDetail | None = None
    caption: str = ""
    schema: int = SCHEMA_VERSION
    extra: dict[str, Any] = field(default_factory=dict)
