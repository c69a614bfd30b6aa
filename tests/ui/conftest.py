"""A scripted session for the screens: a small pool that fills, shares, evicts and preempts, by step.

It is not the memory core: only as much of one as gives the screens consistent pictures, the same in every
run. It advances when told (`advance`), or with every snapshot when `auto` is set.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import numpy as np
import pytest

from kvtop.memory import events as ev
from kvtop.memory.events import sequence_id, sequence_name
from kvtop.session import session as ses
from kvtop.timeline import snapshot as snap
from kvtop.timeline.snapshot import BlockState
from kvtop.ui.app import KvtopApp

WORDS = [
    "the",
    "people",
    "of",
    "this",
    "House",
    "and",
    "Senate",
    "shall",
    "provide",
    "for",
    "a",
    "more",
    "perfect",
    "Union",
    "in",
    "every",
    "State",
]
BLOCK_SIZE = 16
SHARED_PREFIX = 6
ALL_COMMANDS = frozenset(
    {
        ses.Pause,
        ses.Resume,
        ses.StepOnce,
        ses.SetSpeed,
        ses.AddRequest,
        ses.AddBurst,
        ses.Fork,
        ses.Preempt,
        ses.Abort,
    }
)


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

    @property
    def id(self) -> int:
        return sequence_id(self.request, self.branch)


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
        self.totals = dict.fromkeys(
            (
                "finished",
                "aborted",
                "rejected",
                "swap",
                "recompute",
                "copies",
                "evictions",
                "queries",
                "hits",
                "generated",
            ),
            0,
        )
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
        self.log.append(kind(self.step, self.order, *fields))
        self.order += 1

    def advance(self, *, publish: bool = True) -> None:
        """One step: admit, store a token everywhere, end what is long enough."""
        self.step += 1
        self.order = 0
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
        del self.log[:-256]
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
        self.ref[block], self.fill[block], self.touched[block] = 1, 0, self.step
        return block

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
        table = list(prefix)
        while len(table) < need:
            block = self._take()
            assert block is not None
            self.fill[block] = BLOCK_SIZE
            table.append(block)
        self.fill[table[-1]] = prompt - (need - 1) * BLOCK_SIZE
        self.hashed[table[:-1]] = True
        hit = len(prefix) * BLOCK_SIZE
        self.totals["hits"] += hit
        self.emit(ev.Admitted, request, sequence_id(request, 1 if n > 1 else 0), prompt, hit, True)
        for branch in range(1, n + 1) if n > 1 else (0,):
            if branch > 1:
                self.ref[table] += 1
                self.emit(ev.Forked, sequence_id(request, 1), sequence_id(request, branch))
            self.sequences.append(FakeSequence(request, branch, prompt, prompt, list(table), n=n, hit=hit))

    def _store(self, sequence: FakeSequence) -> None:
        """Store one more token, on a copy when the block is shared."""
        if sequence.stored % BLOCK_SIZE == 0:
            block = self._take()
            if block is None:
                self._preempt()
                return
            if sequence.table:
                self.hashed[sequence.table[-1]] = True
            sequence.table.append(block)
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
            last = copy
        sequence.stored += 1
        self.fill[last] = sequence.stored - (len(sequence.table) - 1) * BLOCK_SIZE
        self.totals["generated"] += 1

    def _release(self, sequence: FakeSequence) -> None:
        for block in reversed(sequence.table):
            self.ref[block] -= 1
            self.touched[block] = self.step
            if self.ref[block] == 0:
                if self.fill[block] < BLOCK_SIZE:
                    self.hashed[block] = False
                if self.hashed[block]:
                    self.free.append(block)
                else:
                    self.fill[block] = 0
                    self.free.insert(0, block)

    def _preempt(self) -> None:
        victim = [s for s in self.sequences if s.state == "running"][-1]
        members = [s for s in self.sequences if s.request == victim.request]
        mode = ev.PreemptionMode.SWAP if victim.request % 3 == 0 else ev.PreemptionMode.RECOMPUTE
        self.totals[mode.value] += 1
        self.emit(ev.Preempted, victim.request, mode, "the oldest sequence needs 1 block, 0 free", 1)
        for member in members:
            self._release(member)
            member.preemptions += 1
            if mode is ev.PreemptionMode.SWAP:
                member.state = "swapped"
                member.wait_reason = "waits for free blocks on the device"
                member.table = list(range(self.host_used, self.host_used + len(member.table)))
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

    def _end(self, sequence: FakeSequence) -> None:
        self._release(sequence)
        self.sequences.remove(sequence)
        if all(s.request != sequence.request for s in self.sequences):
            self.totals["finished"] += 1
            self.emit(ev.Finished, sequence.request, ev.FinishReason.LENGTH)

    # -- snapshot -----------------------------------------------------------------------------------------

    def publish(self) -> snap.Snapshot:
        """Freeze the state of now."""
        order = {"running": 0, "prefill": 0, "swapped": 1, "waiting": 2}
        live = sorted(self.sequences, key=lambda s: order[s.state])
        owner = np.full(self.blocks, -1, np.int32)
        for index in range(len(live) - 1, -1, -1):
            if live[index].state == "running":
                owner[live[index].table] = index
        state = np.where(
            self.ref > 1,
            BlockState.SHARED,
            np.where(
                self.ref == 1, BlockState.USED, np.where(self.hashed, BlockState.CACHED, BlockState.FREE)
            ),
        ).astype(np.uint8)
        used = self.ref > 0
        columns = snap.BlockColumns(
            state, self.ref.copy(), owner, self.fill.copy(), self.hashed.copy(), self.touched.copy()
        )
        host = snap.BlockColumns(*(np.zeros(128, kind) for kind in ("u1", "i4", "i4", "i4", "?", "i4")))
        total, cached = self.totals, int(np.count_nonzero(state == BlockState.CACHED))
        counters = snap.Counters(
            total_blocks=self.blocks,
            used_blocks=int(used.sum()),
            shared_blocks=int((self.ref > 1).sum()),
            cached_blocks=cached,
            free_blocks=self.blocks - int(used.sum()) - cached,
            stored_tokens=int(self.fill[used].sum()),
            slots=int(used.sum()) * BLOCK_SIZE,
            host_total_blocks=128,
            host_used_blocks=min(self.host_used, 128),
            running=sum(s.state == "running" for s in live),
            waiting=sum(s.state == "waiting" for s in live),
            swapped=sum(s.state == "swapped" for s in live),
            finished=total["finished"],
            aborted=total["aborted"],
            rejected=total["rejected"],
            preempted_swap=total["swap"],
            preempted_recompute=total["recompute"],
            cow_copies=total["copies"],
            evictions=total["evictions"],
            prefix_queries=total["queries"],
            prefix_hits=total["hits"],
            generated_tokens=total["generated"],
        )
        self.published = snap.Snapshot(
            source=snap.Source(
                "live",
                "inside-3m",
                "cpu",
                "bf16",
                "numba paged decode",
                BLOCK_SIZE,
                24576,
                5_557_248,
                "mixed",
                7,
                "swap",
                16,
            ),
            step=self.step,
            order=self.order,
            counters=counters,
            blocks=columns,
            host=host,
            sequences=tuple(map(self._row, live)),
            figures=snap.StepFigures(40, 20, 1e-4, 0.012, 2e-4, 240.0 + 40 * np.sin(self.step / 9), 19.8),
            events=tuple(self.log),
            block_detail=self._block_detail(live),
            sequence_detail=self._sequence_detail(live),
        )
        return self.published

    def _row(self, sequence: FakeSequence) -> snap.SequenceRow:
        table = np.array(sequence.table, np.int32)
        on_device = sequence.state == "running"
        start = sequence.stored + sequence.request
        return snap.SequenceRow(
            id=sequence.id,
            name=sequence_name(sequence.id),
            request=sequence.request,
            branch=sequence.branch,
            label=sequence.label,
            state=sequence.state,
            wait_reason=sequence.wait_reason,
            prompt_tokens=sequence.prompt,
            generated_tokens=max(0, sequence.stored - sequence.prompt),
            stored_tokens=sequence.stored,
            max_new_tokens=130,
            n=sequence.n,
            beam_width=sequence.beam_width,
            blocks=len(table),
            on_host=sequence.state == "swapped",
            shared_blocks=int((self.ref[table] > 1).sum()) if on_device and len(table) else 0,
            waste_slots=len(table) * BLOCK_SIZE - sequence.stored,
            prefix_hit_tokens=sequence.hit,
            preemptions=sequence.preemptions,
            table=table,
            tail=tuple(range(start, start + 32)) if sequence.stored else (),
        )

    def _block_detail(self, live: list[FakeSequence]) -> snap.BlockDetail | None:
        block = self.selected["block"]
        if block is None:
            return None
        owners = tuple(
            snap.Owner(s.id, sequence_name(s.id), s.table.index(block))
            for s in live
            if s.state == "running" and block in s.table
        )
        logical = owners[0].logical if owners else 0
        ref = int(self.ref[block])
        return snap.BlockDetail(
            block=block,
            state=BlockState(min(ref + 1, 3) if ref else int(self.hashed[block])),
            ref_count=ref,
            fill=int(self.fill[block]),
            block_size=BLOCK_SIZE,
            hash=0x9F3C_0000_1234_5678 if self.hashed[block] else None,
            parent_hash=0x1111_2222 if self.hashed[block] and logical else None,
            owners=owners,
            token_ids=tuple(range(int(self.fill[block]))),
            first_position=logical * BLOCK_SIZE,
            touched=int(self.touched[block]),
            life=(f"step {int(self.touched[block])}: allocated", f"step {self.step}: looked at"),
        )

    def _sequence_detail(self, live: list[FakeSequence]) -> snap.SequenceDetail | None:
        found = next((s for s in live if s.id == self.selected["sequence"]), None)
        if found is None:
            return None
        return snap.SequenceDetail(
            found.id,
            sequence_name(found.id),
            tuple(range(found.prompt)),
            tuple(range(found.stored - found.prompt)),
        )


@pytest.fixture
def make_session() -> Callable[..., FakeSession]:
    """Makes scripted sessions."""
    return FakeSession


@pytest.fixture
def session() -> FakeSession:
    """A session that has run for 300 steps."""
    return FakeSession().run(300)


def text_of(app: KvtopApp) -> list[str]:
    """The screen's lines as text."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


