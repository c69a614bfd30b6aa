"""A scheduler under watch, a runner that reads a simulated K/V memory, and beams from a table.

The runner keeps one number a slot that stands for the token and everything before it, and draws its tokens
from the number that it reads through the block table: a block wrongly shared, copied or reused changes the
output, and is found at once because every position read is compared with the sequence's own tokens.
"""

from __future__ import annotations

import pytest

from kvtop.memory import events as ev
from kvtop.memory import invariants
from kvtop.memory.cache_manager import CacheManager
from kvtop.memory.events import EventBus
from kvtop.scheduling.config import SchedulerConfig
from kvtop.scheduling.scheduler import Scheduler
from kvtop.scheduling.sequence import Sampled
from kvtop.timeline import checking
from kvtop.timeline.checking import Checker
from kvtop.workload.request import Request

NOTHING = -1
START = 7


def behind(before, token):
    """What K/V of `token` stands for behind a position that stands for `before` (START at first)."""
    return (before * 1_000_003 + token + 1) % (1 << 61)


class Memory:
    """The runner's two pools, one number a slot."""

    def __init__(self, manager):
        self.manager, self.size = manager, manager.block_size
        self.device = [[NOTHING] * self.size for _ in range(manager.pool.num_blocks)]
        self.host = [[NOTHING] * self.size for _ in range(manager.host_pool.num_blocks)]

    def move(self, schedule):
        for device, host in schedule.swaps_out:
            self.host[host] = self.device[device][:]
        for host, device in schedule.swaps_in:
            self.device[device] = self.host[host][:]
        for source, destination in schedule.copies:
            self.device[destination] = self.device[source][:]

    def write(self, table, count):
        numbers = self.expected(table, table.stored + count)
        for position in range(table.stored, table.stored + count):
            self.device[table.blocks[position // self.size]][position % self.size] = numbers[position]

    def read(self, table, count):
        """The number at the last of `count` positions; all of them must be the sequence's own."""
        numbers = self.expected(table, count)
        read = [self.device[table.blocks[p // self.size]][p % self.size] for p in range(count)]
        assert read == numbers, f"{table.name} reads another's K/V: {read} instead of {numbers}"
        return numbers[-1]

    def expected(self, table, count):
        numbers, before = [], START
        for token in table.tokens[:count]:
            before = behind(before, token)
            numbers.append(before)
        return numbers


class Run:
    """A scheduler stepped by hand. `beams(number, width)` gives a beam's candidates for what it read."""

    def __init__(self, blocks=8, block_size=4, *, beams=None, tokens=None, eos=(), listen=True, **options):
        memory = {
            key: options.pop(key)
            for key in ("host_blocks", "prefix_caching", "hash_function")
            if key in options
        }
        self.bus = EventBus()
        self.manager = CacheManager(blocks, block_size, bus=self.bus, **memory)
        options.setdefault("watermark", 0.0)
        self.scheduler = Scheduler(self.manager, SchedulerConfig(**options), eos_token_ids=frozenset(eos))
        self.memory = Memory(self.manager)
        self.checker = Checker(self.manager, self.scheduler)
        self.events, self.outputs, self.steps = [], {}, 0
        self.draw_beams, self.draw_tokens = beams or scripted_candidates, tokens or scripted_token
        self.made = 0
        if listen:
            self.bus.subscribe(self.checker.hear)
            self.bus.subscribe(self.events.append)

    def request(self, prompt, new=4, **fields):
        """A request; `prompt` is tokens, or how many of its own."""
        self.made += 1
        ids = tuple(100 * self.made + i for i in range(prompt)) if isinstance(prompt, int) else tuple(prompt)
        fields.setdefault("ignore_eos", not self.scheduler.eos_token_ids)
        return Request(id=self.made, prompt_token_ids=ids, max_new_tokens=new, **fields)

    def add(self, prompt, new=4, **fields):
        group = self.scheduler.add(self.request(prompt, new, **fields))
        self.checker.after_call()
        return group

    def step(self):
        """One step, with every invariant checked within it and at its end. Returns the schedule."""
        self.steps += 1
        self.bus.begin_step(self.steps)
        schedule = self.scheduler.schedule()
        self.checker.after_call()
        assert schedule.tokens <= self.scheduler.config.token_budget
        assert sum(len(g.sequences) for g in self.scheduler.running) <= self.scheduler.config.max_sequences
        self.memory.move(schedule)
        for entry in schedule.entries:
            invariants.check_writable(self.manager, entry.sequence.table, entry.tokens)
            self.memory.write(entry.sequence.table, entry.tokens)
        sampled = [self._sample(entry) for entry in schedule.entries]
        self.scheduler.update(schedule, sampled)
        self.collect()
        self.checker.step_ended()
        self.check_totals()
        return schedule

    def run(self, limit=2_000):
        """Steps until nothing is left; every block must be available then."""
        while not self.scheduler.idle:
            self.step()
            assert self.steps < limit, "no end in sight"
        self.check_empty()
        return self.outputs

    def collect(self):
        for group, sequence in self.scheduler.take_ended():
            if group.is_beam:
                for rank, hypothesis in enumerate(group.hypotheses, 1):
                    self.outputs[f"{group.request.id}.{rank}"] = list(hypothesis.token_ids)
            else:
                self.outputs[sequence.table.name] = sequence.table.tokens[sequence.prompt_length :].tolist()

    def _sample(self, entry):
        table = entry.sequence.table
        number = self.memory.read(table, table.stored + entry.tokens)
        branch = entry.sequence.branch
        return Sampled(
            tuple(self.draw_tokens(number, branch + draw) for draw in range(entry.samples)),
            tuple(self.draw_beams(number, entry.candidates)) if entry.candidates else (),
        )

    # -- looking ------------------------------------------------------------------------------------------

    def check_empty(self):
        for pool in (self.manager.pool, self.manager.host_pool):
            assert pool.available_blocks == pool.num_blocks
            assert self.manager.stored_tokens(pool.tier) == 0
        assert not self.manager.tables

    def check_totals(self):
        """The counters that the scheduler and the manager keep are those that the events give."""
        if not self.events:
            return
        totals, counts, manager = self.checker.state.totals, self.scheduler.counts, self.manager
        folded = {
            "finished": totals.finished,
            "aborted": totals.aborted,
            "rejected": totals.rejected,
            "swap": totals.preempted_swap,
            "recompute": totals.preempted_recompute,
            "generated": totals.generated_tokens,
        }
        assert folded == counts
        assert (totals.cow_copies, totals.evictions) == (manager.cow_copies, manager.pool.evictions)
        assert (totals.prefix_queries, totals.prefix_hits) == (manager.prefix_queries, manager.prefix_hits)
        states = {"running": 0, "waiting": 0, "swapped": 0}
        for request in self.checker.state.requests.values():
            states[request.state] += len(request.sequences)
        assert tuple(states.values()) == self.scheduler.sequence_counts()

    def of(self, *kinds):
        return [event for event in self.events if isinstance(event, kinds)]

    def kinds(self, since=0):
        return [type(event).__name__ for event in self.events[since:]]

    def running(self):
        return [group.request.id for group in self.scheduler.running]

    def preempted(self):
        return [group.request.id for group in self.scheduler.preempted]

    def waiting(self):
        return [group.request.id for group in self.scheduler.waiting]

    def reasons(self, request):
        return [event.reason for event in self.of(ev.Waited) if event.request == request]


def scripted_token(number, branch):
    return (number // 3 + 1_009 * branch) % 50


def scripted_candidates(number, width):
    """The likeliest of 50 tokens behind what was read: few ties, the same for the same text."""
    scored = [(token, -((number // 7 + token * 7_919) % 1_013) / 100 - 0.01) for token in range(50)]
    return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:width]


@pytest.fixture(autouse=True)
def _every_column_every_time(monkeypatch):
    monkeypatch.setattr(checking, "FULL_FOLD_EVERY", 1)


@pytest.fixture
def run():
    """Makes a watched scheduler: `run(blocks, block_size, max_sequences=..., host_blocks=...)`."""
    return Run
