"""Random calls of the cache manager, checked after every one: the state machine of the memory core.

A program is a string of bytes that hypothesis draws and shrinks; each step reads what it needs from it. After
every call I1 to I4 and I9 hold (I5 before every write), and every sequence reads its own K/V through its
table.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvtop.memory import events as ev
from kvtop.memory.errors import AllocatorError, OutOfBlocksError

PROGRAM_BYTES = 2_048
STEPS = 256

POOLS = st.fixed_dictionaries(
    {
        "blocks": st.integers(1, 24),
        "block_size": st.sampled_from([1, 2, 3, 4, 4]),
        "host_blocks": st.sampled_from([0, 2, 5, 12, 30]),
        "prefix_caching": st.sampled_from([True, True, True, False]),
        "hash_function": st.sampled_from([None, None, lambda parent, content: 7]),
    }
)


OPERATIONS_IN = {
    "running": ["run"] * 10 + ["fork"] * 3 + ["end", "recompute", "swap_out", "abort"],
    "waiting": ["admit"] * 3,
    "swapped": ["swap_in"] * 2,
}
"""What makes sense while some group is in a state, as often as it should be drawn."""


class Program:
    """Reads choices from a string of bytes, round and round."""

    def __init__(self, code):
        self.code, self.at = code, 0

    def below(self, limit):
        """An integer from 0 to `limit - 1`."""
        self.at = (self.at + 1) % len(self.code)
        return self.code[self.at] % limit if limit > 0 else 0

    def choice(self, options):
        return options[self.below(len(options))]


class Group:
    """A request as the machine sees it: tables, and where they are."""

    def __init__(self, tables):
        self.tables, self.state, self.branch = tables, "waiting", len(tables)
        self.admitted_once = False


class Machine:
    """Groups of sequences over a watched manager. Each operation is one or more calls of the manager."""

    def __init__(self, books, program):
        self.books, self.program = books, program
        self.manager = books.manager
        self.groups = []

    def step(self):
        """One operation out of those that make sense now. Returns its name."""
        if self.program.below(4) == 0:
            self.books.bus.begin_step(self.books.bus.step + 1)
        options = ["arrive"] if len(self.groups) < 8 else []
        for state, names in OPERATIONS_IN.items():
            options += names if self._in(state) else []
        name = self.program.choice(options)
        getattr(self, f"do_{name}")()
        self.books.check_contents()
        return name

    def _in(self, state):
        return [group for group in self.groups if group.state == state]

    def _pick(self, *states):
        return self.program.choice([group for state in states for group in self._in(state)])

    def do_arrive(self):
        """A new prompt: one of few beginnings, so that prefixes meet, and an end of its own or none."""
        beginning = [self.program.below(2)] * self.program.below(3 * self.books.size + 1)
        end = [2 + self.program.below(3) for _ in range(self.program.below(2 * self.books.size + 1))]
        self.groups.append(Group([self.books.table((beginning + end) or [0])]))
        self.groups[-1].state = "waiting"

    def do_admit(self):
        group = self._pick("waiting")
        plan = self.manager.plan_admission(group.tables)
        fits = plan.blocks_needed <= self.books.pool.available_blocks
        evictions, cached = self.books.pool.evictions, self.books.pool.cached_blocks
        try:
            self.books.call(self.manager.admit, plan, first=not group.admitted_once)
        except OutOfBlocksError:
            assert not fits and (evictions, cached) == (
                self.books.pool.evictions,
                self.books.pool.cached_blocks,
            )
            return
        assert fits
        group.state, group.admitted_once = "running", True

    def do_run(self):
        """A step over some sequences: all appends, then the copies, then the writes."""
        entries = []
        for group in self._in("running"):
            for table in group.tables:
                if table.source is None and table.pending and self.program.below(4):
                    entries.append((table, 1 + self.program.below(table.pending)))
        cost = self.manager.append_cost(entries)
        available = self.books.pool.available_blocks
        if cost > available:
            self._append_until_full(entries)
            return
        for table, count in entries:
            self.books.append(table, count)
        assert available - self.books.pool.available_blocks == cost, "append_cost is not what appends took"
        for table, count in entries:
            completes = count == table.pending
            self.books.write(table, count, (self.program.below(3),) if completes else ())

    def _append_until_full(self, entries):
        """Somebody must be refused, in any order, with nothing changed; what others got they keep."""
        refused = 0
        for table, count in entries:
            before = self.books.columns()
            try:
                self.books.append(table, count)
            except OutOfBlocksError:
                assert self.books.columns() == before
                refused += 1
        assert refused

    def do_fork(self):
        group = self._pick("running")
        parents = [t for t in group.tables if t.pending <= 1 and t.source is None]
        if not parents or len(group.tables) > 4:
            return
        parent = self.program.choice(parents)
        group.branch += 1
        awaited = any(table.source is parent for table in group.tables)
        try:
            child = self.books.fork(parent, group.branch)
        except AllocatorError:
            assert awaited
            return
        assert not awaited
        group.tables.append(child)

    def do_end(self):
        """One sequence leaves: not one that computes for a sibling."""
        group = self._pick("running")
        sources = [table.source for table in group.tables]
        table = self.program.choice([table for table in group.tables if table not in sources])
        self._free(group, [table])

    def do_abort(self):
        group = self._pick("running", "waiting", "swapped")
        self._free(group, group.tables)

    def _free(self, group, tables):
        # Newest first: who waits for a sibling leaves before the sibling.
        for table in tables[::-1]:
            self.books.free(table)
            group.tables.remove(table)
            self.books.bus.emit(ev.SequenceEnded, table.sequence, "stop")
        if not group.tables:
            self.groups.remove(group)
            self.books.bus.emit(ev.Finished, ev.request_of(table.sequence), ev.FinishReason.STOP)

    def do_recompute(self):
        group = self._pick("running")
        for table in reversed(group.tables):
            self.books.free(table)
        group.state = "waiting"

    def do_swap_out(self):
        group = self._pick("running")
        needed = len({block for table in group.tables for block in table.blocks})
        waits = any(table.source is not None for table in group.tables)
        fits = not waits and needed <= self.books.host_pool.available_blocks
        assert self.manager.can_swap_out(group.tables) == fits
        try:
            pairs = self.books.swap_out(*group.tables)
        except OutOfBlocksError:
            assert not fits
            return
        assert fits and len(pairs) == needed
        group.state = "swapped"

    def do_swap_in(self):
        group = self._pick("swapped")
        fits = self.manager.swap_in_cost(group.tables) <= self.books.pool.available_blocks
        try:
            self.books.swap_in(*group.tables)
        except OutOfBlocksError:
            assert not fits
            return
        assert fits
        group.state = "running"

    def close(self):
        """Everybody leaves: every block of both pools is available again."""
        for group in list(self.groups):
            self._free(group, group.tables)
        for pool in (self.books.pool, self.books.host_pool):
            assert pool.available_blocks == pool.num_blocks
            assert self.books.manager.stored_tokens(pool.tier) == 0


@pytest.fixture
def run_machine(books):
    """Runs `examples` programs; returns how often each step was taken, and `calls` of the manager in all."""

    def run(examples):
        done = {}

        @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
        @given(POOLS, st.binary(min_size=PROGRAM_BYTES, max_size=PROGRAM_BYTES))
        def program(pool, code):
            options = {k: v for k, v in pool.items() if v is not None}
            machine = Machine(
                books(options.pop("blocks"), options.pop("block_size"), **options), Program(code)
            )
            for _ in range(STEPS):
                name = machine.step()
                done[name] = done.get(name, 0) + 1
            machine.close()
            done["calls"] = done.get("calls", 0) + machine.books.checker.calls

        program()
        return done

    return run


def test_a_hundred_thousand_random_operations(run_machine):
    done = run_machine(220)
    assert done["calls"] >= 100_000
    assert set(done) >= {"arrive", "admit", "run", "fork", "end", "abort", "recompute", "swap_out", "swap_in"}


@pytest.mark.long
def test_a_million_random_operations(run_machine):
    assert run_machine(2_200)["calls"] >= 1_000_000
