"""A scripted session for the screens: a small pool that fills, shares, evicts and preempts, by step.

It is not the memory core: only as much of one as gives the screens consistent pictures, the same in every
run. It advances when told (`advance`), or with every snapshot when `auto` is set.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from kvtop.memory import events as ev
from kvtop.memory.events import sequence_id
from kvtop.session import session as ses
from kvtop.timeline import snapshot as snap
from tests.ui.fake_snapshot import BLOCK_SIZE, freeze

WORDS = (
    "the", "people", "of", "this", "House", "and", "Senate", "shall", "provide", "for", "a", "more",
    "perfect", "Union", "in", "every", "State",
)  # fmt: skip
SHARED_PREFIX = 6
ALL_COMMANDS = frozenset(ses.Command.__args__)
TRACE = 1024
_QUIET = (ev.Shared, ev.Allocated, ev.Released, ev.Freed, ev.Cached, ev.SwappedOut, ev.Resumed, ev.StepEnded)
"""Kinds that the trace has and the log of this script leaves out."""


@dataclasses.dataclass(frozen=True)
class Chain:
    """What a block with a hash can be found by."""

    hash: int
    parent: int
    depth: int
    tokens: tuple[int, ...]


@dataclasses.dataclass
class FakeSequence:
    """A sequence of the script."""

    request: int
    branch: int
    prompt: int
    stored: int
    table: list[int]
    n: int = 1
    beam_width: int = 1
    state: str = "running"
    wait_reason: str = ""
    preemptions: int = 0
    hit: int = 0
    label: str = ""
    roots: tuple[int, ...] = ()
    """Requests that the first blocks come from."""
    preempted: list[snap.Preemption] = dataclasses.field(default_factory=list)

    @property
    def id(self) -> int:
        return sequence_id(self.request, self.branch)

    def tokens(self, start: int, end: int) -> tuple[int, ...]:
        """The tokens from one position up to another."""
        own, roots = self.request, self.roots
        origin = [roots[p // BLOCK_SIZE] if p // BLOCK_SIZE < len(roots) else own for p in range(start, end)]
        return tuple(32 + request + p for request, p in zip(origin, range(start, end), strict=True))

    def chains(self, blocks: int) -> list[Chain]:
        """What its first blocks, which are full, can be found by."""
        chains: list[Chain] = []
        for depth in range(blocks):
            parent = chains[-1].hash if chains else 0
            tokens = self.tokens(depth * BLOCK_SIZE, (depth + 1) * BLOCK_SIZE)
            digest = blake2b(f"{parent}{tokens}".encode(), digest_size=8).digest()
            chains.append(Chain(int.from_bytes(digest, "big", signed=True), parent, depth, tokens))
        return chains


class FakeSession:
    """`kvtop.session.session.Session` by script. `sent` collects the commands."""

    def __init__(
        self, blocks: int = 512, max_running: int = 14, *, supports: frozenset[type] = ALL_COMMANDS
    ) -> None:
        self._supports = supports
        self.blocks = blocks
        self.max_running = max_running
        self.auto = False
        self.started = self.closed = False
        self.sent: list[ses.Command] = []
        self.current = ses.Status(ses.Phase.LOADING, "Loading inside-3m", 0.4, 20.0, 0.0)
        self.pending: list[ses.Notice] = []
        self.selected: dict[str, int | None] = {"block": None, "sequence": None}
        self.prefixes_asked = False
        self.vocabulary: dict[int, str] = {}
        self.published: snap.Snapshot | None = None
        self.step = self.order = 0
        self.ref = np.zeros(blocks, np.int32)
        self.fill = np.zeros(blocks, np.int32)
        self.hashed = np.zeros(blocks, np.bool_)
        self.touched = np.zeros(blocks, np.int32)
        self.free = list(range(blocks))
        self.sequences: list[FakeSequence] = []
        self.host_used = 0
        self.log: list[Any] = []
        self.trace: list[Any] = []
        self.flashes: list[snap.Flash] = []
        self.chains: dict[int, Chain] = {}
        """Block -> what it can be found by."""
        self.hits: dict[int, int] = {}
        self.reads: list[tuple[FakeSequence, int, list[int]]] = []
        self.prefilled = 0
        self.totals = dict.fromkeys(
            ("finished", "aborted", "rejected", "swap", "recompute", "copies", "evictions", "queries", "hits",
             "generated"), 0,
        )  # fmt: skip
        self.next_request = 1
        self.random = np.random.default_rng(5)

    # -- protocol -----------------------------------------------------------------------------------------

    @property
    def supports(self) -> frozenset[type]:
        return self._supports

    @property
    def status(self) -> ses.Status:
        return self.current

    def start(self) -> None:
        self.started = True

    def close(self) -> None:
        self.closed = True

    def snapshot(self) -> snap.Snapshot | None:
        if self.auto and self.current.phase is ses.Phase.RUNNING:
            self.advance()
        return self.published

    def select(
        self, *, block: int | None = None, sequence: int | None = None, prefixes: bool = False
    ) -> None:
        self.selected = {"block": block, "sequence": sequence}
        self.prefixes_asked = prefixes
        if self.published is not None:
            self.publish()

    def send(self, command: ses.Command) -> None:
        self.sent.append(command)

    def notices(self) -> Sequence[ses.Notice]:
        taken, self.pending = self.pending, []
        return taken

    def text(self, token_ids: Sequence[int]) -> str:
        return "".join(self.vocabulary.get(token, " " + WORDS[token % len(WORDS)]) for token in token_ids)

    # -- script -------------------------------------------------------------------------------------------

    def run(self, steps: int = 1) -> FakeSession:
        """Leave loading, and go `steps` on."""
        self.phase(ses.Phase.RUNNING)
        for _ in range(steps):
            self.advance(publish=False)
        self.publish()
        return self

    def phase(self, phase: ses.Phase, message: str = "") -> None:
        """Change the phase."""
        self.current = dataclasses.replace(self.current, phase=phase, message=message, progress=None)

    def emit(self, kind: type[ev.Event], *fields: Any) -> None:
        """Note that something happened."""
        event = kind(self.step, self.order, *fields)
        self.order += 1
        self.trace.append(event)
        if not isinstance(event, _QUIET):
            self.log.append(event)

    def _flash(self, kind: snap.FlashKind, blocks: Sequence[int]) -> None:
        serial = self.flashes[-1].serial + 1 if self.flashes else 1
        self.flashes = [*self.flashes[-255:], snap.Flash(serial, kind, tuple(blocks))]

    def publish(self) -> snap.Snapshot:
        """Freeze the state of now."""
        self.published = freeze(self)
        return self.published

    def advance(self, *, publish: bool = True) -> None:
        """One step: admit, store a token everywhere, end what is long enough."""
        self.step += 1
        self.order = self.prefilled = 0
        self.reads = []
        if len([s for s in self.sequences if s.state == "running"]) < self.max_running and self.step % 3 == 1:
            self._admit()
        for sequence in [s for s in self.sequences if s.state == "running"]:
            if sequence.state == "running":
                self._store(sequence)
        for sequence in [
            s for s in self.sequences if s.state == "running" and s.stored > s.prompt + 90 + s.request % 40
        ]:
            self._end(sequence)
        for sequence in [s for s in self.sequences if s.state == "swapped"]:
            if len(self.free) > len(sequence.table) + self.blocks // 8 and self.step % 7 == 0:
                self._swap_in(sequence)
        decoded = len(self.reads)
        self.emit(ev.StepEnded, self.prefilled + decoded, self.prefilled, 1e-4, 0.012, 2e-4)
        del self.log[:-256], self.trace[:-TRACE]
        if publish:
            self.publish()

    def _take(self) -> int | None:
        """A block from the front of the free queue, evicted if it was cached."""
        if not self.free:
            return None
        block = self.free.pop(0)
        if self.hashed[block]:
            self.hashed[block] = False
            self.totals["evictions"] += 1
            self.emit(ev.Evicted, (block,))
            self._flash(snap.FlashKind.EVICTED, (block,))
            del self.chains[block]
            self.hits.pop(block, None)
        self.ref[block], self.fill[block], self.touched[block] = 1, 0, self.step
        return block

    def _cache(self, sequence: FakeSequence, first: int, end: int) -> None:
        """Let the blocks `first` up to `end` of a table be found."""
        chains = sequence.chains(end)
        blocks = tuple(sequence.table[first:end])
        self.chains.update(zip(blocks, chains[first:], strict=True))
        self.hashed[list(blocks)] = True
        if blocks:
            hashes, parents = zip(*((chain.hash, chain.parent) for chain in chains[first:]), strict=True)
            self.emit(ev.Cached, blocks, sequence.id, first, hashes, parents)

    def _admit(self) -> None:
        request, self.next_request = self.next_request, self.next_request + 1
        prompt = int(self.random.integers(120, 420))
        n = 3 if request % 5 == 0 else 1
        self.totals["queries"] += prompt
        need = -(-prompt // BLOCK_SIZE)
        prefix: list[int] = []
        donor = next((s for s in self.sequences if s.state == "running"), None)
        if donor is not None and request % 2 and len(donor.table) > SHARED_PREFIX:
            prefix = donor.table[:SHARED_PREFIX]
        if len(self.free) < need + 2:
            self.sequences.append(
                FakeSequence(
                    request,
                    0,
                    prompt,
                    0,
                    [],
                    state="waiting",
                    wait_reason=f"needs {need} blocks, {len(self.free)} free",
                )
            )
            if sum(s.state == "waiting" for s in self.sequences) > 4:
                self.sequences = [s for s in self.sequences if s.state != "waiting"]
            return
        for block in prefix:
            self.ref[block] += 1
            self.touched[block] = self.step
            self.hits[block] = self.hits.get(block, 0) + 1
        table = list(prefix)
        while len(table) < need:
            block = self._take()
            assert block is not None
            self.fill[block] = BLOCK_SIZE
            table.append(block)
        self.fill[table[-1]] = prompt - (need - 1) * BLOCK_SIZE
        hit = len(prefix) * BLOCK_SIZE
        self.totals["hits"] += hit
        self.prefilled += prompt - hit
        one = sequence_id(request, 1 if n > 1 else 0)
        roots = (*donor.roots, *[donor.request] * len(prefix))[: len(prefix)] if donor and prefix else ()
        self.emit(ev.Admitted, request, one, prompt, hit, True)
        if prefix:
            self.emit(ev.Shared, tuple(prefix), one, 0)
        self.emit(ev.Allocated, tuple(table[len(prefix) :]), one, len(prefix))
        for branch in range(1, n + 1) if n > 1 else (0,):
            if branch > 1:
                self.ref[table] += 1
                self.emit(ev.Forked, sequence_id(request, 1), sequence_id(request, branch))
            self.sequences.append(
                FakeSequence(request, branch, prompt, prompt, list(table), n=n, hit=hit, roots=roots)
            )
            if branch < 2:
                self._cache(self.sequences[-1], len(prefix), need - 1)

    def _store(self, sequence: FakeSequence) -> None:
        """Store one more token, on a copy when the block is shared."""
        if sequence.stored % BLOCK_SIZE == 0:
            block = self._take()
            if block is None:
                self._preempt()
                return
            if sequence.table and not self.hashed[sequence.table[-1]]:
                self._cache(sequence, len(sequence.table) - 1, len(sequence.table))
            sequence.table.append(block)
            self.emit(ev.Allocated, (block,), sequence.id, len(sequence.table) - 1)
        last = sequence.table[-1]
        if self.ref[last] > 1:
            copy = self._take()
            if copy is None:
                self._preempt()
                return
            self.ref[last] -= 1
            self.fill[copy] = self.fill[last]
            sequence.table[-1] = copy
            self.totals["copies"] += 1
            self.emit(ev.Copied, last, copy, sequence.id, len(sequence.table) - 1)
            self._flash(snap.FlashKind.COPIED, (copy,))
            last = copy
        sequence.stored += 1
        self.fill[last] = sequence.stored - (len(sequence.table) - 1) * BLOCK_SIZE
        self.totals["generated"] += 1
        self.reads.append((sequence, sequence.stored, list(sequence.table)))

    def _release(self, sequence: FakeSequence, *, moved: bool = False) -> None:
        front: list[int] = []
        back: list[int] = []
        if not moved:
            self.emit(ev.Released, tuple(reversed(sequence.table)), sequence.id, ev.Tier.DEVICE)
        for block in reversed(sequence.table):
            self.ref[block] -= 1
            self.touched[block] = self.step
            if self.ref[block] == 0:
                if self.hashed[block]:
                    self.free.append(block)
                    back.append(block)
                else:
                    self.fill[block] = 0
                    self.free.insert(0, block)
                    front.append(block)
        if front:
            self.emit(ev.Freed, tuple(front), ev.QueueEnd.FRONT, ev.Tier.DEVICE)
        if back:
            self.emit(ev.Freed, tuple(back), ev.QueueEnd.BACK, ev.Tier.DEVICE)

    def _preempt(self) -> None:
        victim = [s for s in self.sequences if s.state == "running"][-1]
        members = [s for s in self.sequences if s.request == victim.request]
        mode = ev.PreemptionMode.SWAP if victim.request % 3 == 0 else ev.PreemptionMode.RECOMPUTE
        self.totals[mode.value] += 1
        why = "the oldest sequence needs 1 block, 0 free"
        self.emit(ev.Preempted, victim.request, mode, why, 1)
        held = dict.fromkeys(block for member in members for block in member.table)
        self._flash(snap.FlashKind.PREEMPTED, tuple(held))
        for member in members:
            member.preemptions += 1
            member.preempted.append(
                snap.Preemption(self.step, mode.value, why, 1, len(member.table), member.stored, None)
            )
            swaps = mode is ev.PreemptionMode.SWAP
            host = list(range(self.host_used, self.host_used + len(member.table)))
            if swaps:
                self.emit(ev.SwappedOut, (member.id,), tuple(member.table), tuple(host))
            self._release(member, moved=swaps)
            if swaps:
                member.state = "swapped"
                member.wait_reason = "waits for free blocks on the device"
                member.table = host
                self.host_used += len(member.table)
            else:
                member.state, member.table, member.stored = "waiting", [], 0
                member.wait_reason = "preempted: to be recomputed"

    def _swap_in(self, sequence: FakeSequence) -> None:
        sequence.state, sequence.wait_reason = "running", ""
        self.host_used = max(0, self.host_used - len(sequence.table))
        table = [block for _ in sequence.table if (block := self._take()) is not None]
        self.emit(ev.SwappedIn, (sequence.id,), tuple(sequence.table), tuple(table))
        self.fill[table] = BLOCK_SIZE
        self.fill[table[-1]] = sequence.stored - (len(table) - 1) * BLOCK_SIZE
        sequence.table = table
        self.emit(ev.Resumed, sequence.request)
        if sequence.preempted:
            sequence.preempted[-1] = dataclasses.replace(sequence.preempted[-1], resumed=self.step)

    def _end(self, sequence: FakeSequence) -> None:
        self._release(sequence)
        self.sequences.remove(sequence)
        if all(s.request != sequence.request for s in self.sequences):
            self.totals["finished"] += 1
            self.emit(ev.Finished, sequence.request, ev.FinishReason.LENGTH)


def row_of(lines: list[str], name: str) -> str:
    """The table's line of a sequence."""
    return next(
        line for line in lines if f" {name} " in line and any(s in line for s in ("RUN", "WAIT", "SWAP"))
    )
