"""The scripted session's state as a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvtop.memory.events import sequence_name
from kvtop.timeline import snapshot as snap
from kvtop.timeline.build import life_line
from kvtop.timeline.snapshot import BlockState

if TYPE_CHECKING:
    from tests.ui.fake_session import FakeSequence, FakeSession

BLOCK_SIZE = 16
BYTES_PER_BLOCK = 24576
HOST_BLOCKS = 128
MOST_NODES = 4096


def freeze(session: FakeSession) -> snap.Snapshot:
    """The state of now."""
    order = {"running": 0, "prefill": 0, "swapped": 1, "waiting": 2}
    live = sorted(session.sequences, key=lambda s: order[s.state])
    owner = np.full(session.blocks, -1, np.int32)
    for index in range(len(live) - 1, -1, -1):
        if live[index].state == "running":
            owner[live[index].table] = index
    state = np.where(
        session.ref > 1,
        BlockState.SHARED,
        np.where(
            session.ref == 1, BlockState.USED, np.where(session.hashed, BlockState.CACHED, BlockState.FREE)
        ),
    ).astype(np.uint8)
    used = session.ref > 0
    columns = snap.BlockColumns(
        state, session.ref.copy(), owner, session.fill.copy(), session.hashed.copy(), session.touched.copy()
    )
    host = _host(live)
    total, cached = session.totals, int(np.count_nonzero(state == BlockState.CACHED))
    counters = snap.Counters(
        total_blocks=session.blocks,
        used_blocks=int(used.sum()),
        shared_blocks=int((session.ref > 1).sum()),
        cached_blocks=cached,
        free_blocks=session.blocks - int(used.sum()) - cached,
        stored_tokens=int(session.fill[used].sum()),
        slots=int(used.sum()) * BLOCK_SIZE,
        host_total_blocks=HOST_BLOCKS,
        host_used_blocks=min(session.host_used, HOST_BLOCKS),
        running=sum(s.state == "running" for s in live),
        waiting=sum(s.state == "waiting" for s in live),
        swapped=sum(s.state == "swapped" for s in live),
        finished=total["finished"],
        aborted=total["aborted"],
        rejected=total["rejected"],
        preempted_swap=total["swap"],
        preempted_recompute=total["recompute"],
        cow_copies=total["copies"],
        evictions=total["evictions"],
        prefix_queries=total["queries"],
        prefix_hits=total["hits"],
        generated_tokens=total["generated"],
    )
    reads = tuple(_read(*read) for read in session.reads)
    tree = _prefixes(session) if session.prefixes_asked else None
    return snap.Snapshot(
        source=snap.Source(
            "live",
            "inside-3m",
            "cpu",
            "bf16",
            "numba paged decode",
            BLOCK_SIZE,
            BYTES_PER_BLOCK,
            5_557_248,
            "mixed",
            7,
            "swap",
            16,
            max_positions=2048,
            kernels="numba",
        ),
        step=session.step,
        order=session.order,
        counters=counters,
        blocks=columns,
        host=host,
        sequences=tuple(_row(session, sequence) for sequence in live),
        figures=snap.StepFigures(
            session.prefilled + len(reads),
            session.prefilled,
            1e-4,
            0.012,
            2e-4,
            240.0 + 40 * np.sin(session.step / 9),
            19.8,
            sum(read.tokens for read in reads) * BYTES_PER_BLOCK // BLOCK_SIZE,
        ),
        events=tuple(session.log),
        block_detail=_block_detail(session, live),
        sequence_detail=_sequence_detail(session, live),
        trace=tuple(session.trace),
        flashes=tuple(session.flashes),
        reads=reads,
        prefixes=tree[:MOST_NODES] if tree is not None else None,
        prefixes_left_out=max(0, len(tree) - MOST_NODES) if tree is not None else 0,
    )


def _host(live: list[FakeSequence]) -> snap.BlockColumns:
    """The host pool: what swapped sequences hold, each on its own."""
    host = snap.BlockColumns(
        *(np.zeros(HOST_BLOCKS, kind) for kind in ("u1", "i4", "i4", "i4", "?", "i4")),
    )
    host.owner[:] = -1
    for index, sequence in enumerate(live):
        for logical, block in enumerate(sequence.table if sequence.state == "swapped" else ()):
            if block < HOST_BLOCKS:
                host.state[block], host.ref_count[block], host.owner[block] = BlockState.USED, 1, index
                host.fill[block] = min(BLOCK_SIZE, sequence.stored - logical * BLOCK_SIZE)
    return host


def _read(sequence: FakeSequence, stored: int, table: list[int]) -> snap.Read:
    return snap.Read(sequence.id, sequence_name(sequence.id), stored, np.array(table, np.int32))


def _prefixes(session: FakeSession) -> tuple[snap.PrefixNode, ...]:
    """The cached chains depth first, siblings by block id."""
    holders: dict[int, int] = {}
    below: dict[int, list[int]] = {}
    for block, chain in session.chains.items():
        holders.setdefault(chain.hash, block)
    for block, chain in sorted(session.chains.items(), reverse=True):
        below.setdefault(chain.parent if chain.parent in holders else 0, []).append(block)
    nodes, stack = [], [*below.get(0, ())]
    while stack:
        block = stack.pop()
        chain = session.chains[block]
        nodes.append(
            snap.PrefixNode(
                block=block,
                hash=chain.hash,
                parent=chain.parent or None,
                depth=chain.depth,
                ref_count=int(session.ref[block]),
                hits=session.hits.get(block, 0),
                token_ids=chain.tokens,
                touched=int(session.touched[block]),
            )
        )
        if holders[chain.hash] == block:
            stack += below.get(chain.hash, [])
    return tuple(nodes)


def _row(session: FakeSession, sequence: FakeSequence) -> snap.SequenceRow:
    table = np.array(sequence.table, np.int32)
    on_device = sequence.state == "running"
    start = sequence.stored + sequence.request
    return snap.SequenceRow(
        id=sequence.id,
        name=sequence_name(sequence.id),
        request=sequence.request,
        branch=sequence.branch,
        label=sequence.label,
        state=sequence.state,
        wait_reason=sequence.wait_reason,
        prompt_tokens=sequence.prompt,
        generated_tokens=max(0, sequence.stored - sequence.prompt),
        stored_tokens=sequence.stored,
        max_new_tokens=130,
        n=sequence.n,
        beam_width=sequence.beam_width,
        blocks=len(table),
        on_host=sequence.state == "swapped",
        shared_blocks=int((session.ref[table] > 1).sum()) if on_device and len(table) else 0,
        waste_slots=len(table) * BLOCK_SIZE - sequence.stored,
        prefix_hit_tokens=sequence.hit,
        preemptions=sequence.preemptions,
        table=table,
        tail=tuple(range(start, start + 32)) if sequence.stored else (),
    )


def _block_detail(session: FakeSession, live: list[FakeSequence]) -> snap.BlockDetail | None:
    block = session.selected["block"]
    if block is None:
        return None
    owners = tuple(
        snap.Owner(s.id, sequence_name(s.id), s.table.index(block))
        for s in live
        if s.state == "running" and block in s.table
    )
    ref, fill = int(session.ref[block]), int(session.fill[block])
    chain = session.chains.get(block)
    tokens, first = None, None
    if chain is not None:
        tokens, first = chain.tokens, chain.depth * BLOCK_SIZE
    elif owners:
        first = owners[0].logical * BLOCK_SIZE
        tokens = next(s for s in live if s.id == owners[0].sequence).tokens(first, first + fill)
    parent = chain.parent if chain is not None else 0
    life = [line for event in session.trace if (line := life_line(event, block)) is not None]
    return snap.BlockDetail(
        block=block,
        state=BlockState(min(ref + 1, 3) if ref else int(session.hashed[block])),
        ref_count=ref,
        fill=fill,
        block_size=BLOCK_SIZE,
        hash=chain.hash if chain is not None else None,
        parent_hash=parent or None,
        owners=owners,
        token_ids=tokens,
        first_position=first,
        touched=int(session.touched[block]),
        life=tuple(life[-8:]),
        parent_block=next((b for b, other in session.chains.items() if other.hash == parent), None),
    )


def _sequence_detail(session: FakeSession, live: list[FakeSequence]) -> snap.SequenceDetail | None:
    found = next((s for s in live if s.id == session.selected["sequence"]), None)
    if found is None:
        return None
    return snap.SequenceDetail(
        found.id,
        sequence_name(found.id),
        found.tokens(0, found.prompt),
        found.tokens(found.prompt, found.stored),
        tuple(found.preempted),
    )
