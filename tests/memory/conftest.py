"""A cache manager under watch: a simulated K/V memory, every event, and the invariants after every call.

What a block holds is simulated by one number a slot that stands for the token and everything before it, as
K/V does. Reading a sequence through its table must give its own numbers: that sees a wrongly shared block
where counts alone would agree.
"""

from __future__ import annotations

from array import array

import pytest

from kvtop.memory import events as ev
from kvtop.memory import invariants
from kvtop.memory.block_table import BlockTable
from kvtop.memory.cache_manager import CacheManager
from kvtop.memory.events import EventBus, sequence_id
from kvtop.timeline import checking
from kvtop.timeline.checking import Checker

NOTHING = -1


def behind(before, token):
    """What K/V of `token` stands for behind a position that stands for `before` (7 at the start)."""
    return (before * 1_000_003 + token + 1) % (1 << 61)


class Books:
    """A manager with a checker behind it and a simulated K/V memory; its calls are the manager's."""

    def __init__(self, blocks, block_size, **options):
        self.bus = EventBus()
        self.manager = CacheManager(blocks, block_size, bus=self.bus, **options)
        self.size = block_size
        self.pool = self.manager.pool
        self.host_pool = self.manager.host_pool
        self.device = [NOTHING] * (blocks * block_size)
        self.host = [NOTHING] * (self.host_pool.num_blocks * block_size)
        self.events = []
        self.checker = Checker(self.manager)
        self.bus.subscribe(self.checker.hear)
        self.bus.subscribe(self._hear)
        self.arrived = set()
        self._known = {}

    # -- the manager's calls, each followed by every check ----------------------------------------------

    def table(self, tokens, request=None, branch=0):
        """A new sequence without blocks; a new request unless one is named."""
        request = len(self.arrived) + 1 if request is None else request
        table = BlockTable(sequence_id(request, branch), array("i", tokens))
        if request not in self.arrived:
            self.arrived.add(request)
            self.bus.emit(ev.Arrived, request, tuple(tokens), 99, 1 + (branch > 0), 1, "")
        return table

    def admit(self, *tables, first=True):
        plan = self.manager.plan_admission(tables)
        self.call(self.manager.admit, plan, first=first)
        return tables[0] if len(tables) == 1 else tables

    def admitted(self, tokens, request=None, branch=0):
        """Admit a sequence and store its whole prompt."""
        table = self.admit(self.table(tokens, request, branch))
        self.store(table, table.pending)
        return table

    def append(self, table, count=1):
        """Make room for the next tokens, and do the copy that this asks for. Returns the copy or None."""
        copy = self.call(self.manager.append, table, count)
        if copy is not None:
            self._copy(self.device, copy[0], self.device, copy[1])
        return copy

    def write(self, table, count=1, token_ids=()):
        """Store the next tokens' K/V in the slots made for them, as a runner does, and record it."""
        invariants.check_writable(self.manager, table, count)
        now = self._contents(table)
        for position in range(table.stored, table.stored + count):
            self.device[self._slot(table, position)] = now[position]
        self.call(self.manager.advance, table, count, token_ids)

    def store(self, table, count=1, token_ids=()):
        """`append` and `write` in one."""
        copy = self.append(table, count)
        self.write(table, count, token_ids)
        return copy

    def decode(self, table, token):
        """A step of a sequence whose last token is not stored yet: store it, draw `token`."""
        return self.store(table, table.pending, (token,))

    def fork(self, parent, branch):
        child = BlockTable(sequence_id(ev.request_of(parent.sequence), branch), parent.tokens[:])
        self.call(self.manager.fork, parent, child)
        return child

    def free(self, table):
        self.call(self.manager.free, table)

    def swap_out(self, *tables):
        pairs = self.call(self.manager.swap_out, tables)
        for device, host in pairs:
            self._copy(self.device, device, self.host, host)
        return pairs

    def swap_in(self, *tables):
        pairs = self.call(self.manager.swap_in, tables)
        for host, device in pairs:
            self._copy(self.host, host, self.device, device)
        return pairs

    def call(self, verb, *arguments, **options):
        """One call, then I1 to I4 and I9. One that raises must have published nothing and changed nothing."""
        heard = len(self.events)
        try:
            return verb(*arguments, **options)
        except BaseException:
            assert len(self.events) == heard, f"a refused call published {self.events[heard:]}"
            raise
        finally:
            self.checker.after_call()

    # -- looking ------------------------------------------------------------------------------------------

    def check_contents(self):
        """Every sequence reads its own K/V through its table, as far as it is stored."""
        for table in self.manager.tables.values():
            memory = self.device if table.tier is ev.Tier.DEVICE else self.host
            read = [memory[self._slot(table, position)] for position in range(table.stored)]
            assert read == self._contents(table)[: table.stored], f"{table.name} reads another's K/V"

    def queue(self):
        """The free queue's block ids, front to back."""
        return list(self.pool.free_queue)

    def counts(self, table):
        pool = self.pool if table.tier is ev.Tier.DEVICE else self.host_pool
        return [pool.ref_counts[block] for block in table.blocks]

    def kinds(self, since=0):
        return [type(event).__name__ for event in self.events[since:]]

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    def columns(self):
        """Everything that a refused call must leave alone, as comparable values."""
        return [
            (list(p.free_queue), p.ref_counts[:], p.hashes[:], p.cached_blocks, p.shared_blocks)
            for p in (self.pool, self.host_pool)
        ] + [(id_, t.blocks[:], t.stored, t.tokens[:], t.tier) for id_, t in self.manager.tables.items()]

    def _contents(self, table):
        """What each position of a sequence stands for: its token and all before it, as one number."""
        known = self._known.setdefault(table.sequence, [])
        for token in table.tokens[len(known) :]:
            known.append(behind(known[-1] if known else 7, token))
        return known

    def _slot(self, table, position):
        return table.blocks[position // self.size] * self.size + position % self.size

    def _copy(self, origin, old, target, new):
        size = self.size
        target[new * size : (new + 1) * size] = origin[old * size : (old + 1) * size]

    def _hear(self, event):
        self.events.append(event)
        # A fresh block holds nothing that anybody may read.
        for block in event.blocks if isinstance(event, ev.Allocated) else ():
            self.device[block * self.size : (block + 1) * self.size] = [NOTHING] * self.size


@pytest.fixture(autouse=True)
def _every_column_every_time(monkeypatch):
    """I9 over all blocks, bit for bit, after every call: the pools here are small."""
    monkeypatch.setattr(checking, "FULL_FOLD_EVERY", 1)


@pytest.fixture
def books():
    """Makes a watched manager: `books(blocks, block_size, host_blocks=...)`."""
    return Books


@pytest.fixture
def four(books):
    """Eight blocks of four slots on the device, eight on the host."""
    return books(8, 4, host_blocks=8)
