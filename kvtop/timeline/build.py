"""Builds the frozen snapshot that screens draw, from the folded state."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from kvtop.memory import events as ev
from kvtop.memory.events import AnyEvent, sequence_name
from kvtop.timeline.columns import PoolTotals
from kvtop.timeline.snapshot import (
    BlockDetail,
    BlockState,
    Counters,
    Owner,
    Preemption,
    Read,
    SequenceDetail,
    SequenceRow,
)
from kvtop.timeline.state import MemoryState, RequestState, SequenceState
from kvtop.timeline.tables import TableState

TAIL = 32
"""Tokens of a sequence's end that a row carries for its line of text."""
_ORDER = {"running": 0, "swapped": 1, "waiting": 2}


def sequence_order(state: MemoryState) -> list[tuple[RequestState, SequenceState]]:
    """All live sequences in the order of their rows: running by arrival, then swapped, then waiting."""
    requests = sorted(state.requests.values(), key=lambda request: _ORDER[request.state])
    return [(request, sequence) for request in requests for sequence in request.sequences.values()]


def sequence_row(
    request: RequestState, sequence: SequenceState, table: TableState, block_size: int
) -> SequenceRow:
    """The row of a live sequence with its table, which the row keeps."""
    arrived, blocks = request.arrived, len(table.blocks)
    return SequenceRow(
        id=sequence.id,
        name=sequence_name(sequence.id),
        request=arrived.request,
        branch=ev.branch_of(sequence.id),
        label=arrived.label,
        state=_state_word(request, sequence),
        wait_reason=request.wait_reason,
        prompt_tokens=sequence.prompt_length,
        generated_tokens=len(sequence.tokens) - sequence.prompt_length,
        stored_tokens=sequence.stored,
        max_new_tokens=arrived.max_new_tokens,
        n=arrived.n,
        beam_width=arrived.beam_width,
        blocks=blocks,
        on_host=sequence.on_host,
        shared_blocks=table.shared,
        waste_slots=blocks * block_size - sequence.stored,
        prefix_hit_tokens=sequence.prefix_hit_tokens,
        preemptions=request.preemptions,
        table=table.blocks,
        tail=tuple(sequence.tokens[-TAIL:]),
    )


def _state_word(request: RequestState, sequence: SequenceState) -> str:
    if request.state != "running":
        return request.state
    if sequence.holding:
        return "holding"
    return "prefill" if len(sequence.tokens) - sequence.stored > 1 else "running"


def counters(state: MemoryState, device: PoolTotals, host: PoolTotals) -> Counters:
    """Totals and the state of the pools."""
    free, cached, single, shared = device.by_state.tolist()
    sequences = {"running": 0, "waiting": 0, "swapped": 0}
    for request in state.requests.values():
        sequences[request.state] += len(request.sequences)
    totals = state.totals
    return Counters(
        total_blocks=state.device.num_blocks,
        used_blocks=single + shared,
        shared_blocks=shared,
        cached_blocks=cached,
        free_blocks=free,
        stored_tokens=device.stored,
        slots=(single + shared) * state.block_size,
        host_total_blocks=state.host.num_blocks,
        host_used_blocks=int(host.by_state[BlockState.USED :].sum()),
        running=sequences["running"],
        waiting=sequences["waiting"],
        swapped=sequences["swapped"],
        finished=totals.finished,
        aborted=totals.aborted,
        rejected=totals.rejected,
        preempted_swap=totals.preempted_swap,
        preempted_recompute=totals.preempted_recompute,
        cow_copies=totals.cow_copies,
        evictions=totals.evictions,
        prefix_queries=totals.prefix_queries,
        prefix_hits=totals.prefix_hits,
        generated_tokens=totals.generated_tokens,
    )


def sequence_detail(state: MemoryState, sequence_id: int) -> SequenceDetail | None:
    """A live sequence in full; None when it has ended."""
    try:
        sequence = state.sequence(sequence_id)
    except KeyError:
        return None
    cut = sequence.prompt_length
    return SequenceDetail(
        id=sequence_id,
        name=sequence_name(sequence_id),
        prompt_token_ids=tuple(sequence.tokens[:cut]),
        generated_token_ids=tuple(sequence.tokens[cut:]),
        preemptions=tuple(
            Preemption(
                step=preempted.event.step,
                mode=preempted.event.mode.value,
                why=preempted.event.why,
                blocks_short=preempted.event.blocks_short,
                blocks=preempted.blocks,
                tokens=preempted.tokens,
                resumed=preempted.resumed,
            )
            for preempted in sequence.preempted
        ),
    )


