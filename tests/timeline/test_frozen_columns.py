"""Columns that are patched from snapshot to snapshot equal those made anew, and never change once out."""

from __future__ import annotations

import gc
import random
from dataclasses import fields

import numpy as np
import pytest

from kvtop.assembly import assemble
from kvtop.memory.errors import AllocatorError
from kvtop.memory.events import PreemptionMode
from kvtop.options import RunOptions
from kvtop.scheduling.queues import SchedulerError
from kvtop.session.run import source_of
from kvtop.timeline import tables
from kvtop.timeline.observer import Observer
from kvtop.timeline.snapshot import BlockColumns, BlockState
from kvtop.workload.scenario import load_scenario, parse_scenario

COLUMNS = [field.name for field in fields(BlockColumns)]
BRANCHING = """
[arrivals]
rate_per_step = 0.5
max_unfinished = 14
prompt_tokens = { min = 8, mean = 40, max = 120 }
new_tokens = { mean = 25, max = 60 }
shared_prefix = 24
shared_share = 0.7
n = { share = 0.3, max = 4 }
beam_width = { share = 0.2, max = 4 }
"""


def anew(pool, rows, *, host):
    """A pool's columns from the fold alone, with nothing remembered."""
    references, hashes = np.array(pool.ref_counts), np.array(pool.hashes)
    owner = np.full(pool.num_blocks, -1)
    for index, row in reversed(list(enumerate(rows))):
        if row.on_host == host:
            owner[row.table] = index
    state = np.where(hashes != 0, BlockState.CACHED, BlockState.FREE)
    state = np.where(references > 0, np.where(references > 1, BlockState.SHARED, BlockState.USED), state)
    made = (state, references, owner, pool.fills, hashes != 0, pool.touched)
    return BlockColumns(*map(np.array, made))


def assert_right(observer, snapshot):
    """The snapshot says of blocks, rows and totals what the fold says."""
    state, rows, c = observer.state, snapshot.sequences, snapshot.counters
    for row in rows:
        sequence = state.sequence(row.id)
        assert row.table.tolist() == list(sequence.table)
        pool = state.host if sequence.on_host else state.device
        assert row.shared_blocks == np.count_nonzero(np.array(pool.ref_counts)[row.table] > 1)
    for pool, columns in ((state.device, snapshot.blocks), (state.host, snapshot.host)):
        expected = anew(pool, rows, host=pool is state.host)
        for name in COLUMNS:
            assert np.array_equal(getattr(columns, name), getattr(expected, name)), name
    counts = np.bincount(snapshot.blocks.state, minlength=4)
    assert [
        c.free_blocks,
        c.cached_blocks,
        c.used_blocks - c.shared_blocks,
        c.shared_blocks,
    ] == counts.tolist()
    assert c.stored_tokens == int(snapshot.blocks.fill[snapshot.blocks.state >= BlockState.USED].sum())
    assert c.host_used_blocks == np.count_nonzero(snapshot.host.ref_count)


def copied(snapshot):
    return {name: getattr(snapshot.blocks, name).copy() for name in COLUMNS}


@pytest.fixture(params=[0, tables.SMALL], ids=["patched", "anew"])
def ways(request, monkeypatch):
    """Both ways of bringing tables up to now, in pools of every size."""
    monkeypatch.setattr(tables, "SMALL", request.param)


def run_of(scenario, blocks, seed):
    run = assemble(RunOptions(model="none", blocks=blocks, host_blocks=40, block_size=4, seed=seed), scenario)
    observer = Observer(blocks, 4, 40)
    run.bus.subscribe(observer.hear)
    return run, observer


def meddle(run, chance):
    """Something that a person might ask for."""
    live = [sequence.id for group in run.scheduler.running for sequence in group.sequences]
    if not live:
        return
    sequence = chance.choice(live)
    try:
        match chance.randrange(5):
            case 0:
                run.scheduler.fork(sequence)
            case 1:
                run.scheduler.preempt(sequence >> 16, chance.choice(list(PreemptionMode)))
            case 2:
                run.scheduler.abort(sequence >> 16)
    except (SchedulerError, AllocatorError):
        pass


@pytest.mark.parametrize("seed", range(3))
def test_every_snapshot_says_what_the_fold_says(ways, seed):
    run, observer = run_of(parse_scenario(BRANCHING, "branching.toml"), 160, seed)
    chance, source, kept = random.Random(seed), source_of(run), []
    for _ in range(100):
        for _ in range(chance.choice((0, 1, 1, 2, 12))):
            run.step()
        meddle(run, chance)
        snapshot = observer.snapshot(source)
        assert_right(observer, snapshot)
        if chance.random() < 0.2:
            kept.append((snapshot, copied(snapshot)))
        if chance.random() < 0.1:
            kept.clear()
    assert run.scheduler.counts["swap"] and run.scheduler.counts["recompute"]
    assert observer.state.totals.cow_copies and observer.state.totals.evictions


def test_between_the_events_of_a_step_too(ways, events):
    observer = Observer(14, 4, 6)
    source = source_of(run_of(load_scenario("mixed"), 64, 0)[0])
    for event in events:
        observer.hear(event)
        assert_right(observer, observer.snapshot(source))


def test_what_is_out_never_changes(ways):
    run, observer = run_of(parse_scenario(BRANCHING, "branching.toml"), 160, 9)
    source, kept = source_of(run), []
    for step in range(60):
        run.step()
        snapshot = observer.snapshot(source)
        if step % 3 == 0:
            # A part of one array is enough to keep the whole picture as it is.
            name = COLUMNS[step // 3 % len(COLUMNS)]
            part = getattr(snapshot.blocks, name)[10:90][::2]
            kept.append((part, part.copy()))
        if step % 5 == 0:
            kept += [(row.table, row.table.copy()) for row in snapshot.sequences]
        with pytest.raises(ValueError, match="read-only"):
            snapshot.blocks.owner[0] = 3
        del snapshot
    for array, before in kept:
        assert np.array_equal(array, before)


def addresses(observer, source, times):
    """Where the columns of so many snapshots lie, none of which is kept beyond the next."""
    found = set()
    for _ in range(times):
        snapshot = observer.snapshot(source)
        found.add(snapshot.blocks.state.ctypes.data)
    return found


def test_memory_that_nobody_looks_at_is_used_again(ways):
    run, observer = run_of(load_scenario("mixed"), 200_000, 0)
    source = source_of(run)
    assert len(addresses(observer, source, 12)) <= 3
    held = observer.snapshot(source)
    assert held.blocks.state.ctypes.data not in addresses(observer, source, 12)
    gc.collect()


def test_only_what_changed_is_written(monkeypatch):
    """A buffer that comes back gets the blocks that changed, not the pool."""
    from kvtop.timeline.columns import PoolColumns

    run, observer = run_of(load_scenario("mixed"), 100_000, 0)
    source, written = source_of(run), []
    for _ in range(40):
        run.step()
        observer.snapshot(source)
    patch, fill = PoolColumns._write, PoolColumns._write_all

    def patching(self, columns, place):
        written.append(len(place))
        patch(self, columns, place)

    def filling(self, columns):
        written.append(len(columns.state))
        fill(self, columns)

    monkeypatch.setattr(PoolColumns, "_write", patching)
    monkeypatch.setattr(PoolColumns, "_write_all", filling)
    for _ in range(40):
        run.step()
        observer.snapshot(source)
    assert len(written) == 80 and 40 < max(written) < 2_000
