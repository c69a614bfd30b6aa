"""The live session: an engine in one worker thread, seen through frozen snapshots.

The worker is the only one that touches engine and memory. The screen's thread leaves wishes (a command, a
fresh snapshot) and wakes it; a snapshot is published by one attribute assignment.
"""

from __future__ import annotations

import threading
import traceback
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Seq
from time import monotonic
from typing import TYPE_CHECKING

from kvtop.errors import describe
from kvtop.memory.errors import AllocatorError
from kvtop.session import commands as ask
from kvtop.session.rates import RateMeter
from kvtop.session.session import Command, Notice, Pause, Phase, Resume, SetSpeed, Status, StepOnce
from kvtop.timeline.snapshot import Snapshot, Source, StepFigures

if TYPE_CHECKING:
    from kvtop.session.run import Run
    from kvtop.timeline.observer import Observer

Progress = Callable[[str, float | None], None]
"""Takes what is being done and, where that is known, the share that is done."""


class LiveSession:
    """Builds a run (which may load a model) and steps it, `speed` steps a second (0 is unbounded).

    `build` is called once, on the worker's thread. Implements `kvtop.session.session.Session`.
    """

    def __init__(
        self, build: Callable[[Progress], Run], *, speed: float = 20.0, paused: bool = False
    ) -> None:
        self._build = build
        self._run: Run | None = None
        self._observer: Observer | None = None
        self._status = Status(Phase.LOADING, "starting", speed=speed)
        self._snapshot: Snapshot | None = None
        self._source: Source | None = None
        self._wake = threading.Condition()
        self._commands: deque[Command] = deque()
        self._notices: deque[Notice] = deque(maxlen=100)
        self._selection: tuple[int | None, int | None, bool] = (None, None, False)
        self._speed = speed
        self._paused = paused
        self._steps_asked = 0
        self._next_step = 0.0
        self._closing = False
        self._wanted = True
        self._stale = True
        self._rates = RateMeter()
        self.failure: Exception | None = None
        """What ended the worker, once the phase is `FAILED`."""
        self._thread = threading.Thread(target=self._work, name="kvtop-engine", daemon=True)

    # -- the screen's side ----------------------------------------------------------------------------

    @property
    def supports(self) -> frozenset[type]:
        """All commands."""
        return frozenset((Pause, Resume, StepOnce, SetSpeed, *ask.HANDLERS))

    @property
    def status(self) -> Status:
        """The newest status. Changes nothing."""
        return self._status

    @property
    def working(self) -> bool:
        """Whether the worker's thread is alive. Changes nothing."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin loading in the worker thread. Called once."""
        self._thread.start()

    def close(self) -> None:
        """Ask the worker to stop and wait for it for a second at most. May be called twice."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        # A model that is loading cannot be interrupted; the thread is a daemon and dies with the process.
        if self._thread.is_alive() and self._status.phase is not Phase.LOADING:
            self._thread.join(timeout=1.0)

    def snapshot(self) -> Snapshot | None:
        """The newest published snapshot, and a request for a fresh one if something has changed."""
        if self._stale:
            with self._wake:
                self._wanted = True
                self._wake.notify()
        return self._snapshot

    def select(
        self, *, block: int | None = None, sequence: int | None = None, prefixes: bool = False
    ) -> None:
        """Which block's and sequence's details later snapshots carry, and whether the tree of prefixes."""
        if (block, sequence, prefixes) != self._selection:
            with self._wake:
                self._selection = (block, sequence, prefixes)
                self._stale = self._wanted = True
                self._wake.notify()

    def send(self, command: Command) -> None:
        """Queue a command; it is carried out between two steps."""
        with self._wake:
            self._commands.append(command)
            self._wake.notify()

    def notices(self) -> Seq[Notice]:
        """Notices since the last call; empties the list."""
        taken = []
        while self._notices:
            taken.append(self._notices.popleft())
        return taken

    def text(self, token_ids: Seq[int]) -> str:
        """Text of tokens as the tokenizer has it; empty while the model is loading."""
        return self._run.runner.decode(token_ids) if self._run is not None else ""

    # -- the worker's side ----------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._load()
            while not self._closing:
                self._obey()
                self._step_if_due()
                self._publish_if_wanted()
                self._rest()
        except Exception as error:
            self.failure = error
            message = describe(error) or "".join(traceback.format_exception(error))
            self._status = Status(Phase.FAILED, message, speed=self._speed)

    def _load(self) -> None:
        def progress(message: str, fraction: float | None) -> None:
            self._status = Status(Phase.LOADING, message, fraction, self._speed)

        from kvtop.session.run import source_of
        from kvtop.timeline.observer import Observer

        run = self._build(progress)
        pools = run.manager.pool.num_blocks, run.manager.block_size, run.manager.host_pool.num_blocks
        self._observer = Observer(*pools)
        run.bus.subscribe(self._observer.hear)
        self._source = source_of(run)
        self._run = run
        self._next_step = monotonic()
        self._rates.start()
        self._update_status()

    def _obey(self) -> None:
        while self._commands:
            command = self._commands.popleft()
            if isinstance(command, Pause):
                self._paused, self._steps_asked = True, 0
            elif isinstance(command, Resume):
                self._paused, self._next_step = False, monotonic()
            elif isinstance(command, StepOnce):
                self._paused = True
                self._steps_asked += 1
            elif isinstance(command, SetSpeed):
                self._speed, self._next_step = command.steps_per_second, monotonic()
            else:
                self._carry_out(command)
            self._stale = True
        self._update_status()

    def _carry_out(self, command: Command) -> None:
        from kvtop.scheduling.queues import SchedulerError

        assert self._run is not None
        try:
            self._notices.append(ask.HANDLERS[type(command)](self._run, command))
        except (SchedulerError, AllocatorError, ValueError) as error:
            self._notices.append(Notice(str(error), warning=True))

    def _step_if_due(self) -> None:
        run = self._run
        assert run is not None
        if run.engine.done:
            self._steps_asked = 0
            return
        now = monotonic()
        if self._paused:
            if not self._steps_asked:
                return
            self._steps_asked -= 1
        elif self._speed and now < self._next_step:
            return
        run.step()
        if self._speed:
            # A step that took longer than its share is not made up for by hurrying afterwards.
            self._next_step = max(self._next_step + 1 / self._speed, now)
        self._rates.count(run.engine.steps, run.scheduler.counts["generated"])
        self._stale = True
        self._update_status()

    def _publish_if_wanted(self) -> None:
        if not (self._wanted and self._stale):
            return
        assert self._observer is not None and self._source is not None and self._run is not None
        self._wanted = self._stale = False
        block, sequence, prefixes = self._selection
        self._snapshot = self._observer.snapshot(
            self._source,
            block=block,
            sequence=sequence,
            prefixes=prefixes,
            figures=self._figures(),
            caption=self._run.scenario.caption,
        )

    def _rest(self) -> None:
        """Sleep until the next step is due, or somebody wishes something."""
        run = self._run
        assert run is not None
        with self._wake:
            if self._closing or self._commands or (self._wanted and self._stale) or self._steps_asked:
                return
            if self._paused or run.engine.done:
                self._wake.wait()
            elif self._speed:
                self._wake.wait(max(0.0, self._next_step - monotonic()))

    def _update_status(self) -> None:
        assert self._run is not None
        phase = Phase.PAUSED if self._paused else Phase.RUNNING
        if self._run.engine.done:
            phase = Phase.ENDED
        message = "the workload is done" if phase is Phase.ENDED else ""
        self._status = Status(phase, message, None, self._speed, self._rates.elapsed())

    def _figures(self) -> StepFigures | None:
        assert self._observer is not None and self._source is not None
        moving = self._status.phase is Phase.RUNNING
        tokens, steps = self._rates.per_second() if moving else (None, None)
        return self._observer.figures(tokens_per_second=tokens, steps_per_second=steps)
