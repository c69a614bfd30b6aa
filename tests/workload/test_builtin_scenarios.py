"""The scenarios that ship with the program: what they ask for, and what memory makes of it."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from kvtop.engine.engine import Engine
from kvtop.engine.null_runner import NullRunner
from kvtop.memory import events as ev
from kvtop.memory.cache_manager import CacheManager
from kvtop.memory.events import PreemptionMode
from kvtop.scheduling.config import SchedulerConfig
from kvtop.scheduling.scheduler import Scheduler
from kvtop.workload.scenario import Scenario, builtin_names, load_scenario
from kvtop.workload.scripted import ScenarioWorkload

POSITIONS = 2048
GUESTS = (180, 220, 260, 310, 400, 520, 1400, 1900)


def engine(scenario: Scenario, seed: int = 1, blocks: int | None = None) -> Engine:
    """An engine without a model, with the scenario's own settings."""
    runner, pool, limits = NullRunner(), scenario.pool, scenario.scheduler
    assert pool.blocks and pool.block_size and limits.max_sequences and limits.token_budget
    workload = ScenarioWorkload(
        scenario, encode=runner.encode, block_size=pool.block_size, max_positions=POSITIONS, seed=seed
    )
    config = SchedulerConfig(
        max_sequences=limits.max_sequences,
        token_budget=limits.token_budget,
        watermark=0.01 if limits.watermark is None else limits.watermark,
        preemption=PreemptionMode(pool.preemption or "recompute"),
        max_positions=POSITIONS,
        holding_requests=workload.holding_requests,
    )
    manager = CacheManager(blocks or pool.blocks, pool.block_size, host_blocks=pool.host_blocks or 0)
    return Engine(runner, manager, Scheduler(manager, config), workload, keep_outputs=True)


def finish(running: Engine, watch: Callable[[Engine], None] = lambda _: None) -> Engine:
    """Run to the end, which must come and leave every block free."""
    while not running.done:
        assert running.steps < 1000
        running.step()
        watch(running)
    assert running.manager.pool.used_blocks == 0
    return running


