"""The request: the one type that the workload hands to the scheduler."""

from __future__ import annotations

from msgspec import Struct


class Request(Struct, frozen=True, kw_only=True):
    """One generation request. Immutable; token counts in tokens, steps in engine steps.

    `seed` and the sample's branch key the random numbers, so the same tokens come out whatever the
    request was preempted for, and whatever ran beside it.
    """

    id: int
    prompt_token_ids: tuple[int, ...]
    max_new_tokens: int
    """Generated tokens at most, for each sample or beam."""
    n: int = 1
    """Parallel samples that share the prompt's blocks. Exclusive with `beam_width > 1`."""
    beam_width: int = 1
    """Beams kept by beam search; 1 means sampling (or greedy at temperature 0)."""
    temperature: float = 0.0
    """0 is greedy."""
    top_k: int = 0
    """Only the k likeliest tokens are sampled from; 0 keeps all."""
    top_p: float = 1.0
    """Only the likeliest tokens whose probabilities add up to p are sampled from; 1 keeps all."""
    seed: int = 0
    ignore_eos: bool = False
    hold_at_stored: int | None = None
    """A sequence stops growing at this many stored tokens until every such request holds."""
    abort_at_step: int | None = None
    """The engine aborts the request at the beginning of this step."""
    label: str = ""
    """A name for people; empty when it has none."""
