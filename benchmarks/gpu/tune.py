"""Other configurations of the decode kernel than the shipped one, at the shape that the budget is about.

What ships was chosen by what the compiler says of registers and shared memory. Here the clock decides: tile,
warps and stages first, then, with the best of them, how far the context is split. A better entry belongs into
`kernels/gpu/configs.py`, once the compile tests hold with it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch

from gpu.decode import BLOCK_SIZE, BUDGET_SHAPE, TINY, Store, make_store, paged_calls
from gpu.session import Session, say
from gpu.timing import seconds_per_call
from kvtop.kernels.gpu.configs import AttentionConfig, decode_config
from kvtop.kernels.gpu.decode_plan import DecodePlan
from kvtop.kernels.gpu.paged_decode import BACKEND

# Tile, warps, stages.
CANDIDATES = (
    (32, 2, 5),
    (32, 4, 5),
    (32, 4, 7),
    (64, 2, 5),
    (64, 4, 3),
    (64, 4, 4),
    (64, 4, 7),
    (64, 8, 5),
    (128, 4, 4),
    (128, 8, 5),
)
SPLITS = (1, 2, 3, 4, 8, 12)
NOISE = 0.03
"""A difference that may be the clock's."""


def run(session: Session) -> None:
    batch, tokens = BUDGET_SHAPE if session.cuda else TINY[0]
    store = make_store(session)
    shipped = decode_config(store.dim, store.group, store.keys.itemsize, BACKEND)
    query = torch.randn(batch, store.kv_heads * store.group, store.dim, device=session.device)
    query = query.to(store.keys.dtype)
    cases: list[dict[str, Any]] = []
    session.figures["cases"] = cases
    plan = _measure(session, store, query, tokens, shipped, None, cases)
    for tile, warps, stages in CANDIDATES if session.cuda else CANDIDATES[:1]:
        other = dataclasses.replace(shipped, tile=tile, warps=warps, stages=stages)
        if session.clock.left and other != shipped:
            _measure(session, store, query, tokens, other, None, cases)
    best = min(cases, key=lambda case: case.get("us", 0.0))
    fastest = dataclasses.replace(shipped, tile=best["tile"], warps=best["warps"], stages=best["stages"])
    for splits in SPLITS if session.cuda else SPLITS[1:2]:
        span = math.ceil(tokens / splits / fastest.tile) * fastest.tile
        other_plan = DecodePlan(-(-tokens // span), span)
        if session.clock.left and other_plan != plan:
            _measure(session, store, query, tokens, fastest, other_plan, cases)
    _conclude(session, cases)


def _measure(
    session: Session,
    store: Store,
    query: torch.Tensor,
    tokens: int,
    config: AttentionConfig,
    plan: DecodePlan | None,
    cases: list[dict[str, Any]],
) -> DecodePlan | None:
    """One configuration; one that does not fit the chip is noted as such. Returns the plan."""
    found: dict[str, Any] = {"tile": config.tile, "warps": config.warps, "stages": config.stages}
    try:
        calls, _, plan = paged_calls(session, store, query, tokens, BLOCK_SIZE, config=config, plan=plan)
        seconds = seconds_per_call(calls, session.device)
    except Exception as error:  # too much shared memory, above all; Triton's kinds differ by version
        if type(error).__name__ != "OutOfResources":
            raise
        say(f"decode, tile {config.tile}, {config.warps} warps, {config.stages} stages", "does not fit")
        return plan
    found["splits"] = plan.splits
    if seconds is not None:
        found["us"] = seconds * 1e6
        what = (
            f"decode, tile {config.tile}, {config.warps} warps, {config.stages} stages, {plan.splits} splits"
        )
        say(what, f"{seconds * 1e6:.1f} us", "" if cases else "shipped")
    cases.append(found)
    return plan


def _conclude(session: Session, cases: list[dict[str, Any]]) -> None:
    """The best beside the shipped one, which was measured first."""
    timed = [case for case in cases if "us" in case]
    if not timed:
        return
    best = min(timed, key=lambda case: case["us"])
    ratio = timed[0]["us"] / best["us"]
    session.figures["shipped_over_best"] = ratio
    session.figures["best"] = best
    session.budget(
        f"shipped decode configuration over the best of {len(timed)}", ratio, 1 + NOISE, ratio <= 1 + NOISE
    )
