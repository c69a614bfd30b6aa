"""Sampling where the logits are: on a GPU only token ids come back, in one copy.

The same rules as `kvtop.engine.hf.sampling`, and for the same logits the same tokens but for the last bits of
exp: likeliest first, equal ones by id, by the inverse of the cumulative distribution.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from kvtop.engine.hf.drawing import DrawingPlan, Drawn
from kvtop.kernels.packed import Array


def metadata(plan: DrawingPlan) -> dict[str, Array]:
    """What `draw` reads from the device's memory: part of the step's one upload. Changes nothing."""
    rows, row_of = np.unique(plan.draws.rows, return_inverse=True)
    arrays: dict[str, Array] = {f"draws.{name}": column for name, column in plan.draws._asdict().items()}
    arrays |= {"draws.rows": rows, "draws.row_of": row_of}
    return {"drawing.greedy": plan.greedy, "drawing.beams": plan.beams, **arrays}


def draw(logits: torch.Tensor, plan: DrawingPlan, uploaded: Mapping[str, torch.Tensor]) -> Drawn:
    """Carry out a plan on logits `[n, vocabulary]` on their device. Waits for the results."""
    logits = logits.float()
    parts: list[torch.Tensor] = []
    if len(plan.greedy):
        rows = logits if len(plan.greedy) == len(logits) else logits[uploaded["drawing.greedy"]]
        parts.append(greedy(rows))
    if len(plan.draws.rows):
        parts.append(sample(logits, uploaded))
    if len(plan.beams):
        ids, scores = candidates(logits[uploaded["drawing.beams"]], plan.candidates)
        parts += [ids.flatten(), scores.flatten().view(torch.int64)]
    numbers = torch.cat(parts).cpu().numpy() if parts else np.empty(0, np.int64)
    best, sampled, rest = np.split(numbers, np.cumsum([len(plan.greedy), len(plan.draws.rows)]))
    ids_of, scores_of = rest.reshape(2, len(plan.beams), -1) if len(plan.beams) else (rest, rest)
    pairs = zip(ids_of.tolist(), scores_of.view(np.float64).tolist(), strict=True)
    beams = [tuple(zip(ids, scores, strict=True)) for ids, scores in pairs]
    return Drawn(best, sampled, beams)


def greedy(logits: torch.Tensor) -> torch.Tensor:
    """`[rows]` int64: the likeliest token of each row; of equal ones the smallest id, which argmax does not
    promise. A row without a largest value (NaN) gives the id of its first NaN, as NumPy's argmax does."""
    peak = logits.amax(dim=1, keepdim=True)
    ids = torch.arange(logits.shape[1], device=logits.device)
    best = (logits == peak) | (logits.isnan() & peak.isnan())
    return ids.where(best, logits.shape[1]).amin(dim=1)


def sample(logits: torch.Tensor, draws: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """`[draws]` int64: one token for each draw; `draws` is what `metadata` named, on the logits' device.

    Sorts every row that is drawn from, since what top-p keeps depends on all of it.
    """
    row_of = draws["draws.row_of"]
    values, order = logits[draws["draws.rows"]].sort(dim=1, descending=True, stable=True)
    temperature = draws["draws.temperature"].float()[:, None]
    weights = ((values - values[:, :1])[row_of] / temperature).exp()
    sums = weights.double().cumsum(dim=1)
    width = sums.shape[1]
    top_k, top_p = draws["draws.top_k"], draws["draws.top_p"]
    kept = torch.where(top_k > 0, top_k.clamp(max=width), width)
    mass = _at(sums, kept - 1)
    # The first token at which the sum reaches p is kept too.
    nucleus = (sums < (top_p * mass)[:, None]).sum(dim=1) + 1
    kept = torch.where(top_p < 1.0, torch.minimum(nucleus, kept), kept)
    mass = _at(sums, kept - 1)
    index = (sums <= (draws["draws.uniforms"] * mass)[:, None]).sum(dim=1)
    # Rounding may leave the last sum a hair below the mass.
    return order[row_of, torch.minimum(index, kept - 1)]


def candidates(logits: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids (int64) and log-probabilities (float64), `[rows, count]`: the likeliest of each row, equal
    ones by id; fewer where the vocabulary is smaller."""
    values, ids = logits.sort(dim=1, descending=True, stable=True)
    offsets = values - values[:, :1]
    logarithm = offsets.double().exp().sum(dim=1, keepdim=True).log()
    return ids[:, :count].contiguous(), (offsets.double() - logarithm)[:, :count].contiguous()


def _at(sums: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """One element of each row."""
    return sums.gather(1, places[:, None])[:, 0]
