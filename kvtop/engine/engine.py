"""The step loop: arrivals, schedule, run, update. Knows no torch; the runner does."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from kvtop.engine.runner import CacheReads, Row, Runner, StepPlan
from kvtop.memory.cache_manager import CacheManager
from kvtop.memory.events import StepBegan, StepEnded
from kvtop.scheduling.scheduler import Scheduler
from kvtop.scheduling.sequence import Schedule, Scheduled, SequenceGroup
from kvtop.workload.request import Request
from kvtop.workload.workload import Workload


class Engine:
    """One workload on one runner over one memory. `step` is all there is to call; not thread-safe.

    `outputs` collects the generated tokens of finished sequences by name when `keep_outputs` is set; the
    ranked hypotheses of a beam search count as its branches.
    """

    def __init__(
        self,
        runner: Runner,
        manager: CacheManager,
        scheduler: Scheduler,
        workload: Workload,
        *,
        keep_outputs: bool = False,
    ) -> None:
        self.runner = runner
        self.manager = manager
        self.scheduler = scheduler
        self.workload = workload
        self.bus = manager.bus
        self.steps = 0
        self.requests = 0
        """Requests that arrived."""
        self.outputs: dict[str, list[int]] = {}
        self.peak_blocks_used = 0
        self.clock: Callable[[], float] = perf_counter
        """Where timings are taken from, in seconds; a picture that is to be the same twice sets another."""
        self.timings = (0.0, 0.0, 0.0)
        """Seconds that the newest step took in schedule, run and update."""
        self.reads: CacheReads | None = None
        """What the newest step's attention read of the cache, where the runner says."""
        self._keep_outputs = keep_outputs
        self._aborts: dict[int, list[int]] = {}

    @property
    def done(self) -> bool:
        """Whether no request is left and none will arrive. Changes nothing."""
        return self.scheduler.idle and self.workload.exhausted(self.steps)

    def step(self) -> Schedule:
        """One step of generation; returns what it scheduled. Its ends are freed when it returns."""
        self.steps += 1
        self.bus.begin_step(self.steps)
        if self.bus.active:
            self.bus.emit(StepBegan)
        self._take_arrivals()
        began = self.clock()
        schedule = self.scheduler.schedule()
        # Read now: at the step's end the blocks of what finished in it are free again.
        self.peak_blocks_used = max(self.peak_blocks_used, self.manager.pool.used_blocks)
        planned = self.clock()
        plan = self.plan(schedule)
        has_work = plan.rows or plan.copies or plan.swaps_out or plan.swaps_in
        sampled = self.runner.run(plan) if has_work else []
        self.reads = self.runner.reads if has_work else None
        ran = self.clock()
        self.scheduler.update(schedule, sampled)
        self._collect_outputs()
        ended = self.clock()
        self.timings = (planned - began, ran - planned, ended - ran)
        if self.bus.active:
            prefill = sum(entry.tokens for entry in schedule.entries if entry.tokens > 1)
            self.bus.emit(StepEnded, schedule.tokens, prefill, *self.timings, *(self.reads or ()))
        return schedule

    def add(self, request: Request) -> SequenceGroup:
        """Queue a request from outside the workload; call it between steps."""
        self.requests += 1
        if request.abort_at_step is not None:
            self._aborts.setdefault(request.abort_at_step, []).append(request.id)
        return self.scheduler.add(request)

    def plan(self, schedule: Schedule) -> StepPlan:
        """What the runner has to do for a schedule. Changes nothing."""
        return StepPlan(
            rows=[_row(entry) for entry in schedule.entries],
            copies=schedule.copies,
            swaps_out=schedule.swaps_out,
            swaps_in=schedule.swaps_in,
        )

    def _take_arrivals(self) -> None:
        for request in self.workload.arrivals(self.steps, len(self.scheduler.groups)):
            self.add(request)
        for step in [step for step in self._aborts if step <= self.steps]:
            for request_id in self._aborts.pop(step):
                self.scheduler.abort(request_id)

    def _collect_outputs(self) -> None:
        for group, sequence in self.scheduler.take_ended():
            if not self._keep_outputs:
                continue
            if group.is_beam:
                for rank, hypothesis in enumerate(group.hypotheses, 1):
                    self.outputs[f"{group.request.id}.{rank}"] = list(hypothesis.token_ids)
            else:
                self.outputs[sequence.table.name] = sequence.table.tokens[sequence.prompt_length :].tolist()


def _row(entry: Scheduled) -> Row:
    table = entry.sequence.table
    return Row(
        sequence=table.sequence,
        request=entry.group.request,
        branch=entry.sequence.branch,
        token_ids=table.tokens[table.stored : table.stored + entry.tokens],
        start=table.stored,
        table=table.blocks,
        samples=entry.samples,
        candidates=entry.candidates,
    )
