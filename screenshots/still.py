"""A session that stands still: steps are run when asked for, and time is what they say it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence as Seq

from kvtop.session import commands
from kvtop.session.run import Run, source_of
from kvtop.session.session import (
    Command,
    Notice,
    Pause,
    Phase,
    Resume,
    SetSpeed,
    Status,
    StepOnce,
)
from kvtop.timeline.observer import Observer
from kvtop.timeline.snapshot import Snapshot

STEPS_PER_SECOND = 20
"""The pace that the pictures say."""
RATE_STEPS = 2 * STEPS_PER_SECOND
"""Steps that a rate is taken over, as in a live session."""


class StillSession:
    """A run on the screen's own thread. Implements `kvtop.session.session.Session`."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.supports = frozenset((Pause, Resume, StepOnce, SetSpeed, *commands.HANDLERS))
        self._observer = Observer(
            run.manager.pool.num_blocks, run.manager.block_size, run.manager.host_pool.num_blocks
        )
        run.bus.subscribe(self._observer.hear)
        self._source = source_of(run)
        self._generated: deque[int] = deque(maxlen=RATE_STEPS + 1)
        self._notices: list[Notice] = []
        self._wanted: dict[str, object] = {}
        self._snapshot: Snapshot | None = None

    @property
    def status(self) -> Status:
        return Status(Phase.RUNNING, speed=STEPS_PER_SECOND, elapsed_seconds=self.seconds)

    @property
    def seconds(self) -> float:
        """How long so many steps take at the stated pace."""
        return self.run.engine.steps / STEPS_PER_SECOND

    def advance(self, steps: int) -> None:
        """Run some steps."""
        for _ in range(steps):
            self.run.step()
            self._generated.append(self.run.scheduler.counts["generated"])
        self._snapshot = None

    def start(self) -> None:
        """It needs no start."""

    def close(self) -> None:
        """It holds nothing."""

    def snapshot(self) -> Snapshot | None:
        if self._snapshot is None and self.run.engine.steps:
            rates: dict[str, float] = {"steps_per_second": float(STEPS_PER_SECOND)}
            if len(self._generated) > 1:
                seconds = (len(self._generated) - 1) / STEPS_PER_SECOND
                rates["tokens_per_second"] = (self._generated[-1] - self._generated[0]) / seconds
            figures = self._observer.figures(**rates)
            self._snapshot = self._observer.snapshot(
                self._source,
                figures=figures,
                caption=self.run.scenario.caption,
                **self._wanted,  # type: ignore[arg-type]
            )
        return self._snapshot

    def select(
        self, *, block: int | None = None, sequence: int | None = None, prefixes: bool = False
    ) -> None:
        wanted = {"block": block, "sequence": sequence, "prefixes": prefixes}
        if wanted != self._wanted:
            self._wanted, self._snapshot = wanted, None

    def send(self, command: Command) -> None:
        if (handler := commands.HANDLERS.get(type(command))) is not None:
            self._notices.append(handler(self.run, command))

    def notices(self) -> Seq[Notice]:
        taken, self._notices = self._notices, []
        return taken

    def text(self, token_ids: Seq[int]) -> str:
        return self.run.runner.decode(token_ids)
