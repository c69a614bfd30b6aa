"""Listens to an engine's events, folds them, and builds snapshots of the fold."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from kvtop.memory import events as ev
from kvtop.memory.events import AnyEvent
from kvtop.timeline import build
from kvtop.timeline.columns import PoolColumns
from kvtop.timeline.prefixes import PrefixForest
from kvtop.timeline.snapshot import Flash, FlashKind, Read, SequenceRow, Snapshot, Source, StepFigures
from kvtop.timeline.state import MemoryState
from kvtop.timeline.tables import EMPTY, TierTables

LOG_EVENTS = 256
"""Newest events that a snapshot carries for the log."""
TRACE_EVENTS = 1024
"""Newest events of all kinds that it carries."""
FLASHES = 256
"""Newest flashes that it carries."""
LIFE_EVENTS = 8
"""Newest events that are remembered for each block, as its life story."""

_NOT_FOR_THE_LOG = (
    ev.Advanced, ev.Allocated, ev.StepBegan,
    ev.StepEnded, ev.Released, ev.Freed, ev.Cached, ev.Held, ev.Waited
)  # fmt: skip
_BLOCK_EVENTS = (ev.Allocated, ev.Shared, ev.Released, ev.Freed, ev.Cached, ev.Evicted)


class Observer:
    """One fold of one source. Subscribe `hear` before the first event; use from the source's thread."""

    def __init__(self, blocks: int, block_size: int, host_blocks: int = 0) -> None:
        self.state = MemoryState(blocks, block_size, host_blocks)
        self._log: deque[AnyEvent] = deque(maxlen=LOG_EVENTS)
        self._trace: deque[AnyEvent] = deque(maxlen=TRACE_EVENTS)
        self._flashes: deque[Flash] = deque(maxlen=FLASHES)
        self._flashed = 0
        self._held: frozenset[int] = frozenset()
        """Blocks of a preempted group, while the events follow in which it gives them up."""
        self._evicted = False
        """Whether the last event was an eviction: the log then says who took the blocks."""
        self._life: dict[int, tuple[AnyEvent, ...]] = {}
        self._tables = [TierTables(pool, block_size) for pool in (self.state.device, self.state.host)]
        self._columns = [PoolColumns(tables) for tables in self._tables]
        self._forest = PrefixForest(self.state)
        self._reads: tuple[ev.StepEnded | None, tuple[Read, ...]] = None, ()

    def hear(self, event: AnyEvent) -> None:
        """Fold one event in and remember it for log, trace, flashes and the blocks' life stories."""
        kind = type(event)
        if kind is ev.Advanced or kind is ev.StepBegan:
            self.state.apply(event)
            return
        self._note(event)
        self.state.apply(event)
        self._note_given_up(event)
        self._trace.append(event)
        if not isinstance(event, _NOT_FOR_THE_LOG) or (kind is ev.Allocated and self._evicted):
            self._log.append(event)
        self._evicted = kind is ev.Evicted
        life, touched = self._life, self._touched(event)
        for block in touched:
            life[block] = (*life.get(block, ())[1 - LIFE_EVENTS :], event)
        device, host = self._columns
        device.note(touched)
        host.note(_touched_on_host(event))

    def _note(self, event: AnyEvent) -> None:
        """What has to be seen before the fold takes the event in."""
        if isinstance(event, ev.Cached):
            self._forest.cached(event)
        elif isinstance(event, ev.Evicted):
            self._forest.evicted(event)
            self._flash(FlashKind.EVICTED, event.blocks)
        elif isinstance(event, ev.Copied):
            self._flash(FlashKind.COPIED, (event.destination,))
        elif isinstance(event, ev.Preempted):
            # Which blocks are given up, the events that follow tell: what others share is not lost.
            group = self.state.requests[event.request].sequences.values()
            self._held = frozenset(block for sequence in group for block in sequence.table)
            self._flash(FlashKind.PREEMPTED, ())

    def _note_given_up(self, event: AnyEvent) -> None:
        """Add to a preemption's flash the blocks that nobody holds any more after this event of the group."""
        if not self._held or isinstance(event, ev.Preempted | ev.Freed | ev.Cached):
            return
        if isinstance(event, ev.SwappedOut):
            blocks = event.device_blocks
        elif isinstance(event, ev.Released) and event.tier is ev.Tier.DEVICE:
            blocks = event.blocks
        else:
            self._held = frozenset()
            return
        counts, flash = self.state.device.ref_counts, self._flashes[-1]
        lost = tuple(block for block in blocks if block in self._held and counts[block] == 0)
        self._flashes[-1] = replace(flash, blocks=flash.blocks + lost)

    def _touched(self, event: AnyEvent) -> Sequence[int]:
        """The device blocks whose life an event, which the fold has taken in, is part of."""
        if isinstance(event, _BLOCK_EVENTS):
            on_host = isinstance(event, ev.Released | ev.Freed) and event.tier is ev.Tier.HOST
            return () if on_host else event.blocks
        if isinstance(event, ev.Copied):
            return event.source, event.destination
        if isinstance(event, ev.SwappedOut | ev.SwappedIn):
            return event.device_blocks
        if isinstance(event, ev.Forked):
            return self.state.sequence(event.child).table
        return ()

    def _flash(self, kind: FlashKind, blocks: tuple[int, ...]) -> None:
        self._flashed += 1
        self._flashes.append(Flash(self._flashed, kind, blocks))

    def figures(
        self,
        *,
        tokens_per_second: float | None = None,
        steps_per_second: float | None = None,
    ) -> StepFigures | None:
        """What the newest step did; None before the first. Rates are the caller's. Changes nothing."""
        ended = self.state.last_step
        if ended is None:
            return None
        return StepFigures(
            scheduled_tokens=ended.scheduled_tokens,
            prefill_tokens=ended.prefill_tokens,
            schedule_seconds=ended.schedule_seconds,
            run_seconds=ended.run_seconds,
            update_seconds=ended.update_seconds,
            tokens_per_second=tokens_per_second,
            steps_per_second=steps_per_second,
            kv_bytes_read=ended.kv_bytes_read,
        )

    def snapshot(
        self,
        source: Source,
        *,
        block: int | None = None,
        sequence: int | None = None,
        prefixes: bool = False,
        figures: StepFigures | None = None,
        caption: str = "",
    ) -> Snapshot:
        """The state now, frozen, with details of the selected block and sequence, and the tree of prefixes
        when it is asked for. Changes nothing that a later snapshot shows."""
        state = self.state
        rows = self._rows()
        device, host = self._columns
        row_of = {row.id: index for index, row in enumerate(rows)}
        blocks = device.freeze(row_of)
        host_blocks = host.freeze(row_of) if state.host.num_blocks else None
        tree = self._forest.nodes() if prefixes else None
        return Snapshot(
            source=source,
            step=state.step,
            order=state.order,
            counters=build.counters(state, device.totals, host.totals),
            blocks=blocks,
            host=host_blocks,
            sequences=rows,
            figures=figures,
            events=tuple(self._log),
            block_detail=build.block_detail(state, block, self._life.get(block, ()), self._forest.holder)
            if block is not None
            else None,
            sequence_detail=build.sequence_detail(state, sequence) if sequence is not None else None,
            caption=caption,
            trace=tuple(self._trace),
            flashes=tuple(self._flashes),
            reads=self._read(),
            prefixes=tree,
            prefixes_left_out=self._forest.size - len(tree) if tree is not None else 0,
        )

    def _rows(self) -> tuple[SequenceRow, ...]:
        """A row for each live sequence; brings the tables of both tiers up to now."""
        ordered = build.sequence_order(self.state)
        for on_host, tables in enumerate(self._tables):
            tables.update([one for _, one in ordered if one.table and one.on_host == bool(on_host)])
        size = self.state.block_size
        return tuple(
            build.sequence_row(request, one, self._tables[one.on_host].known.get(one.id, EMPTY), size)
            for request, one in ordered
        )

    def _read(self) -> tuple[Read, ...]:
        """What the newest ended step read, made once a step."""
        ended, reads = self._reads
        if ended is not self.state.last_step:
            reads = build.reads(self.state)
            self._reads = self.state.last_step, reads
        return reads


def _touched_on_host(event: AnyEvent) -> Sequence[int]:
    """The host blocks that an event changes."""
    if isinstance(event, ev.SwappedOut | ev.SwappedIn):
        return event.host_blocks
    if isinstance(event, ev.Released | ev.Freed) and event.tier is ev.Tier.HOST:
        return event.blocks
    return ()
