"""The live session: one worker, frozen snapshots, commands between steps."""

from __future__ import annotations

import numpy as np
import pytest

from kvtop.engine.runner import CacheReads
from kvtop.memory.events import PreemptionMode, StepEnded, sequence_id
from kvtop.report import step_report
from kvtop.session.session import (
    Abort,
    AddBurst,
    AddRequest,
    Fork,
    Pause,
    Phase,
    Preempt,
    Resume,
    SetSpeed,
    StepOnce,
)
from kvtop.timeline.snapshot import BlockState


@pytest.fixture
def at_step(live, until):
    """A paused session after so many single steps, with its newest snapshot."""

    def go(steps, scenario="mixed", **options):
        session = live(scenario, **options)
        for _ in range(steps):
            session.send(StepOnce())
        until(lambda: (snapshot := session.snapshot()) and snapshot.step == steps)
        return session

    return go


def fresh(session, until, true):
    """The first snapshot that satisfies `true`."""
    return until(lambda: snapshot if (snapshot := session.snapshot()) and true(snapshot) else None)


def notice(session, until):
    return until(session.notices)[0]


def test_loads_pauses_steps_and_resumes(live, until):
    session = live()
    until(lambda: session.status.phase is Phase.PAUSED)
    first = until(session.snapshot)
    assert first.step == 0 and first.counters.free_blocks == 512
    session.send(StepOnce())
    fresh(session, until, lambda s: s.step == 1)
    session.send(Resume())
    fresh(session, until, lambda s: s.step > 5)
    session.send(Pause())
    until(lambda: session.status.phase is Phase.PAUSED)


def test_a_snapshot_never_changes(at_step, until):
    session = at_step(20)
    before = session.snapshot()
    references, step = before.blocks.ref_count.copy(), before.step
    with pytest.raises(ValueError, match="read-only"):
        before.blocks.ref_count[0] = 9
    session.send(Resume())
    fresh(session, until, lambda s: s.step > step + 20)
    assert before.step == step and np.array_equal(before.blocks.ref_count, references)


def test_the_fold_says_what_the_engine_says(at_step):
    session = at_step(200, seed=1)
    snapshot, report = session.snapshot(), step_report(session._run, tables=True)
    c = snapshot.counters
    assert {
        "total": c.total_blocks,
        "used": c.used_blocks,
        "cached": c.cached_blocks,
        "free": c.free_blocks,
    } == report["blocks"]
    assert {"stored": c.stored_tokens, "slots": c.slots} == report["tokens"]
    assert {"total": c.host_total_blocks, "used": c.host_used_blocks} == report["host_blocks"]
    assert {name: getattr(c, name) for name in report["sequences"]} == report["sequences"]
    assert {"swap": c.preempted_swap, "recompute": c.preempted_recompute} == report["preemptions"]
    assert (c.cow_copies, c.evictions, c.generated_tokens) == (
        report["cow_copies"], report["evictions"], report["generated_tokens"],
    )  # fmt: skip
    assert {"queries": c.prefix_queries, "hits": c.prefix_hits} == report["prefix"]
    assert {
        row.name: row.table.tolist() for row in snapshot.sequences if row.blocks and not row.on_host
    } == report["tables"]
    assert c.preempted_swap > 0 and c.cow_copies > 0, "the test must have something to compare"


def test_rows_and_columns_agree(at_step):
    snapshot = at_step(150).snapshot()
    entries = np.concatenate([row.table for row in snapshot.sequences if not row.on_host])
    counts = np.bincount(entries, minlength=512)
    assert np.array_equal(counts, snapshot.blocks.ref_count)
    for index, row in enumerate(snapshot.sequences):
        assert row.waste_slots == row.blocks * 16 - row.stored_tokens
        if row.blocks and not row.on_host:
            assert row.shared_blocks == int((counts[row.table] > 1).sum())
            assert (snapshot.blocks.owner[row.table] <= index).all()
    shared = snapshot.blocks.state == BlockState.SHARED
    assert np.array_equal(shared, counts > 1) and shared.any()
    assert (snapshot.blocks.owner[counts == 0] == -1).all()
    order = [{"swapped": 1, "waiting": 2}.get(row.state, 0) for row in snapshot.sequences]
    assert order == sorted(order)
    assert all(row.wait_reason for row in snapshot.sequences if row.state == "waiting")


