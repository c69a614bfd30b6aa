"""The scheduler's settings."""

from __future__ import annotations

from msgspec import Struct

from kvtop.memory.events import PreemptionMode


class SchedulerConfig(Struct, frozen=True, kw_only=True):
    """Limits of a step and the policy when the pool runs dry. Raises ValueError for what cannot work."""

    max_sequences: int = 16
    """Sequences that run at once."""
    token_budget: int = 256
    """Tokens computed in one step, prefill and decode together."""
    watermark: float = 0.01
    """Share of the pool that an admission leaves free, so that running sequences can grow."""
    preemption: PreemptionMode = PreemptionMode.RECOMPUTE
    victim: str = "newest"
    """Which running group is preempted first: `newest` (first come, first served) or `oldest`."""
    max_positions: int | None = None
    """Longest sequence that the model takes, in tokens."""
    holding_requests: int = 0
    """Requests of the workload that have `hold_at_stored`."""

    def __post_init__(self) -> None:
        if self.max_sequences < 1:
            raise ValueError(f"max sequences is {self.max_sequences}: at least 1 is needed")
        if self.token_budget < self.max_sequences:
            raise ValueError(
                f"token budget {self.token_budget} is below max sequences {self.max_sequences}: "
                "every running sequence computes a token a step"
            )
        if not 0 <= self.watermark < 1:
            raise ValueError(f"watermark {self.watermark} is not between 0 and 1")
        if self.victim not in ("newest", "oldest"):
            raise ValueError(f"victim {self.victim!r} is neither newest nor oldest")
