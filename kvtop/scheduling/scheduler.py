"""Continuous batching: who computes what in a step, who is admitted, who is preempted.

First come, first served. A step is planned before anything changes: what all running groups want is
priced first, victims are preempted until it fits, and only then blocks are appended; so a copy is never
scheduled for a group that is preempted in the same step, and `Copied` is published only once it is
certain. Policies are those of SOSP'23, section 4.5: a group is preempted as a whole, newest first; nothing
is admitted in a step that preempted, nor before the preempted have resumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq

from kvtop.memory import events as ev
from kvtop.memory.cache_manager import CacheManager
from kvtop.memory.events import FinishReason, PreemptionMode
from kvtop.scheduling import admission, beams
from kvtop.scheduling.config import SchedulerConfig
from kvtop.scheduling.holds import HoldGate
from kvtop.scheduling.queues import Queues, SchedulerError
from kvtop.scheduling.sequence import (
    GroupState,
    Sampled,
    Schedule,
    Scheduled,
    Sequence,
    SequenceGroup,
)
from kvtop.workload.request import Request


class Scheduler(Queues):
    """Queues of groups over one cache manager. `schedule`, then `update` with what came out, once a step."""

    def __init__(
        self,
        manager: CacheManager,
        config: SchedulerConfig,
        *,
        eos_token_ids: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__(manager.bus)
        self.manager = manager
        self.config = config
        self.eos_token_ids = eos_token_ids
        self.ended: list[tuple[SequenceGroup, Sequence]] = []
        """Sequences that finished since `take_ended` was last called."""
        self.counts = dict.fromkeys(("finished", "aborted", "rejected", "swap", "recompute", "generated"), 0)
        """Requests that ended, preemptions by mode, generated tokens: totals since the start."""
        self._holds = HoldGate(config.holding_requests)
        self._arrivals = 0
        self._pending_swaps_out: list[tuple[int, int]] = []
        self._preempted_now = False

    # -- requests -------------------------------------------------------------------------------------

    def add(self, request: Request) -> SequenceGroup:
        """Queue a request, or reject it for good with a reason in words when it can never fit."""
        self._arrivals += 1
        group = SequenceGroup.of(request, self._arrivals)
        self._publish(
            ev.Arrived,
            request.id,
            request.prompt_token_ids,
            request.max_new_tokens,
            request.n,
            request.beam_width,
            request.label,
        )
        reason = admission.obstacle_for_ever(request, self.config, self.manager.pool)
        if reason:
            group.state = GroupState.REJECTED
            group.wait_reason = reason
            self.counts["rejected"] += 1
            self._publish(ev.Rejected, request.id, reason)
            self._holds.leave(group)
            return group
        group.hold_released = self._holds.open
        self.groups[request.id] = group
        self.waiting.append(group)
        return group

    def abort(self, request: int) -> bool:
        """End a request in whatever state it is; its blocks are free afterwards. False, with nothing changed,
        when it has ended already."""
        group = self.groups.get(request)
        if group is None:
            return False
        for sequence in reversed(list(group.sequences)):  # those who wait for a sibling before the sibling
            self._end_sequence(group, sequence, FinishReason.ABORT)
        self._leave(group, GroupState.ABORTED)
        self.counts["aborted"] += 1
        self._publish(ev.Aborted, request)
        return True

    def fork(self, sequence_id: int) -> Sequence:
        """Branch a decoding sequence; parent and child share every block until one of them writes.

        Raises SchedulerError, with nothing changed, for beams, in prefill, or without a free seat.
        """
        group, parent = self._find(sequence_id)
        if group.is_beam:
            raise SchedulerError(f"{parent.table.name} is a beam: beam search does its own forking")
        if group.state is not GroupState.RUNNING or parent.table.pending != 1 or parent.generated == 0:
            raise SchedulerError(f"{parent.table.name} is not decoding, so there is nothing to share yet")
        if self._seats_taken() >= self.config.max_sequences:
            raise SchedulerError(f"max sequences ({self.config.max_sequences}) reached")
        child = parent.branch_off(group.next_branch())
        self.manager.fork(parent.table, child.table)
        group.sequences.append(child)
        group.forked = True
        return child

    def preempt(self, request: int, mode: PreemptionMode, why: str = "asked for") -> PreemptionMode:
        """Take a running group off the device. Returns how: by recompute when the host pool is too full.

        Raises SchedulerError, with nothing changed, when the group does not run.
        """
        group = self.groups.get(request)
        if group is None or group.state is not GroupState.RUNNING:
            raise SchedulerError(f"request {request} is not running")
        return self._preempt(group, mode, why, 0)

    def take_ended(self) -> list[tuple[SequenceGroup, Sequence]]:
        """Sequences that finished since the last call; empties the list."""
        ended, self.ended = self.ended, []
        return ended

    # -- a step ---------------------------------------------------------------------------------------

    def schedule(self) -> Schedule:
        """Decide what this step computes, and make room for it: blocks are appended, shared ones copied,
        groups preempted, resumed and admitted. The caller runs it and calls `update`."""
        self._holds.observe(self.running, self.bus)
        schedule = Schedule(preempted=self._preempted_now)
        self._preempted_now = False
        wanted = self._make_room(schedule)
        for entry in wanted:
            self._append(schedule, entry)
        if not schedule.preempted:
            self._admit(schedule)
        schedule.swaps_out, self._pending_swaps_out = self._pending_swaps_out, []
        self._explain_waiting(schedule)
        stuck = not schedule.entries and not schedule.preempted and self._next_in_line() is not None
        if stuck and not self._holds.complete:
            self._holds.release(self.running)
        return schedule

    def update(self, schedule: Schedule, sampled: Seq[Sampled]) -> None:
        """Take the step's results in: K/V stored, tokens appended, samples and beams forked, ends found.

        `sampled` is aligned with `schedule.entries`.
        """
        searching: dict[int, list[tuple[Sequence, tuple[tuple[int, float], ...]]]] = {}
        for entry, result in zip(schedule.entries, sampled, strict=True):
            group, sequence, count = entry
            if not entry.completes:
                self.manager.advance(sequence.table, count)
            elif group.is_beam:
                self.manager.advance(sequence.table, count)
                searching.setdefault(group.request.id, []).append((sequence, result.candidates))
            elif len(result.token_ids) > 1:
                self.manager.advance(sequence.table, count)
                self._branch_samples(group, sequence, result.token_ids)
            else:
                self.manager.advance(sequence.table, count, result.token_ids)
                self.counts["generated"] += 1
                self._finish_if_done(group, sequence)
        for request, results in searching.items():
            beams.search_step(self, self.groups[request], results)

    # -- running groups -------------------------------------------------------------------------------

    def _wanted_by(self, group: SequenceGroup) -> Iterator[Scheduled]:
        """What a running group would compute if the budget were endless. Changes nothing."""
        # Beams advance together: while one of them still recomputes, the others keep their last token back.
        together = not group.is_beam or all(table.pending == 1 for table in group.tables)
        limit = group.holds_at
        for sequence in group.sequences:
            table = sequence.table
            count = table.pending
            if sequence.holding or table.source is not None:
                continue
            if count > 1:
                count -= group.is_beam and group.forked
            elif not together:
                continue
            if limit is not None:
                count = min(count, limit - table.stored)
            if count > 0:
                yield Scheduled(group, sequence, count)

    def _wants(self) -> list[Scheduled]:
        """What the running groups would compute: every decode first, then prefills in order of arrival, as
        far as the token budget goes. Changes nothing."""
        everything = [entry for group in self.running for entry in self._wanted_by(group)]
        wanted = [entry for entry in everything if entry.tokens == 1]
        budget = self.config.token_budget - len(wanted)
        for entry in everything:
            if entry.tokens > 1 and budget > 0:
                wanted.append(entry._replace(tokens=min(entry.tokens, budget)))
                budget -= wanted[-1].tokens
        return wanted

    def _make_room(self, schedule: Schedule) -> list[Scheduled]:
        """Preempt until everything that is wanted fits, and return it."""
        while True:
            wanted = self._wants()
            cost = self.manager.append_cost((entry.sequence.table, entry.tokens) for entry in wanted)
            if cost <= self.manager.pool.available_blocks:
                return wanted
            needy, short = self._first_unserved(wanted)
            if len(self.running) == 1:
                self._end_outgrown(needy)
                continue
            victim = self.running[-1] if self.config.victim == "newest" else self.running[0]
            schedule.preempted = True
            why = f"{needy.request.id} needed {short} more block{'s' if short > 1 else ''}"
            self._preempt(victim, self.config.preemption, why, short)
            self._preempted_now = False

    def _first_unserved(self, wanted: list[Scheduled]) -> tuple[SequenceGroup, int]:
        """The first group, in order of arrival, that the available blocks do not cover, and how many more it
        needs."""
        available = self.manager.pool.available_blocks
        for group in self.running:
            writes = [(entry.sequence.table, entry.tokens) for entry in wanted if entry.group is group]
            available -= self.manager.append_cost(writes)
            if available < 0:
                return group, -available
        raise AssertionError("asked for the unserved when everybody is served")

    def _end_outgrown(self, group: SequenceGroup) -> None:
        """A group that is or would be alone on the device has outgrown it: its newest sample ends, or the
        whole beam search."""
        if group.is_beam:
            beams.finish(self, group, FinishReason.LENGTH)
        else:
            sequence = group.sequences[-1]
            self._end_sequence(group, sequence, FinishReason.LENGTH)
            self._finish_if_empty(group, FinishReason.LENGTH)

    def _append(self, schedule: Schedule, entry: Scheduled) -> None:
        copy = self.manager.append(entry.sequence.table, entry.tokens)
        if copy is not None:
            schedule.copies.append(copy)
        schedule.entries.append(entry)

    def _preempt(self, group: SequenceGroup, mode: PreemptionMode, why: str, short: int) -> PreemptionMode:
        if mode is PreemptionMode.SWAP and not self.manager.can_swap_out(group.tables):
            mode = PreemptionMode.RECOMPUTE
            if any(table.source is not None for table in group.tables):
                why += "; it was just being recomputed"
            elif self.manager.host_pool.num_blocks:
                why += "; the host pool is too full to swap"
        self._publish(ev.Preempted, group.request.id, mode, why, short)
        if mode is PreemptionMode.SWAP:
            self._pending_swaps_out += self.manager.swap_out(group.tables)
            group.state = GroupState.SWAPPED
        else:
            for sequence in reversed(group.sequences):
                self.manager.free(sequence.table)
                sequence.holding = False
            group.state = GroupState.WAITING
        group.preemptions += 1
        group.wait_reason = why
        self.counts[mode.value] += 1
        self.running.remove(group)
        self.preempted.append(group)
        self.preempted.sort(key=lambda other: other.arrival)
        self._preempted_now = True
        return mode

    # -- admission ------------------------------------------------------------------------------------

    def _admit(self, schedule: Schedule) -> None:
        """Resume the preempted, then admit the waiting, each in order of arrival, until one does not fit."""
        while (group := self._next_in_line()) is not None:
            reason = admission.obstacle(
                group, self.manager, self.config, self._seats_taken(), schedule.tokens, alone=not self.running
            )
            if reason and group.preempted and not self.running:
                # With the whole pool to itself it does not fit: what it shared before, it would hold twice.
                self._end_outgrown(group)
                continue
            if reason:
                self._explain(group, reason)
                return
            if group.state is GroupState.SWAPPED:
                schedule.swaps_in += self.manager.swap_in(group.tables)
            else:
                first = not group.admitted_once
                self.manager.admit(self.manager.plan_admission(group.tables), first=first)
            self._start(group)
            self._schedule_admitted(schedule, group)

    def _start(self, group: SequenceGroup) -> None:
        if group.preempted:
            self.preempted.remove(group)
            self._publish(ev.Resumed, group.request.id)
        else:
            self.waiting.popleft()
        group.admitted_once = True
        group.state = GroupState.RUNNING
        group.wait_reason = ""
        self.running.append(group)
        self.running.sort(key=lambda other: other.arrival)

    def _schedule_admitted(self, schedule: Schedule, group: SequenceGroup) -> None:
        """Let a group compute in the step of its admission, as far as budget and blocks go. Beams all do or
        none does: a search step over some of them would prune the others."""
        wanted = list(self._wanted_by(group))
        writes = [(entry.sequence.table, entry.tokens) for entry in wanted]
        if group.is_beam and self.manager.append_cost(writes) > self.manager.pool.available_blocks:
            return
        for entry in wanted:
            count = min(entry.tokens, self.config.token_budget - schedule.tokens)
            cost = self.manager.append_cost([(entry.sequence.table, count)])
            if count > 0 and cost <= self.manager.pool.available_blocks:
                self._append(schedule, entry._replace(tokens=count))

    # -- ends -----------------------------------------------------------------------------------------

    def _branch_samples(self, group: SequenceGroup, parent: Sequence, token_ids: tuple[int, ...]) -> None:
        """The prompt is done: n samples share its blocks from here on, each with its own first token."""
        for _ in token_ids[1:]:
            child = parent.branch_off(group.next_branch())
            self.manager.fork(parent.table, child.table)
            group.sequences.append(child)
        group.forked = True
        for sequence, token in zip(list(group.sequences), token_ids, strict=True):
            self.manager.advance(sequence.table, 0, (token,))
            self.counts["generated"] += 1
            self._finish_if_done(group, sequence)

    def _finish_if_done(self, group: SequenceGroup, sequence: Sequence) -> None:
        reason = self.end_reason(group.request, sequence.table.tokens[-1], sequence)
        if reason is not None:
            self._end_sequence(group, sequence, reason)
            self._finish_if_empty(group, reason)

    def end_reason(self, request: Request, token: int, sequence: Sequence) -> FinishReason | None:
        """Why a sequence whose newest token is `token` ends, or None. Changes nothing."""
        if token in self.eos_token_ids and not request.ignore_eos:
            return FinishReason.STOP
        limit = self.config.max_positions
        if sequence.generated >= request.max_new_tokens:
            return FinishReason.LENGTH
        if limit is not None and len(sequence.table.tokens) >= limit:
            return FinishReason.LENGTH
        return None

    def _end_sequence(self, group: SequenceGroup, sequence: Sequence, why: FinishReason) -> None:
        self.drop(group, sequence, why.value)
        sequence.finish_reason = why
        if why is not FinishReason.ABORT:
            self.ended.append((group, sequence))

    def drop(self, group: SequenceGroup, sequence: Sequence, why: str) -> None:
        """Free a sequence's blocks and take it out of its group."""
        table = sequence.table
        if group.state is GroupState.SWAPPED and self._pending_swaps_out:
            gone = set(table.blocks)
            self._pending_swaps_out = [pair for pair in self._pending_swaps_out if pair[1] not in gone]
        self.manager.free(table)
        group.sequences.remove(sequence)
        self._publish(ev.SequenceEnded, table.sequence, why)

    def _finish_if_empty(self, group: SequenceGroup, reason: FinishReason) -> None:
        if not group.sequences:
            self.finish(group, reason)

    def finish(self, group: SequenceGroup, reason: FinishReason) -> None:
        """Record that a group whose sequences have all ended is done."""
        self._leave(group, GroupState.FINISHED)
        self.counts["finished"] += 1
        self._publish(ev.Finished, group.request.id, reason)

    def _leave(self, group: SequenceGroup, state: GroupState) -> None:
        self._unqueue(group, state)
        self._holds.leave(group)