def test_a_selected_block_tells_its_story(at_step, until):
    session = at_step(150)
    snapshot = session.snapshot()
    block = int(np.flatnonzero(snapshot.blocks.state == BlockState.SHARED)[0])
    session.select(block=block, sequence=snapshot.sequences[0].id)
    snapshot = fresh(session, until, lambda s: s.block_detail)
    detail = snapshot.block_detail
    assert detail.block == block and detail.ref_count == len(detail.owners) > 1
    assert detail.ref_count == snapshot.blocks.ref_count[block]
    by_id = {row.id: row for row in snapshot.sequences}
    for owner in detail.owners:
        assert by_id[owner.sequence].table[owner.logical] == block
    assert len(detail.token_ids) == detail.fill
    tokens = session._run.scheduler.groups[detail.owners[0].sequence >> 16]
    held = next(s for s in tokens.sequences if s.id == detail.owners[0].sequence).table.tokens
    assert detail.token_ids == tuple(held[detail.first_position : detail.first_position + detail.fill])
    assert any("shared with" in line or "allocated to" in line for line in detail.life)
    assert len(session.text(detail.token_ids)) > 0
    sequence = snapshot.sequence_detail
    assert sequence.id == snapshot.sequences[0].id
    assert len(sequence.prompt_token_ids) == snapshot.sequences[0].prompt_tokens


def test_the_tree_of_prefixes_comes_when_it_is_asked_for(at_step, until):
    session = at_step(80, "shared-preface")
    assert session.snapshot().prefixes is None
    session.select(prefixes=True)
    snapshot = fresh(session, until, lambda s: s.prefixes is not None)
    assert len(snapshot.prefixes) + snapshot.prefixes_left_out == int(snapshot.blocks.has_hash.sum()) > 10
    assert max(node.hits for node in snapshot.prefixes) > 0
    session.select(block=1)
    assert fresh(session, until, lambda s: s.block_detail).prefixes is None


def test_figures_and_reads_are_those_of_the_newest_step(at_step):
    snapshot = at_step(60).snapshot()
    assert snapshot.source.max_positions is None and snapshot.figures.kv_bytes_read is None
    assert sum(read.tokens for read in snapshot.reads) >= snapshot.figures.scheduled_tokens > 0
    tables = {row.id: row.table for row in snapshot.sequences}
    for read in snapshot.reads:
        if read.sequence in tables:
            assert np.array_equal(read.table, tables[read.sequence][: len(read.table)])
    assert isinstance(snapshot.trace[-1], StepEnded) and snapshot.trace[-1].step == 60


class Constant:
    """An attribute that stays as it is, whatever is assigned."""

    def __init__(self, value):
        self.value = value

    def __get__(self, owner, kind):
        return self.value

    def __set__(self, owner, value):
        pass


def test_bytes_read_and_the_most_positions_are_known_with_a_model(at_step, monkeypatch):
    from kvtop.engine import null_runner

    info = null_runner.NullRunner().info._replace(bytes_per_block=24576, max_positions=2048, windows=(0, 64))
    monkeypatch.setattr(null_runner, "RunnerInfo", lambda **fields: info)
    monkeypatch.setattr(null_runner.NullRunner, "reads", Constant(CacheReads(12345, 3, 2)), raising=False)
    snapshot = at_step(3, "four-drafts").snapshot()
    assert snapshot.source.max_positions == 2048 and snapshot.source.windowed
    assert snapshot.figures.kv_bytes_read == 12345