def reads(state: MemoryState) -> tuple[Read, ...]:
    """What the newest ended step's attention read, in the order of computing."""
    return tuple(
        Read(sequence, sequence_name(sequence), stored, _read_blocks(table, stored, state.block_size))
        for sequence, stored, table in state.reads
    )


def _read_blocks(table: array[int], stored: int, block_size: int) -> NDArray[np.int32]:
    """The blocks of a table that hold its first `stored` tokens, read-only. The table must not change."""
    blocks = np.frombuffer(table, dtype=np.int32)[: -(-stored // block_size)]
    blocks.setflags(write=False)
    return blocks


def block_detail(
    state: MemoryState, block: int, recent: Iterable[AnyEvent], holder_of: Callable[[int], int | None]
) -> BlockDetail | None:
    """A device block with its owners, tokens and life story; None for an id that the pool does not have.

    `holder_of` finds the block that is cached under a hash.
    """
    pool = state.device
    if not 0 <= block < pool.num_blocks:
        return None
    owners: list[Owner] = []
    holder: tuple[array[int], int] | None = None
    for request in state.requests.values():
        for sequence in request.sequences.values():
            if not sequence.on_host and block in sequence.table:
                logical = sequence.table.index(block)
                owners.append(Owner(sequence.id, sequence_name(sequence.id), logical))
                holder = holder or (sequence.tokens, logical)
    holder = holder or state.contents(block)
    tokens = None
    if holder is not None:
        start = holder[1] * state.block_size
        tokens = tuple(holder[0][start : start + pool.fills[block]])
    references, hash_ = pool.ref_counts[block], pool.hashes[block]
    parent = pool.parents.get(block) or None
    block_state = BlockState.CACHED if hash_ else BlockState.FREE
    if references:
        block_state = BlockState.SHARED if references > 1 else BlockState.USED
    return BlockDetail(
        block=block,
        state=block_state,
        ref_count=references,
        fill=pool.fills[block],
        block_size=state.block_size,
        hash=hash_ or None,
        parent_hash=parent,
        parent_block=holder_of(parent) if parent is not None else None,
        owners=tuple(owners),
        token_ids=tokens,
        first_position=holder[1] * state.block_size if holder is not None else None,
        touched=pool.touched[block],
        life=tuple(line for event in recent if (line := _life(event, block)) is not None),
    )


def _life(event: AnyEvent, block: int) -> str | None:
    """As `life_line`, for events that are known to be part of the block's life."""
    if isinstance(event, ev.Forked):
        child, parent = sequence_name(event.child), sequence_name(event.parent)
        return f"{event.step} shared with {child}, forked from {parent}"
    return life_line(event, block)


def life_line(event: AnyEvent, block: int) -> str | None:
    """What an event did to a device block, in a few words; None if it names it not, or did nothing to it. A
    fork names no blocks."""
    match event:
        case ev.Allocated(blocks=blocks, sequence=sequence) if block in blocks:
            words = f"allocated to {sequence_name(sequence)}"
        case ev.Shared(blocks=blocks, sequence=sequence) if block in blocks:
            words = f"shared with {sequence_name(sequence)}"
        case ev.Released(blocks=blocks, sequence=sequence, tier=ev.Tier.DEVICE) if block in blocks:
            words = f"released by {sequence_name(sequence)}"
        case ev.Freed(blocks=blocks, end=end, tier=ev.Tier.DEVICE) if block in blocks:
            words = f"freed to the {end.value} of the queue"
        case ev.Cached(blocks=blocks) if block in blocks:
            words = "cached"
        case ev.Evicted(blocks=blocks) if block in blocks:
            words = "evicted"
        case ev.Copied(destination=destination, source=source, sequence=sequence) if block == destination:
            words = f"copy of {source} for {sequence_name(sequence)}"
        case ev.Copied(destination=destination, source=source, sequence=sequence) if block == source:
            words = f"copied to {destination} for {sequence_name(sequence)}"
        case ev.SwappedOut(device_blocks=blocks) if block in blocks:
            words = "swapped out"
        case ev.SwappedIn(device_blocks=blocks, sequences=sequences) if block in blocks:
            words = f"swapped in for {sequence_name(sequences[0])}"
        case _:
            return None
    return f"{event.step} {words}"
