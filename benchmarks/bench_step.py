"""What scheduler, memory and events cost in a step of 64 decoding sequences (budget 0.5 ms of CPU)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from measure import one_thread, say

one_thread()

from kvtop.engine.engine import Engine  # noqa: E402
from kvtop.engine.null_runner import NullRunner  # noqa: E402
from kvtop.memory.cache_manager import CacheManager  # noqa: E402
from kvtop.scheduling.config import SchedulerConfig  # noqa: E402
from kvtop.scheduling.scheduler import Scheduler  # noqa: E402
from kvtop.timeline.checking import Checker  # noqa: E402
from kvtop.timeline.observer import Observer  # noqa: E402
from kvtop.workload.request import Request  # noqa: E402

SEQUENCES = 64
BLOCKS = 8192
BUDGET_MS = 0.5


class AllAtOnce:
    """64 requests in the first step."""

    holding_requests = 0
    endless = False

    def arrivals(self, step: int, unfinished: int) -> Sequence[Request]:
        if step > 1:
            return ()
        return [
            Request(id=i, prompt_token_ids=tuple(range(i, i + 200)), max_new_tokens=1000, seed=i)
            for i in range(1, SEQUENCES + 1)
        ]

    def exhausted(self, step: int) -> bool:
        return step >= 1


def engine_of(listen: Callable[[CacheManager], Callable[[object], None]] | None = None) -> Engine:
    """An engine past its prefill."""
    manager = CacheManager(BLOCKS, 16)
    if listen is not None:
        manager.bus.subscribe(listen(manager))
    scheduler = Scheduler(manager, SchedulerConfig(max_sequences=SEQUENCES, token_budget=2048))
    engine = Engine(NullRunner(), manager, scheduler, AllAtOnce())
    for _ in range(20):
        engine.step()
    return engine


def step_ms(engine: Engine, steps: int = 60) -> float:
    """CPU milliseconds a step in schedule and update, without the runner."""
    spent = 0.0
    for _ in range(steps):
        began = time.thread_time()
        schedule = engine.scheduler.schedule()
        spent += time.thread_time() - began
        sampled = engine.runner.run(engine.plan(schedule))
        began = time.thread_time()
        engine.scheduler.update(schedule, sampled)
        spent += time.thread_time() - began
    return spent / steps * 1000


def main() -> None:
    assert all(entry.tokens == 1 for entry in engine_of().scheduler.schedule().entries), (
        "the benchmark is about decoding"
    )
    engines = [
        engine_of(),
        engine_of(lambda manager: lambda event: None),
        engine_of(lambda manager: Observer(BLOCKS, 16).hear),
    ]
    # In turns, the best of each: a slow moment of the machine hits all alike.
    alone, heard, folded = (
        min(column) for column in zip(*(map(step_ms, engines) for _ in range(8)), strict=True)
    )
    budget = f"budget {BUDGET_MS} ms"
    say("scheduler + memory, nobody listening", f"{alone:.3f} ms/step", budget, alone <= BUDGET_MS)
    say("scheduler + memory + events", f"{heard:.3f} ms/step", budget, heard <= BUDGET_MS)
    say("... and their fold, as the dashboard does", f"{folded:.3f} ms/step")
    say("price of events against none", f"{heard / alone:.2f} x")
    manager = CacheManager(512, 16)
    checker = Checker(manager)
    began = time.thread_time()
    for _ in range(100):
        checker.after_call()
    say("--check, a call at 512 blocks", f"{(time.thread_time() - began) * 10:.2f} ms")


if __name__ == "__main__":
    main()