@pytest.fixture
def shown() -> Callable[[KvtopApp], list[str]]:
    """Reads the screen's lines."""
    return text_of


@dataclasses.dataclass
class Driven:
    """An app under test, with its session and the keys to it."""

    app: KvtopApp
    session: FakeSession
    pilot: Any

    async def press(self, *keys: str) -> None:
        """Press keys and draw what comes of them."""
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    async def settle(self) -> None:
        """Let messages run out and draw the newest snapshot."""
        await self.pilot.pause()
        self.app.refresh_view(force=True)
        await self.pilot.pause()

    @property
    def lines(self) -> list[str]:
        return text_of(self.app)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def selected(self) -> tuple[int, int | None] | None:
        """Request and branch of the selected row."""
        row = self.app.selection.row
        return None if row is None else (row.request, row.branch)


@pytest.fixture
def drive() -> Callable[..., Any]:
    """Opens an app over a session: `async with drive(session, (120, 36)) as driven`."""

    @contextlib.asynccontextmanager
    async def opened(
        session: FakeSession, size: tuple[int, int] = (120, 36), **options: Any
    ) -> AsyncIterator[Driven]:
        # One frame an hour: what is drawn is drawn because a test asked for it.
        app = KvtopApp(session, fps=options.pop("fps", 1 / 3600), probe=False, **options)
        async with app.run_test(size=size) as pilot:
            driven = Driven(app, session, pilot)
            await driven.settle()
            yield driven

    return opened
