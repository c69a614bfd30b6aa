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
    """Hash of the chain before it; None for the first block of a prompt, or without a hash."""
    owners: tuple[Owner, ...]
    token_ids: tuple[int, ...] | None
    """The tokens whose K/V it holds; None when the source does not know."""
    first_position: int | None
    touched: int
    life: tuple[str, ...]
    """The last events that touched it, oldest first, in words."""
    parent_block: int | None = None
    """The block that holds the chain before it; None at the beginning of a prompt, or when that chain cannot
    be found any more."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """One time that a sequence's group lost its blocks: why, and what that cost."""

    step: int
    mode: str
    """`swap` or `recompute`."""
    why: str
    """Who needed how many blocks, in words."""
    blocks_short: int
    blocks: int
    """Table entries that the sequence gave up."""
    tokens: int
    """Its stored tokens then: computed again after `recompute`, moved twice after `swap`."""
    resumed: int | None
    """The step in which it ran again; None while it waits."""


@dataclass(frozen=True, slots=True)
class SequenceDetail:
    """The sequence under the cursor, in full."""

    id: int
    name: str
    prompt_token_ids: tuple[int, ...]
    generated_token_ids: tuple[int, ...]
    preemptions: tuple[Preemption, ...] = ()
    """Oldest first; the newest 32."""


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
    kv_bytes_read: int | None = None
    """Bytes of K/V that the step's attention read, each sequence's once; None when a block's size is not
    known."""


class FlashKind(IntEnum):
    """What made blocks flash in the map."""

    COPIED = 0
    EVICTED = 1
    PREEMPTED = 2


@dataclass(frozen=True, slots=True)
class Flash:
    """Something that happened to some blocks and that the map shows for a moment."""

    serial: int
    """Counts up from 1, never reused: a screen draws those above the last it has seen."""
    kind: FlashKind
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """What attention read for one sequence in the newest step."""

    sequence: int
    name: str
    tokens: int
    """Positions whose K/V was read: the sequence's stored tokens after the step."""
    table: NDArray[np.int32]
    """Physical blocks that hold those positions, by logical index."""


@dataclass(frozen=True, slots=True)
class PrefixNode:
    """One block that can be found by its content, as a node of the tree of prefixes."""

    block: int
    hash: int
    parent: int | None
    """Hash of the chain before it; None for the first block of a prompt."""
    depth: int
    """Its logical index: 0 for the first block of a prompt."""
    ref_count: int
    hits: int
    """How often a sequence took it from the cache since it was cached."""
    token_ids: tuple[int, ...]
    touched: int


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
    max_positions: int | None = None
    """Tokens that a sequence may have at most; None without a limit or when not published."""
    windowed: bool = False
    """Whether some layer reads only the last tokens of a sequence (a sliding window)."""
    kernels: str | None = None
    """Which implementation of the kernels runs, in a word."""
    kernels_note: str | None = None
    """Why it is not the one that would be first on this device."""


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
    trace: tuple[AnyEvent, ...] = ()
    """The newest events of every kind but `Advanced` and `StepBegan`, oldest first; at most 1,024."""
    flashes: tuple[Flash, ...] = ()
    """The newest, oldest first; at most 256."""
    reads: tuple[Read, ...] = ()
    """What the newest step's attention read, a sequence each."""
    prefixes: tuple[PrefixNode, ...] | None = None
    """The cached chains depth first, each parent before its children; None unless asked for."""
    prefixes_left_out: int = 0
    """Cached blocks beyond those in `prefixes`, which has at most 4,096."""
    schema: int = SCHEMA_VERSION
    extra: dict[str, Any] = field(default_factory=dict)
