"""From logits to tokens: greedy, temperature, top-k and top-p, and the candidates of a beam.

Every draw is by the inverse of the cumulative distribution over the kept tokens, likeliest first and equal
ones by id, at a number that depends on seed, branch and position alone: the same logits give the same token
whatever else is in the step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

_HEADS = (64, 1024)
"""How many of the likeliest tokens are sorted at first, and for draws that fall beyond them; a draw that
falls beyond these too sorts the whole row."""


class Draws(NamedTuple):
    """What to sample, one entry for each token to draw: arrays of one length."""

    rows: Int64
    """The row of the logits."""
    temperature: Float64
    """Above 0."""
    top_k: Int64
    """0 keeps all."""
    top_p: Float64
    """1 keeps all."""
    uniforms: Float64
    """In [0, 1)."""


def greedy(logits: Float32) -> Int64:
    """The likeliest token of each row of `[rows, vocabulary]`; of equal ones the smallest id."""
    return logits.argmax(axis=1)  # NumPy promises the first of equal values.


def sample(logits: Float32, draws: Draws) -> Int64:
    """One token id for each draw, from logits `[rows, vocabulary]`. Changes nothing.

    top-k keeps the k likeliest tokens; top-p then keeps the fewest of those, likeliest first, whose
    probabilities among them add up to at least p (Holtzman et al. 2020).
    """
    chosen = np.empty(len(draws.rows), np.int64)
    pending = np.arange(len(draws.rows))
    for head in _HEADS:
        if len(pending) and logits.shape[1] > 4 * head:
            some = Draws._make(column[pending] for column in draws)
            chosen[pending], settled = _sample_head(logits, some, head)
            pending = pending[~settled]
    for i in pending:
        row = logits[draws.rows[i]]
        order = np.argsort(-row, kind="stable")
        weights = np.exp((row - row[order[0]]) / np.float32(draws.temperature[i]))
        one = Draws._make(column[i : i + 1] for column in draws)
        total = weights.sum()[None].astype(np.float64)
        index, _ = _invert(weights[order].astype(np.float64)[None], total, one, complete=True)
        chosen[i] = order[index[0]]
    return chosen


def _sample_head(logits: Float32, draws: Draws, head: int) -> tuple[Int64, npt.NDArray[np.bool_]]:
    """Tokens for draws that fall among a row's `head` likeliest, and which draws these are."""
    rows, row_of = np.unique(draws.rows, return_inverse=True)
    used = logits[rows]
    ids = np.argpartition(used, -head, axis=1)[:, -head:]
    ids.sort(axis=1)
    values = np.take_along_axis(used, ids, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    ids, values = np.take_along_axis(ids, order, axis=1), np.take_along_axis(values, order, axis=1)
    # Equal values at the end may have been split from others outside: only what is above them is certain.
    certain = (values > values[:, -1:]).sum(axis=1)[row_of]

    temperature = draws.temperature.astype(np.float32)[:, None]
    peak = values[row_of, :1]
    # Summed in float32, row by row: NumPy would buffer a conversion across rows, and the order would show.
    total = np.exp((used[row_of] - peak) / temperature).sum(axis=1).astype(np.float64)
    weights = np.exp((values[row_of] - peak) / temperature).astype(np.float64)
    weights[np.arange(head) >= certain[:, None]] = 0.0
    index, settled = _invert(weights, total, draws, complete=False, known=certain)
    return ids[row_of, np.minimum(index, head - 1)], settled


def _invert(
    weights: Float64, total: Float64, draws: Draws, *, complete: bool, known: Int64 | None = None
) -> tuple[Int64, npt.NDArray[np.bool_]]:
    """Which of the sorted `weights` `[draws, tokens]` each draw falls on, and whether that is certain.

    `total` is the weight of each whole row. When not `complete`, only the first `known` weights of a row are
    given, and a draw is certain when neither it nor what top-k and top-p keep reaches beyond them.
    """
    width = weights.shape[1]
    given = np.full(len(weights), width) if known is None else known
    sums = np.cumsum(weights, axis=1)
    limited = draws.top_k > 0
    kept = np.where(limited, np.minimum(draws.top_k, width), given)
    certain = complete | ~limited | (draws.top_k <= given)
    mass = np.where(limited, sums[np.arange(len(sums)), np.maximum(kept, 1) - 1], total)
    # The first token at which the sum reaches p is kept too.
    nucleus = (sums < (draws.top_p * mass)[:, None]).sum(axis=1) + 1
    narrowed = draws.top_p < 1.0
    if complete:
        nucleus = np.minimum(nucleus, kept)
    certain &= ~narrowed | (nucleus <= np.minimum(kept, given))
    kept = np.where(narrowed, np.minimum(nucleus, kept), kept)
    mass = np.where(narrowed, sums[np.arange(len(sums)), np.maximum(kept, 1) - 1], mass)
    index = (sums <= (draws.uniforms * mass)[:, None]).sum(axis=1)
    if complete:
        # Rounding may leave the last sum a hair below the mass.
        index = np.minimum(index, kept - 1)
    return index, certain & (index < kept)


def candidates(logits: Float32, count: int) -> tuple[tuple[int, float], ...]:
    """The `count` likeliest tokens of one row with log-probabilities; equal ones by id. Changes nothing."""
    count = min(count, len(logits))
    threshold = np.partition(logits, -count)[-count]
    above = np.flatnonzero(logits > threshold)
    level = np.flatnonzero(logits == threshold)[: count - len(above)]
    ids = np.sort(np.concatenate([above, level]))
    ids = ids[np.argsort(-logits[ids], kind="stable")]
    peak = logits[ids[0]]
    logarithm = np.float32(np.log(np.exp(logits - peak).sum(dtype=np.float64)))
    return tuple((int(i), float(logits[i] - peak - logarithm)) for i in ids)
