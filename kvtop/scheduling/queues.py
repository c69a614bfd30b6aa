"""Who is where: the queues that a scheduler moves groups between, and why the waiting wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from kvtop.memory import events as ev
from kvtop.memory.events import EventBus
from kvtop.scheduling.sequence import GroupState, Schedule, Sequence, SequenceGroup


class SchedulerError(Exception):
    """A command that does not apply to the sequence it names; nothing has changed."""


class Queues:
    """The live groups, each in exactly one queue (invariant I7)."""

    def __init__(self, bus: EventBus) -> None:
        self.bus = bus
        self.groups: dict[int, SequenceGroup] = {}
        """Live groups by request id, in order of arrival."""
        self.running: list[SequenceGroup] = []
        """In order of arrival."""
        self.preempted: list[SequenceGroup] = []
        """Swapped out, or waiting to be recomputed; in order of arrival."""
        self.waiting: deque[SequenceGroup] = deque()
        """Not yet admitted, first come first."""

    @property
    def idle(self) -> bool:
        """Whether no request is left. Changes nothing."""
        return not self.groups

    def sequence_counts(self) -> tuple[int, int, int]:
        """Running, waiting and swapped sequences. Changes nothing."""
        swapped = sum(len(g.sequences) for g in self.preempted if g.state is GroupState.SWAPPED)
        recomputed = sum(len(g.sequences) for g in self.preempted if g.state is GroupState.WAITING)
        waiting = sum(len(group.sequences) for group in self.waiting)
        return sum(len(group.sequences) for group in self.running), recomputed + waiting, swapped

    def _next_in_line(self) -> SequenceGroup | None:
        if self.preempted:
            return self.preempted[0]
        return self.waiting[0] if self.waiting else None

    def _find(self, sequence_id: int) -> tuple[SequenceGroup, Sequence]:
        group = self.groups.get(ev.request_of(sequence_id))
        for sequence in group.sequences if group else ():
            if sequence.id == sequence_id:
                assert group is not None
                return group, sequence
        raise SchedulerError(f"there is no sequence {ev.sequence_name(sequence_id)}")

    def _seats_taken(self) -> int:
        return sum(group.seats for group in self.running)

    def _unqueue(self, group: SequenceGroup, state: GroupState) -> None:
        """Take a group out of its queue for good."""
        if group.state is GroupState.RUNNING:
            self.running.remove(group)
        elif group.preempted:
            self.preempted.remove(group)
        else:
            self.waiting.remove(group)
        del self.groups[group.request.id]
        group.state = state

    def _explain_waiting(self, schedule: Schedule) -> None:
        """Give every queued group a reason; only the head of the line has one of its own."""
        head = self._next_in_line()
        for group in self._queued():
            if group is head:
                if schedule.preempted and not group.wait_reason:
                    self._explain(group, "a group was preempted in this step")
            elif group.preempted or not self.preempted:
                self._explain(group, "behind earlier requests")
            else:
                self._explain(group, "preempted requests resume first")

    def _queued(self) -> Iterator[SequenceGroup]:
        yield from self.preempted
        yield from self.waiting

    def _explain(self, group: SequenceGroup, reason: str) -> None:
        if reason != group.wait_reason:
            group.wait_reason = reason
            self._publish(ev.Waited, group.request.id, reason)

    def _publish(self, kind: type[ev.Event], *fields: object) -> None:
        if self.bus.active:
            self.bus.emit(kind, *fields)
