"""A small recorded run: every kind of event, as a list."""

from __future__ import annotations

import pytest

from kvtop.engine.engine import Engine
from kvtop.engine.null_runner import NullRunner
from kvtop.memory.cache_manager import CacheManager
from kvtop.memory.events import PreemptionMode, sequence_id
from kvtop.scheduling.config import SchedulerConfig
from kvtop.scheduling.scheduler import Scheduler
from kvtop.timeline.checking import Checker
from kvtop.workload.request import Request

BLOCKS, BLOCK_SIZE, HOST = 14, 4, 6


class Nothing:
    """A workload without requests."""

    holding_requests = 1
    endless = False

    def arrivals(self, step, unfinished):
        return ()

    def exhausted(self, step):
        return True


class Recorded:
    """An engine, the events it published, and the checker that heard them."""

    def __init__(self, checked=True):
        self.manager = CacheManager(BLOCKS, BLOCK_SIZE, host_blocks=HOST)
        config = SchedulerConfig(
            max_sequences=8, token_budget=16, preemption=PreemptionMode.SWAP, holding_requests=1
        )
        self.scheduler = Scheduler(self.manager, config)
        self.engine = Engine(NullRunner(), self.manager, self.scheduler, Nothing())
        self.events = []
        self.checker = Checker(self.manager, self.scheduler)
        if checked:
            self.manager.bus.subscribe(self.checker.hear)
        self.manager.bus.subscribe(self.events.append)

    def everything(self):
        """Arrivals of all kinds, a rejection, an abort, a fork, preemptions, a hold: every kind of event."""
        add, made = self.engine.add, 0

        def request(prompt, new, **fields):
            nonlocal made
            made += 1
            add(Request(id=made, prompt_token_ids=tuple(prompt), max_new_tokens=new, seed=made, **fields))

        request(range(9), 12, n=2)
        request([*range(8), 50], 9, beam_width=3)
        request(range(200), 5)
        for step in range(1, 60):
            self.engine.step()
            self.checker.step_ended()
            if step == 3:
                self.scheduler.fork(sequence_id(1, 1))
                request([*range(8), 60, 61], 6, hold_at_stored=12)
                request(range(70, 90), 4)
            if step == 6:
                self.scheduler.abort(5)
            if step == 8 and self.scheduler.running:
                self.scheduler.preempt(self.scheduler.running[-1].request.id, PreemptionMode.RECOMPUTE)
        assert self.engine.done
        return self.events


@pytest.fixture
def recorded():
    """A fresh `Recorded`; `everything()` runs it."""
    return Recorded()


@pytest.fixture(scope="session")
def events():
    """The events of a run in which everything happened."""
    return tuple(Recorded().everything())
