"""Which tokens a step draws: planned from the rows before the forward, put together after it."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import NamedTuple

import numpy as np

from kvtop.engine.hf.sampling import Draws, Float32, Int64, candidates, greedy, sample
from kvtop.engine.philox import uniforms
from kvtop.engine.runner import Row, Sampled

Candidates = tuple[tuple[int, float], ...]


class DrawingPlan(NamedTuple):
    """What to draw from the logits `[n, vocabulary]` of a step's answered rows, numbered 0 .. n - 1."""

    greedy: Int64
    """Rows that take their likeliest token."""
    draws: Draws
    """The tokens to sample, row by row and branch by branch; its arrays may be empty."""
    beams: Int64
    """Rows whose candidates are wanted."""
    candidates: int
    """How many the row that wants most of them wants; 0 without beams."""


class Drawn(NamedTuple):
    """What came of a plan, in its order."""

    greedy: Int64
    sampled: Int64
    beams: Seq[Candidates]
    """Token and log-probability, likeliest first."""


def plan_drawing(rows: Seq[Row]) -> DrawingPlan:
    """What to draw for rows that are answered. The random numbers depend on seed, branch and position, not on
    any logit, so they can go to the device before the forward. Changes nothing."""
    drawn = [
        (i, row, branch)
        for i, row in enumerate(rows)
        if row.request.temperature > 0.0
        for branch in range(row.branch, row.branch + row.samples)
    ]
    draws = Draws(
        rows=np.array([i for i, _, _ in drawn], np.int64),
        temperature=np.array([row.request.temperature for _, row, _ in drawn], np.float64),
        top_k=np.array([row.request.top_k for _, row, _ in drawn], np.int64),
        top_p=np.array([row.request.top_p for _, row, _ in drawn], np.float64),
        uniforms=uniforms(
            [row.request.seed for _, row, _ in drawn],
            [branch for _, _, branch in drawn],
            [row.start + len(row.token_ids) for _, row, _ in drawn],
        ),
    )
    best = [i for i, row in enumerate(rows) if row.samples and row.request.temperature <= 0.0]
    beams = [i for i, row in enumerate(rows) if row.candidates]
    most = max((row.candidates for row in rows), default=0)
    return DrawingPlan(np.array(best, np.int64), draws, np.array(beams, np.int64), most)


def draw(logits: Float32, rows: Seq[Row], plan: DrawingPlan) -> Drawn:
    """Carry out a plan on the CPU. Changes nothing."""
    best = greedy(logits if len(plan.greedy) == len(logits) else logits[plan.greedy])
    sampled = sample(logits, plan.draws) if len(plan.draws.rows) else plan.draws.rows
    beams = [candidates(logits[i], rows[i].candidates) for i in plan.beams]
    return Drawn(best, sampled, beams)


def answers(rows: Seq[Row], plan: DrawingPlan, drawn: Drawn) -> list[Sampled]:
    """One result for each answered row. Changes nothing."""
    tokens: list[list[int]] = [[] for _ in rows]
    for i, token in zip(plan.greedy.tolist(), drawn.greedy.tolist(), strict=True):
        tokens[i] = [token] * rows[i].samples
    for i, token in zip(plan.draws.rows.tolist(), drawn.sampled.tolist(), strict=True):
        tokens[i].append(token)
    beams: list[Candidates] = [()] * len(rows)
    for i, best in zip(plan.beams.tolist(), drawn.beams, strict=True):
        beams[i] = best[: rows[i].candidates]
    return [Sampled(tuple(drawn_), best) for drawn_, best in zip(tokens, beams, strict=True)]