def test_a_cached_block_still_knows_its_tokens(at_step, until):
    session = at_step(60, "shared-preface")
    cached = np.flatnonzero(session.snapshot().blocks.state == BlockState.CACHED)
    for _ in range(200):
        if len(cached):
            break
        session.send(StepOnce())
        step = session.snapshot().step
        fresh(session, until, lambda s, step=step: s.step > step)
        cached = np.flatnonzero(session.snapshot().blocks.state == BlockState.CACHED)
    session.select(block=int(cached[0]))
    detail = fresh(session, until, lambda s: s.block_detail).block_detail
    assert detail.owners == () and detail.ref_count == 0
    assert len(detail.token_ids) == 16 and detail.hash is not None and detail.parent_hash is not None
    assert any("freed to the back" in line for line in detail.life)


def test_adds_forks_preempts_swaps_and_aborts(live, until):
    session = live("four-drafts")
    until(lambda: session.status.phase is Phase.PAUSED)
    session.send(AddRequest(prompt="hello there", max_new_tokens=50))
    assert "added request 1" in notice(session, until).text
    one = sequence_id(1)
    for _ in range(3):
        session.send(StepOnce())
    fresh(session, until, lambda s: any(row.id == one and row.generated_tokens for row in s.sequences))

    session.send(Fork(one))
    assert notice(session, until).text == "forked 1.1 from 1"
    names = [row.name for row in fresh(session, until, lambda s: len(s.sequences) > 2).sequences]
    assert {"1", "1.1"} <= set(names)

    session.send(Preempt(one, PreemptionMode.SWAP))
    assert notice(session, until).text == "swapped out: 1"
    snapshot = fresh(session, until, lambda s: s.counters.swapped == 2)
    assert snapshot.counters.host_used_blocks > 0
    session.send(StepOnce())
    session.send(StepOnce())
    fresh(session, until, lambda s: s.counters.swapped == 0 and s.counters.host_used_blocks == 0)

    session.send(Preempt(one, PreemptionMode.RECOMPUTE))
    assert "recomputed" in notice(session, until).text
    session.send(Abort(one))
    assert notice(session, until).text == "aborted 1"
    fresh(session, until, lambda s: s.counters.aborted == 1)
    session.send(Abort(one))
    assert notice(session, until).warning


def test_what_cannot_be_done_is_said(at_step, until):
    session = at_step(3, "too-big")
    session.send(Fork(sequence_id(99)))
    said = notice(session, until)
    assert said.warning and "99" in said.text
    session.send(AddRequest(prompt_tokens=100_000))
    said = notice(session, until)
    assert said.warning and "rejected" in said.text
    session.send(AddRequest(prompt=""))
    assert notice(session, until).warning
    session.send(AddBurst(3))
    assert notice(session, until).text


def test_the_end_keeps_the_last_picture_and_takes_more(live, until):
    session = live("four-drafts", paused=False)
    until(lambda: session.status.phase is Phase.ENDED)
    assert fresh(session, until, lambda s: s.counters.finished == 1).counters.used_blocks == 0
    session.send(AddRequest(max_new_tokens=5))
    fresh(session, until, lambda s: s.counters.finished == 2)


def test_speed(live, until):
    session = live(speed=1.0, paused=False)
    fresh(session, until, lambda s: s.step == 1)
    session.send(SetSpeed(0.0))
    fresh(session, until, lambda s: s.step > 50)
    assert session.status.speed == 0.0


def test_a_model_that_is_not_there(live, until):
    session = live(model="/no/such/model")
    until(lambda: session.status.phase is Phase.FAILED)
    assert "/no/such/model" in session.status.message and len(session.status.message.splitlines()) == 1
    assert session.snapshot() is None and session.text([1]) == ""


def test_a_broken_invariant_stops_the_session(live, until, monkeypatch):
    from kvtop.memory.block_pool import BlockPool

    right = BlockPool.release

    def wrong(self, blocks, sequence):
        right(self, blocks, sequence)
        self.shared_blocks += 1

    monkeypatch.setattr(BlockPool, "release", wrong)
    session = live("full-house-swap", paused=False, check=True)
    until(lambda: session.status.phase is Phase.FAILED)
    assert "I1" in session.status.message
