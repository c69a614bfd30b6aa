"""The memory's state, folded from events: what recordings, rewinding, checking and the screens rest on.

The fold keeps books of its own, from the events alone; invariant I9 says that its arrays equal the live
pools' bit for bit.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kvtop.memory import events as ev
from kvtop.memory.free_queue import FreeQueue

Handler = Callable[[Any], None]
Reading: TypeAlias = "tuple[int, int, array[int]]"
"""A sequence, its stored tokens once the step had computed it, and its table then."""
PREEMPTIONS = 32
"""Newest preemptions that are remembered for a sequence."""


def _zeros(code: str, count: int) -> array[int]:
    return array(code, bytes(array(code).itemsize * count))


class PoolState:
    """One tier's columns, as in `kvtop.memory.block_pool.BlockPool`, and what only the events tell."""

    __slots__ = ("fills", "free_queue", "hashes", "num_blocks", "parents", "ref_counts", "touched")

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.free_queue = FreeQueue(num_blocks)
        self.ref_counts = _zeros("i", num_blocks)
        self.hashes = _zeros("q", num_blocks)
        self.fills = _zeros("i", num_blocks)
        self.touched = _zeros("i", num_blocks)
        """int32: step of the last allocation, share, release or copy. The pools themselves do without."""
        self.parents: dict[int, int] = {}
        """Cached block -> hash of the chain before it."""

    def take(self, blocks: Sequence[int], step: int) -> None:
        """Fresh blocks leave the front of the queue with one reference and nothing in them.

        Raises IndexError when others stand at the front.
        """
        count = len(blocks)
        if count > len(self.free_queue) or self.free_queue.pop_front(count) != list(blocks):
            raise IndexError(f"blocks {blocks} are not the first in the free queue")
        for block in blocks:
            self.ref_counts[block] = 1
            self.fills[block] = 0
            self.touched[block] = step

    def add_reference(self, block: int, step: int) -> None:
        """One table entry more; a cached block leaves the queue."""
        if self.ref_counts[block] == 0:
            self.free_queue.remove(block)
        self.ref_counts[block] += 1
        self.touched[block] = step

    def drop_reference(self, block: int, step: int) -> None:
        """One table entry fewer. The queue follows with `Freed`."""
        self.ref_counts[block] -= 1
        self.touched[block] = step
        if self.ref_counts[block] == 0 and not self.hashes[block]:
            self.fills[block] = 0


@dataclass(slots=True)
class PreemptionState:
    """One time that a sequence lost its blocks."""

    event: ev.Preempted
    blocks: int
    """Table entries that it gave up."""
    tokens: int
    """What it had stored."""
    resumed: int | None = None
    """Step in which its group ran again."""


@dataclass(slots=True, eq=False)
class SequenceState:
    """One sequence, as far as the events tell."""

    id: int
    tokens: array[int]
    prompt_length: int
    table: array[int] = field(default_factory=lambda: array("i"))
    stored: int = 0
    on_host: bool = False
    holding: bool = False
    prefix_hit_tokens: int = 0
    preempted: deque[PreemptionState] = field(default_factory=lambda: deque(maxlen=PREEMPTIONS))
    """Oldest first."""


@dataclass(slots=True, eq=False)
class RequestState:
    """One request that has not ended. `state` is `waiting`, `running` or `swapped`."""

    arrived: ev.Arrived
    sequences: dict[int, SequenceState]
    state: str = "waiting"
    wait_reason: str = ""
    preemptions: int = 0


@dataclass(slots=True)
class Totals:
    """Counts since the start. Requests, blocks or tokens as the names say."""

    finished: int = 0
    aborted: int = 0
    rejected: int = 0
    preempted_swap: int = 0
    preempted_recompute: int = 0
    cow_copies: int = 0
    evictions: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    generated_tokens: int = 0


