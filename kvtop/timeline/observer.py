"""Listens to an engine's events, folds them, and builds snapshots of the fold."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from kvtop.memory import events as ev
from kvtop.memory.events import AnyEvent
from kvtop.timeline import build
from kvtop.timeline.snapshot import Snapshot, Source, StepFigures
from kvtop.timeline.state import MemoryState

LOG_EVENTS = 256
"""Newest events that a snapshot carries for the log."""
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
        self._evicted = False
        """Whether the last event was an eviction: the log then says who took the blocks."""
        self._life: dict[int, deque[AnyEvent]] = {}

    def hear(self, event: AnyEvent) -> None:
        """Fold one event in and remember it for the log and the blocks' life stories."""
        self.state.apply(event)
        if not isinstance(event, _NOT_FOR_THE_LOG) or (isinstance(event, ev.Allocated) and self._evicted):
            self._log.append(event)
        self._evicted = isinstance(event, ev.Evicted)
        for block in _device_blocks(event):
            self._life.setdefault(block, deque(maxlen=LIFE_EVENTS)).append(event)

    def snapshot(
        self,
        source: Source,
        *,
        block: int | None = None,
        sequence: int | None = None,
        figures: StepFigures | None = None,
        caption: str = "",
    ) -> Snapshot:
        """The state now, frozen, with details of the selected block and sequence. Changes nothing."""
        state = self.state
        rows = build.sequence_rows(state)
        blocks = build.block_columns(state.device, rows, host=False)
        host = build.block_columns(state.host, rows, host=True) if state.host.num_blocks else None
        return Snapshot(
            source=source,
            step=state.step,
            order=state.order,
            counters=build.counters(state, blocks, host),
            blocks=blocks,
            host=host,
            sequences=rows,
            figures=figures,
            events=tuple(self._log),
            block_detail=build.block_detail(state, block, self._life.get(block, ()))
            if block is not None
            else None,
            sequence_detail=build.sequence_detail(state, sequence) if sequence is not None else None,
            caption=caption,
        )


def _device_blocks(event: AnyEvent) -> Sequence[int]:
    """The device blocks whose life an event is part of."""
    if isinstance(event, _BLOCK_EVENTS):
        on_host = isinstance(event, ev.Released | ev.Freed) and event.tier is ev.Tier.HOST
        return () if on_host else event.blocks
    if isinstance(event, ev.Copied):
        return event.source, event.destination
    if isinstance(event, ev.SwappedOut | ev.SwappedIn):
        return event.device_blocks
    return ()
