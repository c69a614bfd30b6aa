"""Holding sequences at a length until all that should hold do: the still picture of a talk."""

from __future__ import annotations

from collections.abc import Sequence

from kvtop.memory.events import EventBus, Held
from kvtop.scheduling.sequence import SequenceGroup

STEPS_HELD = 3
"""Steps for which the picture stands still once everybody holds."""


class HoldGate:
    """Stops sequences at their request's `hold_at_stored` and lets all go on together.

    `expected` is how many requests of the workload hold. Those that end before they hold no longer count.
    """

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._steps_left = STEPS_HELD
        self.complete = False
        """Whether everybody that should hold does: the picture stands still for some steps."""

    @property
    def open(self) -> bool:
        """Whether nobody is waited for (any more), so that a request that comes now need not hold."""
        return self._expected <= 0

    def observe(self, running: Sequence[SequenceGroup], bus: EventBus) -> None:
        """Mark the sequences that have reached their length; release all a few steps after the last did."""
        if self.open:
            return
        for group in running:
            limit = group.holds_at
            for sequence in group.sequences:
                holds = limit is not None and sequence.table.stored >= limit
                if holds and not sequence.holding and bus.active:
                    bus.emit(Held, sequence.id)
                sequence.holding = holds
        self.complete = sum(group.holding for group in running) >= self._expected
        if self.complete:
            self._steps_left -= 1
            if self._steps_left < 0:
                self.release(running)

    def release(self, running: Sequence[SequenceGroup]) -> None:
        """Let everybody that holds go on: time is up, or those who do not hold yet cannot be admitted."""
        self.complete = False
        for group in running:
            if group.holding and not group.hold_released:
                group.hold_released = True
                self._expected -= 1
                for sequence in group.sequences:
                    sequence.holding = False

    def leave(self, group: SequenceGroup) -> None:
        """A request ended; if it never held, it is no longer waited for."""
        if group.request.hold_at_stored is not None and not group.hold_released:
            self._expected -= 1
