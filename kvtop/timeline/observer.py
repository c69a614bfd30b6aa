"""Listens to an engine's events, folds them, and builds snapshots of the fold."""

from __future__ import annotations

from collections import deque

from kvtop.memory import events as ev
from kvtop.memory.events import AnyEvent
from kvtop.timeline import build
from kvtop.timeline.snapshot import Snapshot, Source, StepFigures
from kvtop.timeline.state import MemoryState

LOG_EVENTS = 256
"""Newest events that a snapshot carries for the log."""
LIFE_EVENTS = 4096
"""Newest block events that a block's life story is searched in."""

_NOT_FOR_THE_LOG = (
    ev.Advanced, ev.Allocated, ev.StepBegan,
    ev.StepEnded, ev.Released, ev.Freed, ev.Cached, ev.Held, ev.Waited
)  # fmt: skip
_BLOCK_EVENTS = (
    ev.Allocated, ev.Shared, ev.Released, ev.Freed, ev.Cached, ev.Evicted, ev.Copied,
    ev.SwappedOut, ev.SwappedIn,
)  # fmt: skip


class Observer:
    """One fold of one source. Subscribe `hear` before the first event; use from the source's thread."""

    def __init__(self, blocks: int, block_size: int, host_blocks: int = 0) -> None:
        self.state = MemoryState(blocks, block_size, host_blocks)
        self._log: deque[AnyEvent] = deque(maxlen=LOG_EVENTS)
        self._evicted = False
        """Whether the last event was an eviction: the log then says who took the blocks."""
        self._life: deque[AnyEvent] = deque(maxlen=LIFE_EVENTS)

    def hear(self, event: AnyEvent) -> None:
        """Fold one event in and remember it for the log and the blocks' life stories."""
        self.state.apply(event)
        if not isinstance(event, _NOT_FOR_THE_LOG) or (isinstance(event, ev.Allocated) and self._evicted):
            self._log.append(event)
        self._evicted = isinstance(event, ev.Evicted)
        if isinstance(event, _BLOCK_EVENTS):
            self._life.append(event)

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
            block_detail=build.block_detail(state, block, self._life) if block is not None else None,
            sequence_detail=build.sequence_detail(state, sequence) if sequence is not None else None,
            caption=caption,
        )
