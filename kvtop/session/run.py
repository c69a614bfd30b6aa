"""Everything that one live run consists of, put together by `kvtop.assembly`."""

from __future__ import annotations

from dataclasses import dataclass

from kvtop.engine.engine import Engine
from kvtop.engine.runner import Runner
from kvtop.memory.cache_manager import CacheManager
from kvtop.memory.events import EventBus
from kvtop.scheduling.scheduler import Scheduler
from kvtop.timeline.checking import Checker
from kvtop.timeline.snapshot import Source
from kvtop.workload.scripted import ScenarioWorkload
from kvtop.workload.spec import Scenario


@dataclass(frozen=True, slots=True)
class Run:
    """A run, ready for its first step. One thread may use it."""

    scenario: Scenario
    seed: int
    runner: Runner
    manager: CacheManager
    scheduler: Scheduler
    workload: ScenarioWorkload
    engine: Engine
    checker: Checker | None
    """There when the invariants are to be checked after every step."""

    @property
    def bus(self) -> EventBus:
        """Where its events are published."""
        return self.manager.bus

    def step(self) -> None:
        """One step, and its check. Raises InvariantError when the books do not balance."""
        self.engine.step()
        if self.checker is not None:
            self.checker.step_ended()


def source_of(run: Run) -> Source:
    """What a live run is, for the screens. Changes nothing."""
    info = run.runner.info
    return Source(
        kind="live",
        model=info.model,
        device=info.device,
        dtype=info.dtype,
        attention=info.attention,
        block_size=run.manager.block_size,
        bytes_per_block=info.bytes_per_block,
        weight_bytes=info.weight_bytes,
        workload=run.scenario.name,
        seed=run.seed,
        preemption=run.scheduler.config.preemption.value,
        max_sequences=run.scheduler.config.max_sequences,
        max_positions=info.max_positions,
        windowed=info.windowed,
        kernels=info.kernels,
        kernels_note=info.kernels_note,
    )
