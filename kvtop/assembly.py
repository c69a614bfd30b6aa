"""Puts a run together: options, scenario and model become an engine over a memory.

A value comes from the command line, else from the scenario, else from a default. Light to import; the
model, and torch with it, is loaded by `assemble`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import psutil

from kvtop.engine.engine import Engine
from kvtop.engine.null_runner import NullRunner
from kvtop.engine.runner import Runner
from kvtop.memory.cache_manager import CacheManager
from kvtop.memory.events import EventBus, PreemptionMode
from kvtop.options import RunOptions, UsageError
from kvtop.scheduling.config import SchedulerConfig
from kvtop.scheduling.scheduler import Scheduler
from kvtop.session.run import Run
from kvtop.timeline.checking import Checker
from kvtop.workload.scenario import Scenario
from kvtop.workload.scripted import ScenarioWorkload

DEFAULT_BLOCKS = 512
"""Blocks on a CPU when nobody says: a demo fills them within seconds."""
DEFAULT_HOST_BLOCKS = 128
DEFAULT_UTILIZATION = 0.9
"""Share of a GPU's memory to use when nobody says, weights included (vLLM's default)."""
COLUMN_BYTES_PER_BLOCK = 32
"""What the memory core itself keeps for a block: its columns and the free queue's links."""

T = TypeVar("T")
Progress = Callable[[str, float | None], None]


def assemble(
    options: RunOptions,
    scenario: Scenario,
    progress: Progress | None = None,
    *,
    runner: Runner | None = None,
) -> Run:
    """Load the model, size and make the pools, and build the engine. Slow with a model: seconds.

    A `runner` that is given is used as it is instead of a model: it has no tensors to size or allocate.

    Raises UsageError for options that cannot work with this model or machine; ModelError and ScenarioError
    pass through.
    """
    if options.preemption == PreemptionMode.SWAP.value and options.host_blocks == 0:
        raise UsageError("--preemption swap needs host blocks to swap to: give --host-blocks above 0")
    block_size = _first(options.block_size, scenario.pool.block_size, 16)
    host_blocks = _first(options.host_blocks, scenario.pool.host_blocks, DEFAULT_HOST_BLOCKS)
    if runner is not None or options.model == "none":
        runner = runner or NullRunner()
        blocks = _first(options.blocks, scenario.pool.blocks, DEFAULT_BLOCKS)
        _check_columns(blocks, host_blocks)
    else:
        runner, blocks = _load_model(options, scenario, block_size, host_blocks, progress or _silent)
    workload = ScenarioWorkload(
        scenario,
        encode=runner.encode,
        block_size=block_size,
        max_positions=runner.info.max_positions,
        seed=options.seed,
    )
    bus = EventBus()
    manager = CacheManager(
        blocks, block_size, host_blocks=host_blocks, prefix_caching=options.prefix_caching, bus=bus
    )
    config = _scheduler_config(options, scenario, runner, workload.holding_requests)
    scheduler = Scheduler(manager, config, eos_token_ids=runner.eos_token_ids)
    engine = Engine(runner, manager, scheduler, workload, keep_outputs=options.keep_outputs)
    checker = Checker(manager, scheduler) if options.check else None
    if checker is not None:
        bus.subscribe(checker.hear)
    return Run(scenario, options.seed, runner, manager, scheduler, workload, engine, checker)


def _load_model(
    options: RunOptions, scenario: Scenario, block_size: int, host_blocks: int, progress: Progress
) -> tuple[Runner, int]:
    """A runner with its K/V tensors, and the size of its pool: memory is measured after the weights."""
    from kvtop.engine.hf import load_runner

    runner = load_runner(
        options.model,
        device=options.device,
        dtype=options.dtype,
        kernels=options.kernels,
        progress=progress,
    )
    per_block = runner.bytes_per_block(block_size)
    available = runner.available_bytes()
    blocks = options.blocks
    if blocks is None:
        budget = options.kv_memory
        if options.memory_utilization is not None:
            budget = int(available * options.memory_utilization)
        elif budget is None and scenario.pool.blocks is None and runner.info.device != "cpu":
            budget = int(available * DEFAULT_UTILIZATION)
        try:
            blocks = runner.blocks_for(budget, block_size) if budget is not None else None
        except ValueError as error:
            raise UsageError(f"{error}: give the pool more memory") from error
    blocks = _first(blocks, scenario.pool.blocks, DEFAULT_BLOCKS)
    needed = blocks * per_block
    if needed > available:
        raise UsageError(
            f"{blocks:,} blocks of {per_block:,} bytes need {needed / 2**30:,.1f} GiB; "
            f"{available / 2**30:,.1f} GiB are available: give fewer --blocks"
        )
    _check_columns(
        blocks, host_blocks, host_blocks * per_block + (needed if runner.info.device == "cpu" else 0)
    )
    progress("allocating the K/V pool", None)
    runner.allocate(blocks, block_size, host_blocks)
    progress("compiling the attention kernel", None)
    runner.warm_up()
    return runner, blocks


def _check_columns(blocks: int, host_blocks: int, tensors: int = 0) -> None:
    """Refuse pools that this machine's own memory cannot hold, instead of dying half-way."""
    needed = tensors + (blocks + host_blocks) * COLUMN_BYTES_PER_BLOCK
    available = psutil.virtual_memory().available
    if needed > available:
        raise UsageError(
            f"{blocks:,} blocks and {host_blocks:,} host blocks need {needed / 2**30:,.1f} GiB of RAM; "
            f"{available / 2**30:,.1f} GiB are available: give fewer"
        )


def _scheduler_config(
    options: RunOptions, scenario: Scenario, runner: Runner, holding_requests: int
) -> SchedulerConfig:
    settings = scenario.scheduler
    max_sequences = _first(options.max_sequences, settings.max_sequences, 16)
    preemption = _first(options.preemption, scenario.pool.preemption, PreemptionMode.RECOMPUTE.value)
    try:
        return SchedulerConfig(
            max_sequences=max_sequences,
            token_budget=_first(options.token_budget, settings.token_budget, max(256, max_sequences)),
            watermark=_first(options.watermark, settings.watermark, 0.01),
            preemption=PreemptionMode(preemption),
            victim=_first(options.victim, settings.victim, "newest"),
            max_positions=runner.info.max_positions,
            holding_requests=holding_requests,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def _first(*values: T | None) -> T:
    """The first value that is given."""
    return next(value for value in values if value is not None)


def _silent(message: str, fraction: float | None) -> None:
    """Progress that nobody watches."""