class MemoryState:
    """Pools, tables, requests and totals after every event applied so far.

    `blocks` and `host_blocks` are the pools' sizes, `block_size` is in tokens.
    """

    def __init__(self, blocks: int, block_size: int, host_blocks: int = 0) -> None:
        self.block_size = block_size
        self.device = PoolState(blocks)
        self.host = PoolState(host_blocks)
        self.requests: dict[int, RequestState] = {}
        """Live requests in arrival order."""
        self.totals = Totals()
        self.step = 0
        self.order = -1
        """Order of the newest event within `step`; -1 before the first."""
        self.last_step: ev.StepEnded | None = None
        self.reads: list[Reading] = []
        """What attention read in the newest step that has ended, in the order of computing."""
        self.hits: dict[int, int] = {}
        """Cached device block -> how often a table took it from the cache; those never taken are left out."""
        self._computed: list[Reading] = []
        self._contents: dict[int, tuple[array[int], int]] = {}
        self._handlers: dict[type, Handler] = {
            kind: getattr(self, f"_on_{kind.__name__.lower()}") for kind in ev.AnyEvent.__args__
        }

    def apply(self, event: ev.AnyEvent) -> None:
        """Fold one event in. Raises KeyError or IndexError for one that does not fit what came before."""
        self._handlers[type(event)](event)
        self.step, self.order = event.step, event.order

    def sequence(self, sequence: int) -> SequenceState:
        """A live sequence. Raises KeyError when it has ended."""
        return self.requests[ev.request_of(sequence)].sequences[sequence]

    def contents(self, block: int) -> tuple[array[int], int] | None:
        """The token array that a cached device block was filled from, and its logical index; else None."""
        return self._contents.get(block)

    # -- requests -------------------------------------------------------------------------------------

    def _on_arrived(self, event: ev.Arrived) -> None:
        branches = event.n > 1 or event.beam_width > 1
        root = ev.sequence_id(event.request, int(branches))
        tokens = array("i", event.prompt_token_ids)
        sequence = SequenceState(root, tokens, len(tokens))
        self.requests[event.request] = RequestState(event, {root: sequence})

    def _on_admitted(self, event: ev.Admitted) -> None:
        request = self.requests[event.request]
        request.state, request.wait_reason = "running", ""
        sequence = request.sequences[event.sequence]
        sequence.stored = event.prefix_hit_tokens
        if event.first:
            sequence.prefix_hit_tokens = event.prefix_hit_tokens
            self.totals.prefix_queries += event.prompt_tokens
            self.totals.prefix_hits += event.prefix_hit_tokens

    def _on_rejected(self, event: ev.Rejected) -> None:
        del self.requests[event.request]
        self.totals.rejected += 1

    def _on_waited(self, event: ev.Waited) -> None:
        self.requests[event.request].wait_reason = event.reason

    def _on_finished(self, event: ev.Finished) -> None:
        del self.requests[event.request]
        self.totals.finished += 1

    def _on_aborted(self, event: ev.Aborted) -> None:
        del self.requests[event.request]
        self.totals.aborted += 1

    # -- sequences ------------------------------------------------------------------------------------

    def _on_forked(self, event: ev.Forked) -> None:
        parent = self.sequence(event.parent)
        child = SequenceState(
            event.child,
            array("i", parent.tokens),
            parent.prompt_length,
            array("i", parent.table),
            parent.stored,
            prefix_hit_tokens=parent.prefix_hit_tokens,
        )
        self.requests[ev.request_of(event.parent)].sequences[event.child] = child
        for block in child.table:
            self.device.add_reference(block, event.step)

    def _on_advanced(self, event: ev.Advanced) -> None:
        sequence = self.sequence(event.sequence)
        size, fills, written = self.block_size, self.device.fills, False
        for logical in range(sequence.stored // size, -(-event.stored // size)):
            block = sequence.table[logical]
            slots = min(size, event.stored - logical * size)
            if fills[block] < slots:
                fills[block] = slots
                written = True
        if written:
            # Otherwise nothing was computed: it got a token only, or what a sibling has stored for it.
            self._computed.append((event.sequence, event.stored, sequence.table[:]))
        sequence.stored = event.stored
        sequence.tokens.extend(event.token_ids)
        sequence.holding = False
        self.totals.generated_tokens += len(event.token_ids)

    def _on_held(self, event: ev.Held) -> None:
        self.sequence(event.sequence).holding = True

    def _on_sequenceended(self, event: ev.SequenceEnded) -> None:
        del self.requests[ev.request_of(event.sequence)].sequences[event.sequence]

    def _on_preempted(self, event: ev.Preempted) -> None:
        request = self.requests[event.request]
        request.preemptions += 1
        request.wait_reason = event.why
        for sequence in request.sequences.values():
            sequence.preempted.append(PreemptionState(event, len(sequence.table), sequence.stored))
        if event.mode is ev.PreemptionMode.SWAP:
            request.state = "swapped"
            self.totals.preempted_swap += 1
        else:
            request.state = "waiting"
            self.totals.preempted_recompute += 1

    def _on_swappedout(self, event: ev.SwappedOut) -> None:
        self._move(event.sequences, event.device_blocks, event.host_blocks, event.step, to_host=True)

    def _on_swappedin(self, event: ev.SwappedIn) -> None:
        self._move(event.sequences, event.host_blocks, event.device_blocks, event.step, to_host=False)

    def _on_resumed(self, event: ev.Resumed) -> None:
        request = self.requests[event.request]
        request.state, request.wait_reason = "running", ""
        for sequence in request.sequences.values():
            if sequence.preempted:
                sequence.preempted[-1].resumed = event.step

    def _move(
        self,
        sequences: tuple[int, ...],
        from_: tuple[int, ...],
        to: tuple[int, ...],
        step: int,
        *,
        to_host: bool,
    ) -> None:
        origin, target = (self.device, self.host) if to_host else (self.host, self.device)
        target.take(to, step)
        for old, new in zip(from_, to, strict=True):
            target.ref_counts[new] = 0
            target.fills[new] = origin.fills[old]
        mapping = dict(zip(from_, to, strict=True))
        for id_ in sequences:
            sequence = self.sequence(id_)
            for logical, old in enumerate(sequence.table):
                new = mapping[old]
                target.ref_counts[new] += 1
                origin.drop_reference(old, step)
                sequence.table[logical] = new
            sequence.on_host = to_host

    # -- blocks ---------------------------------------------------------------------------------------

    def _on_evicted(self, event: ev.Evicted) -> None:
        for block in event.blocks:
            self.device.hashes[block] = 0
            del self.device.parents[block]
            del self._contents[block]
            self.hits.pop(block, None)
        self.totals.evictions += len(event.blocks)

    def _on_allocated(self, event: ev.Allocated) -> None:
        self.device.take(event.blocks, event.step)
        self._append(event.sequence, event.logical, event.blocks)

    def _on_shared(self, event: ev.Shared) -> None:
        hashes, hits = self.device.hashes, self.hits
        for block in event.blocks:
            self.device.add_reference(block, event.step)
            if hashes[block]:
                hits[block] = hits.get(block, 0) + 1
        self._append(event.sequence, event.logical, event.blocks)

    def _append(self, sequence: int, logical: int, blocks: tuple[int, ...]) -> None:
        table = self.sequence(sequence).table
        if logical != len(table):
            raise IndexError(f"{ev.sequence_name(sequence)} has {len(table)} blocks, not {logical}")
        table.extend(blocks)

    def _on_released(self, event: ev.Released) -> None:
        sequence = self.sequence(event.sequence)
        pool = self.device if event.tier is ev.Tier.DEVICE else self.host
        for block in event.blocks:
            pool.drop_reference(block, event.step)
        del sequence.table[len(sequence.table) - len(event.blocks) :]
        sequence.stored = min(sequence.stored, len(sequence.table) * self.block_size)
        sequence.on_host = sequence.on_host and bool(sequence.table)

    def _on_freed(self, event: ev.Freed) -> None:
        pool = self.device if event.tier is ev.Tier.DEVICE else self.host
        if event.end is ev.QueueEnd.FRONT:
            pool.free_queue.push_front(event.blocks)
        else:
            pool.free_queue.push_back(event.blocks)

    def _on_cached(self, event: ev.Cached) -> None:
        tokens = self.sequence(event.sequence).tokens
        entries = zip(event.blocks, event.hashes, event.parents, strict=True)
        for logical, (block, hash_, parent) in enumerate(entries, event.logical):
            self.device.hashes[block] = hash_
            self.device.parents[block] = parent
            self._contents[block] = (tokens, logical)

    def _on_copied(self, event: ev.Copied) -> None:
        self.device.take((event.destination,), event.step)
        self.device.fills[event.destination] = self.device.fills[event.source]
        self.device.drop_reference(event.source, event.step)
        self.sequence(event.sequence).table[event.logical] = event.destination
        self.totals.cow_copies += 1

    # -- steps ----------------------------------------------------------------------------------------

    def _on_stepbegan(self, event: ev.StepBegan) -> None:
        pass

    def _on_stepended(self, event: ev.StepEnded) -> None:
        self.last_step = event
        self.reads, self._computed = self._computed, []
