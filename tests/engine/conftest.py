"""Engines with a runner whose tokens come out of a simulated K/V memory, read through the block tables.

A slot holds one number that stands for its token and everything before it, as K/V does. The runner copies,
swaps and writes those numbers, checks every position that a row reads, and draws its tokens from the last
one: outputs can only be right when the memory is.
"""

from __future__ import annotations

import numpy as np
import pytest

from kvtop.engine.engine import Engine
from kvtop.engine.null_runner import NullRunner
from kvtop.memory import invariants
from kvtop.memory.cache_manager import CacheManager
from kvtop.scheduling.config import SchedulerConfig
from kvtop.scheduling.scheduler import Scheduler
from kvtop.scheduling.sequence import Sampled
from kvtop.timeline import checking
from kvtop.timeline.checking import Checker
from kvtop.workload.request import Request

MODULUS = 1 << 31
NOTHING = -1


def behind(before, token):
    """What K/V of `token` stands for behind a position that stands for `before` (7 at the start)."""
    return (before * 1_000_003 + token + 1) % MODULUS


class ContentRunner(NullRunner):
    """Scripted tokens drawn from what is read. `ends` tokens of a hundred are the end token 0."""

    def __init__(self, manager, ends=0):
        super().__init__()
        self.manager, self.size, self.ends = manager, manager.block_size, ends
        self.eos_token_ids = frozenset({0} if ends else ())
        self.device = np.full((manager.pool.num_blocks, self.size), NOTHING, dtype=np.int64)
        self.host = np.full((manager.host_pool.num_blocks, self.size), NOTHING, dtype=np.int64)
        self._known = {}

    def run(self, plan):
        for pairs, origin, target in (
            (plan.swaps_out, self.device, self.host),
            (plan.swaps_in, self.host, self.device),
            (plan.copies, self.device, self.device),
        ):
            assert len({new for _, new in pairs}) == len(pairs), "two moves to one block"
            for old, new in pairs:
                target[new] = origin[old]
        # Every row writes before any row reads: a row may read what another of the same step writes.
        for row in plan.rows:
            self._write(row)
        return [self._sample(row) for row in plan.rows]

    def _write(self, row):
        table = self.manager.tables[row.sequence]
        invariants.check_writable(self.manager, table, len(row.token_ids))
        numbers = self._numbers(row)
        for position in range(row.start, len(numbers)):
            self.device[row.table[position // self.size], position % self.size] = numbers[position]

    def _sample(self, row):
        numbers = self._numbers(row)
        read = self.device[np.asarray(row.table)].reshape(-1)[: len(numbers)]
        assert read.tolist() == numbers, f"{row.sequence} reads another's K/V"
        drawn = tuple(self._token(numbers[-1], row.branch + draw) for draw in range(row.samples))
        scored = [(token, -((numbers[-1] // 7 + token * 7_919) % 1_013) / 100 - 0.01) for token in range(40)]
        scored.sort(key=lambda pair: (-pair[1], pair[0]))
        return Sampled(drawn, tuple(scored[: row.candidates]))

    def _token(self, number, branch):
        draw = (number // 3 + 1_009 * branch) % 10_000
        return 0 if draw % 100 < self.ends else 1 + draw // 100 % 50

    def _numbers(self, row):
        """The numbers that belong to the sequence's own tokens, from its beginning to the end of the row."""
        tokens = self.manager.tables[row.sequence].tokens[: row.start + len(row.token_ids)]
        key = tokens.tobytes()
        if key not in self._known:
            numbers, before = [], 7
            for token in tokens:
                before = behind(before, token)
                numbers.append(before)
            self._known[key] = numbers
        return self._known[key]


class Arrivals:
    """A workload of given requests at given steps."""

    endless = False

    def __init__(self, requests):
        self.requests = requests
        self.holding_requests = sum(r.hold_at_stored is not None for _, r in requests)

    def arrivals(self, step, unfinished):
        return [request for at, request in self.requests if at == step]

    def exhausted(self, step):
        return all(at <= step for at, _ in self.requests)


class Bench:
    """An engine over given requests, `(step, request)` each, with the checker behind it."""

    def __init__(self, requests, blocks=512, block_size=4, *, ends=0, checked=True, **options):
        memory = {
            k: options.pop(k) for k in ("host_blocks", "prefix_caching", "hash_function") if k in options
        }
        self.manager = CacheManager(blocks, block_size, **memory)
        self.runner = ContentRunner(self.manager, ends)
        workload = Arrivals(requests)
        config = SchedulerConfig(holding_requests=workload.holding_requests, **options)
        self.scheduler = Scheduler(self.manager, config, eos_token_ids=self.runner.eos_token_ids)
        self.engine = Engine(self.runner, self.manager, self.scheduler, workload, keep_outputs=True)
        self.checker = Checker(self.manager, self.scheduler) if checked else None
        if self.checker:
            self.manager.bus.subscribe(self.checker.hear)

    def step(self):
        schedule = self.engine.step()
        config = self.scheduler.config
        assert schedule.tokens <= config.token_budget
        assert self.scheduler.sequence_counts()[0] <= config.max_sequences
        if self.checker:
            self.checker.step_ended()
        return schedule

    def run(self, between=None, limit=5_000):
        """To the end; `between(bench)` is called after each step. Returns the outputs."""
        while not self.engine.done:
            self.step()
            if between is not None:
                between(self)
                if self.checker:
                    self.checker.after_call()
            assert self.engine.steps < limit, "no end in sight"
        for pool in (self.manager.pool, self.manager.host_pool):
            assert pool.available_blocks == pool.num_blocks
            assert self.manager.stored_tokens(pool.tier) == 0
        if self.checker:
            self._check_totals()
        return self.engine.outputs

    def _check_totals(self):
        totals, counts = self.checker.state.totals, self.scheduler.counts
        assert (totals.finished, totals.aborted, totals.rejected) == tuple(
            counts[name] for name in ("finished", "aborted", "rejected")
        )
        assert (totals.preempted_swap, totals.preempted_recompute) == (counts["swap"], counts["recompute"])
        assert totals.generated_tokens == counts["generated"]
        assert (totals.cow_copies, totals.evictions) == (self.manager.cow_copies, self.manager.pool.evictions)
        assert (totals.prefix_queries, totals.prefix_hits) == (
            self.manager.prefix_queries,
            self.manager.prefix_hits,
        )


def request(id_, prompt, new=6, **fields):
    fields.setdefault("seed", id_)
    return Request(id=id_, prompt_token_ids=tuple(prompt), max_new_tokens=new, **fields)


@pytest.fixture(autouse=True)
def _every_column_every_time(monkeypatch):
    monkeypatch.setattr(checking, "FULL_FOLD_EVERY", 1)


@pytest.fixture
def bench():
    """Makes a `Bench`."""
    return Bench


@pytest.fixture
def make():
    """Makes a request: `make(id, prompt, new, n=..., beam_width=...)`."""
    return request
