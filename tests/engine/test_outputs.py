"""The step loop with scripted tokens: what comes out does not depend on how the memory was cut."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from kvtop.engine.engine import Engine
from kvtop.engine.null_runner import NullRunner
from kvtop.engine.runner import Row, StepPlan
from kvtop.memory import events as ev
from kvtop.memory.cache_manager import CacheManager
from kvtop.memory.events import EventBus, PreemptionMode
from kvtop.scheduling.config import SchedulerConfig
from kvtop.scheduling.scheduler import Scheduler
from kvtop.workload.scenario import load_scenario
from kvtop.workload.scripted import ScenarioWorkload

BOTH = list(PreemptionMode)


def a_dozen(make):
    """Twelve requests with a common beginning, some with samples or beams."""
    preface = list(range(10))
    shapes = [{}, {"n": 3}, {}, {"beam_width": 3}]
    return [
        (1 + i // 2, make(1 + i, [*preface, 50 + i, 60 + i, *range(i % 3)], 7 + i % 5, **shapes[i % 4]))
        for i in range(12)
    ]


@pytest.fixture
def expected(bench, make):
    return bench(a_dozen(make), 999, max_sequences=99).run()


@pytest.mark.parametrize("blocks", [24, 30, 45, 80])
@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("caching", [True, False])
def test_pool_preemption_and_caching_change_nothing(bench, make, expected, blocks, mode, caching):
    it = bench(
        a_dozen(make), blocks, host_blocks=40, preemption=mode, prefix_caching=caching, max_sequences=9
    )
    assert it.run() == expected
    if blocks == 24:
        assert it.scheduler.counts[mode.value] > 0
    assert (it.manager.prefix_hits > 0) == caching


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 16])
@pytest.mark.parametrize("mode", BOTH)
def test_the_block_size_changes_nothing(bench, make, expected, size, mode):
    alone = max(
        max(r.n, r.beam_width) * -(-(len(r.prompt_token_ids) + r.max_new_tokens) // size)
        for _, r in a_dozen(make)
    )
    it = bench(a_dozen(make), alone, size, host_blocks=30, preemption=mode, max_sequences=9)
    assert it.run() == expected
    assert it.scheduler.counts["recompute"] + it.scheduler.counts["swap"] > 0


@pytest.mark.parametrize(("budget", "seats"), [(4, 4), (5, 4), (13, 9), (1_000, 9)])
def test_the_token_budget_changes_nothing(bench, make, expected, budget, seats):
    assert bench(a_dozen(make), 40, token_budget=budget, max_sequences=seats).run() == expected


@pytest.mark.parametrize("victim", ["newest", "oldest"])
def test_the_victim_changes_nothing(bench, make, expected, victim):
    it = bench(a_dozen(make), 24, victim=victim, max_sequences=9)
    assert it.run() == expected and it.scheduler.counts["recompute"] > 0


def test_a_constant_hash_function_changes_nothing(bench, make, expected):
    it = bench(a_dozen(make), 24, hash_function=lambda parent, content: 3, max_sequences=9)
    assert it.run() == expected and it.manager.prefix_hits > 0


def test_a_pool_of_one_block(bench, make):
    it = bench([(1, make(1, [1, 2], 9)), (1, make(2, [3], 9, n=2)), (2, make(3, [1, 2, 3, 4], 2))], 1, 4)
    outputs = it.run()
    assert {name: len(tokens) for name, tokens in outputs.items()} == {"1": 3, "2.1": 4, "2.2": 1}
    assert it.scheduler.counts["rejected"] == 1


def test_aborts_at_their_steps(bench, make):
    requests = [
        (1, make(1, range(9), 20, abort_at_step=4)),
        (1, make(2, range(9), 4, abort_at_step=90)),
        (3, make(3, range(20, 29), 20, abort_at_step=1)),
    ]
    it = bench(requests)
    outputs = it.run()
    assert set(outputs) == {"2"} and it.scheduler.counts["aborted"] == 2
    assert it.engine.requests == 3 and it.engine.done


def test_a_request_added_between_steps_is_aborted_even_when_its_step_is_over(bench, make):
    it = bench([(1, make(1, range(9), 3))])
    for _ in range(3):
        it.step()
    it.engine.add(make(2, range(5), 50, abort_at_step=2))
    it.engine.add(make(3, range(5), 50, abort_at_step=6))
    it.run(limit=20)
    assert it.scheduler.counts["aborted"] == 2 and it.engine.steps <= 6


class Silent(EventBus):
    """A bus that counts the events that are built."""

    def __init__(self):
        super().__init__()
        self.built = 0

    def emit(self, kind, *fields):
        self.built += 1
        super().emit(kind, *fields)


def engine_of(name, *, bus=None, **options):
    scenario = load_scenario(name)
    runner = NullRunner()
    pool, settings = scenario.pool, scenario.scheduler
    manager = CacheManager(
        options.pop("blocks", pool.blocks), pool.block_size or 16, host_blocks=pool.host_blocks or 0, bus=bus
    )
    workload = ScenarioWorkload(scenario, encode=runner.encode, block_size=manager.block_size)
    config = SchedulerConfig(
        max_sequences=settings.max_sequences or 16,
        token_budget=settings.token_budget or 256,
        preemption=PreemptionMode(pool.preemption or "recompute"),
        holding_requests=workload.holding_requests,
    )
    return Engine(runner, manager, Scheduler(manager, config), workload, keep_outputs=True)


@pytest.mark.parametrize("name", ["four-drafts", "beams", "full-house-swap"])
def test_without_a_listener_no_event_is_built(name):
    engine = engine_of(name, bus=Silent())
    while not engine.done:
        engine.step()
    assert engine.bus.built == 0 and engine.outputs
    heard = []
    loud = engine_of(name, bus=Silent())
    loud.bus.subscribe(heard.append)
    loud.step()
    assert loud.bus.built == len(heard) > 0


def test_events_are_built_by_the_bus_alone():
    """What the test above counts is all there is: nobody else calls an event's class."""
    kinds = "|".join(kind.__name__ for kind in ev.AnyEvent.__args__)
    root = Path(ev.__file__).parents[1]
    for folder in ("memory", "scheduling", "engine"):
        for path in root.joinpath(folder).rglob("*.py"):
            calls = re.findall(rf"(?<!class )\b(?:ev\.)?(?:{kinds})\(", path.read_text())
            assert not calls, f"{path.name} builds {calls}"


