"""Sampling on the device against sampling in NumPy, for the same logits."""

from __future__ import annotations

import numpy as np
import torch

from gpu.session import Session
from kvtop.engine.hf import device_sampling, sampling
from kvtop.engine.hf.drawing import DrawingPlan
from kvtop.kernels.upload import upload

MAY_DIFFER = 0.005
"""Of the draws: the last bits of exp move a border between two tokens."""


def run(session: Session) -> None:
    rows, vocabulary, each = (64, 32000, 16) if session.cuda else (4, 500, 8)
    generator = np.random.default_rng(0)
    # Rounded to bfloat16: equal logits are common there, and their order is by id.
    rough = torch.from_numpy(generator.normal(0, 3, (rows, vocabulary)).astype(np.float32)).bfloat16()
    logits = rough.float()
    row = np.repeat(np.arange(rows), each)
    draws = sampling.Draws(
        rows=row,
        temperature=generator.uniform(0.2, 1.5, len(row)),
        top_k=generator.choice(np.array([0, 1, 40, vocabulary]), len(row)),
        top_p=generator.choice(np.array([0.1, 0.9, 1.0]), len(row)),
        uniforms=generator.random(len(row)),
    )
    every = np.arange(rows)
    plan = DrawingPlan(every, draws, every, 4)
    uploaded = upload(device_sampling.metadata(plan), session.device)
    drawn = device_sampling.draw(rough.to(session.device), plan, uploaded)
    numbers = logits.numpy()
    greedy = float((drawn.greedy != sampling.greedy(numbers)).mean())
    session.findings.check("device sampling: greedy", "bf16", greedy, 0.0, rows)
    differ = float((drawn.sampled != sampling.sample(numbers, draws)).mean())
    session.findings.check("device sampling: draws that differ", "bf16", differ, MAY_DIFFER, len(row))
    worst = 0.0
    for i, beams in enumerate(drawn.beams):
        expected = sampling.candidates(numbers[i], 4)
        if [token for token, _ in beams] != [token for token, _ in expected]:
            worst = float("inf")
        pairs = zip(beams, expected, strict=True)
        worst = max(worst, *(abs(got - wanted) for (_, got), (_, wanted) in pairs))
    session.findings.check("device sampling: beam candidates", "bf16", worst, 1e-4, rows)
