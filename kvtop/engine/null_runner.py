"""A runner without a model: scripted tokens, so that scheduler and memory run alone and fast."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np

from kvtop.engine.philox import uniforms
from kvtop.engine.runner import CacheReads, RunnerInfo, Sampled, StepPlan

VOCABULARY = 256


class NullRunner:
    """Draws bytes: a prompt's tokens are its UTF-8 bytes, generated ones are letters keyed by the request's
    seed, the branch and the position, so they are the same however often a request is preempted. Nothing
    ends by itself: a sequence runs to its `max_new_tokens`. Keeps no state."""

    def __init__(self) -> None:
        self.info = RunnerInfo(
            model="none",
            device=None,
            dtype=None,
            attention=None,
            bytes_per_block=None,
            weight_bytes=None,
            max_positions=None,
            vocabulary=VOCABULARY,
        )
        self.eos_token_ids: frozenset[int] = frozenset()
        self.reads: CacheReads | None = None

    def run(self, plan: StepPlan) -> list[Sampled]:
        """Scripted tokens for each row; beams get candidates whose likelihoods are as scripted."""
        keys = [
            (row.request.seed, row.branch + draw, row.start + len(row.token_ids))
            for row in plan.rows
            for draw in range(row.samples or row.candidates)
        ]
        if not keys:
            return [Sampled(()) for _ in plan.rows]
        seeds, branches, positions = (np.array(column) for column in zip(*keys, strict=True))
        drawn = iter(uniforms(seeds, branches, positions).tolist())
        results = []
        for row in plan.rows:
            if row.candidates:
                results.append(Sampled((), _candidates([next(drawn) for _ in range(row.candidates)])))
            else:
                results.append(Sampled(tuple(_letter(next(drawn)) for _ in range(row.samples))))
        return results

    def encode(self, text: str) -> list[int]:
        """UTF-8 bytes."""
        return list(text.encode("utf-8"))

    def decode(self, token_ids: Seq[int]) -> str:
        """The bytes as text; ids above 255 as nothing, broken UTF-8 as replacement characters."""
        return bytes(token for token in token_ids if token < VOCABULARY).decode("utf-8", "replace")


def _letter(uniform: float) -> int:
    return ord("a") + int(uniform * 26)


def _candidates(uniforms_: Seq[float]) -> tuple[tuple[int, float], ...]:
    scored = ((ord("a") + index % 26, -1.0 - uniform) for index, uniform in enumerate(uniforms_))
    return tuple(sorted(scored, key=lambda pair: (-pair[1], pair[0])))
