"""Why a group is not admitted: pure questions, answered in words."""

from __future__ import annotations

from kvtop.memory.block_pool import BlockPool
from kvtop.memory.cache_manager import CacheManager
from kvtop.memory.sizing import blocks_for_tokens
from kvtop.scheduling.config import SchedulerConfig
from kvtop.scheduling.sequence import GroupState, SequenceGroup
from kvtop.workload.request import Request


def obstacle(
    group: SequenceGroup,
    manager: CacheManager,
    config: SchedulerConfig,
    seats_taken: int,
    tokens_scheduled: int,
    *,
    alone: bool,
) -> str:
    """Why a group cannot be admitted or resumed in this step; empty when it can. Changes nothing.

    Unless it would be `alone` on the device, some blocks are kept back: the watermark, so that the running
    can grow, or for a swapped group one block a sequence, since its next token may start one.
    """
    if seats_taken + group.seats > config.max_sequences:
        return f"max sequences ({config.max_sequences}) reached"
    if tokens_scheduled + len(group.sequences) > config.token_budget:
        return f"token budget ({config.token_budget}) spent"
    if group.state is GroupState.SWAPPED:
        needed = manager.swap_in_cost(group.tables)
        reserve = len(group.sequences)
    else:
        needed = manager.plan_admission(group.tables).blocks_needed
        reserve = int(config.watermark * manager.pool.num_blocks)
    kept = 0 if alone else reserve
    available = manager.pool.available_blocks
    if needed + kept > available:
        held_back = f", {kept} kept back" if kept else ""
        return f"needs {needed} blocks, {available} available{held_back}"
    return ""


def obstacle_for_ever(request: Request, config: SchedulerConfig, pool: BlockPool) -> str:
    """Why a request can never be served; empty when it can. Changes nothing."""
    prompt, seats, limit = (
        len(request.prompt_token_ids),
        max(request.n, request.beam_width),
        config.max_positions,
    )
    needed = blocks_for_tokens(prompt + 1, pool.block_size)
    if not prompt:
        return "the prompt is empty"
    if seats > config.max_sequences:
        return f"{seats} sequences exceed max sequences ({config.max_sequences})"
    if limit is not None and prompt >= limit:
        return f"a prompt of {prompt:,} tokens leaves no room in the model's {limit:,} positions"
    if needed > pool.num_blocks:
        return f"{prompt:,} prompt tokens and one more need {needed:,} blocks of {pool.num_blocks:,}"
    return ""