def ceil_blocks(tokens: int) -> int:
    return -(-tokens // 16)


def test_all_are_there():
    assert builtin_names() == (
        "beams",
        "eight-full-floors",
        "four-drafts",
        "full-house-recompute",
        "full-house-swap",
        "mixed",
        "one-floor-per-guest",
        "shared-preface",
        "timestamp-first",
        "too-big",
    )


@pytest.mark.parametrize("name", builtin_names())
def test_each_loads_under_its_own_name(name: str):
    scenario = load_scenario(name)
    assert (scenario.name, scenario.source) == (name, f"{name}.toml")
    assert 20 < len(scenario.caption) <= 130 and scenario.caption.isprintable()
    assert scenario.pool.block_size == 16
    assert scenario.endless == (name == "mixed")


def test_one_floor_per_guest_by_arithmetic():
    holds = tuple(spec.hold_at_stored for spec in load_scenario("one-floor-per-guest").requests)
    assert holds == GUESTS
    assert sum(GUESTS) == 5190
    assert sum(map(ceil_blocks, GUESTS)) == 328
    assert 328 * 16 == 5248


def test_one_floor_per_guest_all_hold_at_once():
    seen = set()

    def watch(running: Engine) -> None:
        stored = tuple(g.sequences[0].table.stored for g in running.scheduler.running)
        if stored == GUESTS:
            seen.add((running.manager.pool.used_blocks, running.scheduler.sequence_counts()))

    finish(engine(load_scenario("one-floor-per-guest")), watch)
    assert seen == {(328, (8, 0, 0))}


def test_eight_full_floors_fill_the_house():
    scenario = load_scenario("eight-full-floors")
    assert all((spec.prompt_tokens or 0) + spec.max_new_tokens == POSITIONS for spec in scenario.requests)
    done = finish(engine(scenario))
    assert done.peak_blocks_used == 1024 == 8 * ceil_blocks(2046)
    assert done.scheduler.counts["recompute"] == 0


def test_four_drafts():
    (spec,) = load_scenario("four-drafts").requests
    stored = (spec.prompt_tokens or 0) + spec.max_new_tokens - 1
    assert (spec.prompt_tokens, spec.n, spec.max_new_tokens, stored) == (1000, 4, 200, 1199)
    assert 1000 // 16 + 4 * (ceil_blocks(stored) - 1000 // 16) == 114
    assert 4 * ceil_blocks(stored) == 300
    done = finish(engine(load_scenario("four-drafts")))
    assert (done.peak_blocks_used, done.manager.cow_copies) == (114, 3)


def test_shared_preface_is_found_by_all_but_the_first():
    done = finish(engine(load_scenario("shared-preface")))
    assert done.manager.prefix_hits == 7 * 512


def test_timestamp_first_shares_nothing_and_then_everything():
    hits = {}
    done = finish(
        engine(load_scenario("timestamp-first")),
        lambda running: hits.update({running.steps: running.manager.prefix_hits}),
    )
    assert hits[140] == 0
    preface = len(load_scenario("timestamp-first").requests[-1].shared_prefix or "")  # type: ignore[arg-type]
    assert done.manager.prefix_hits >= 4 * (preface // 16) * 16


def test_timestamp_first_asks_the_same_in_both_halves():
    requests = load_scenario("timestamp-first").requests
    for before, after in zip(requests[:5], requests[5:], strict=True):
        when, _, question = (after.prompt or "").partition("\n")
        assert before.prompt == f"{when}\n{after.shared_prefix}{question}"


def test_beams_copy_on_write_and_give_everything_back():
    done = finish(engine(load_scenario("beams")))
    assert done.manager.cow_copies > 0 and done.scheduler.counts["finished"] == 2


@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_full_house_preempts_and_changes_no_token(mode: str):
    scenario = load_scenario(f"full-house-{mode}")
    crowded, roomy = finish(engine(scenario)), finish(engine(scenario, blocks=1000))
    assert crowded.scheduler.counts[mode] >= 3
    assert roomy.scheduler.counts["swap"] == roomy.scheduler.counts["recompute"] == 0
    assert roomy.peak_blocks_used == 101
    assert crowded.outputs == roomy.outputs
    assert len(crowded.outputs) == 13


def test_full_houses_ask_for_the_same():
    swap, recompute = (load_scenario(f"full-house-{mode}") for mode in ("swap", "recompute"))
    assert swap.requests == recompute.requests
    assert (swap.pool.preemption, recompute.pool.preemption) == ("swap", "recompute")


def test_too_big():
    running = engine(load_scenario("too-big"))
    facts: list[ev.Event] = []
    running.bus.subscribe(facts.append)
    finish(running)
    assert [fact.request for fact in facts if isinstance(fact, ev.Rejected)] == [2]
    assert running.scheduler.counts["finished"] == 4
    outgrown = len(running.outputs["1"])
    assert outgrown < 300 and 200 + outgrown - 1 <= 24 * 16
    assert [len(running.outputs[name]) for name in ("3", "4", "5")] == [30, 40, 60]


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_mixed_fills_the_pool_and_preempts_within_200_steps(seed: int):
    running = engine(load_scenario("mixed"), seed)
    used = []
    for _ in range(200):
        running.step()
        used.append(running.manager.pool.used_blocks / 512)
    assert running.scheduler.counts["swap"] > 0
    assert max(used[:100]) > 0.85
    assert sum(share > 0.85 for share in used[100:]) > 75


@pytest.mark.long
def test_mixed_stays_full_and_its_queue_short_for_20_000_steps():
    running = engine(load_scenario("mixed"))
    full = 0
    for _ in range(20_000):
        running.step()
        full += running.manager.pool.used_blocks > 0.85 * 512
        assert len(running.scheduler.groups) <= 26
    assert full > 0.9 * 20_000
    assert running.scheduler.counts["swap"] > 200 and running.scheduler.counts["recompute"] > 10


def test_scenarios_are_values():
    scenario = load_scenario("mixed")
    assert scenario == load_scenario("mixed")
    assert copy.deepcopy(scenario) == scenario
    with pytest.raises(AttributeError):
        scenario.name = "x"  # type: ignore[misc]