def test_a_million_blocks():
    engine = engine_of("mixed", blocks=1_000_000)
    for _ in range(60):
        engine.step()
    pool = engine.manager.pool
    assert pool.num_blocks == 1_000_000 and 0 < pool.used_blocks < 20_000
    assert pool.used_blocks + pool.available_blocks == 1_000_000
    # NumPy views the columns without a copy.
    view = np.frombuffer(pool.ref_counts, dtype=np.int32)
    assert view.shape == (1_000_000,) and int((view > 0).sum()) == pool.used_blocks


def test_one_floor_per_guest_holds_eight_at_once():
    engine = engine_of("one-floor-per-guest")
    pictures = []
    while not engine.done:
        engine.step()
        pool = engine.manager.pool
        if all(group.holding for group in engine.scheduler.running) and len(engine.scheduler.running) == 8:
            slots = pool.used_blocks * pool.block_size
            stored = engine.manager.stored_tokens()
            pictures.append((pool.used_blocks, stored, slots - stored))
    # After a step in which all hold, until they are let go.
    assert set(pictures) == {(328, 5_190, 58)} and len(pictures) >= 2
    assert [len(engine.outputs[str(number)]) for number in range(1, 9)] == [64] * 8


def test_four_drafts_share_the_prompt():
    engine = engine_of("four-drafts")
    while not engine.done:
        engine.step()
    assert engine.peak_blocks_used == 62 + 4 * 13 == 114
    assert engine.manager.cow_copies == 3
    assert [len(tokens) for tokens in engine.outputs.values()] == [200] * 4
    assert len({tuple(tokens) for tokens in engine.outputs.values()}) == 4
    assert engine.manager.pool.used_blocks == 0


@pytest.mark.parametrize("name", ["full-house-swap", "full-house-recompute"])
def test_full_houses_give_what_an_endless_pool_gives(name):
    calm, full = engine_of(name, blocks=9_999), engine_of(name)
    for engine in (calm, full):
        while not engine.done:
            engine.step()
    assert full.outputs == calm.outputs
    counts = full.scheduler.counts
    assert counts["swap" if name.endswith("swap") else "recompute"] > 0
    assert full.manager.pool.used_blocks == full.manager.host_pool.used_blocks == 0


def test_the_same_seed_gives_the_same_events():
    runs = []
    for _ in range(2):
        engine, heard = engine_of("mixed"), []
        engine.bus.subscribe(heard.append)
        for _ in range(50):
            engine.step()
        runs.append([event for event in heard if not isinstance(event, ev.StepEnded)])
    assert runs[0] == runs[1] and len(runs[0]) > 500


def test_scripted_tokens_hang_on_seed_branch_and_position_alone(make):
    def row(request, branch, start, tokens, **fields):
        draws = {"samples": 1, "candidates": 0} | fields
        return Row(request.id << 16 | branch, request, branch, tokens, start, [0], **draws)

    one, other = make(1, [1], seed=-5), make(2, [1], seed=2**63)
    rows = [
        row(one, 1, 3, [7, 8]),
        row(other, 2, 4, [9]),
        row(one, 1, 0, [1], samples=3),
        row(one, 2, 4, [1]),
    ]
    runner = NullRunner()
    together = runner.run(StepPlan(rows=rows))
    assert [runner.run(StepPlan(rows=[each]))[0] for each in rows] == together
    assert together == [together[0], *together[1:]] and len(together[2].token_ids) == 3
    # The same position reached in one chunk or in several.
    assert runner.run(StepPlan(rows=[row(one, 1, 4, [8])]))[0] == together[0]
    tokens = list(itertools.chain.from_iterable(result.token_ids for result in together))
    assert all(97 <= token <= 122 for token in tokens)
