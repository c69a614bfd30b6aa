"""The protocol between a workload and the engine: which requests arrive at a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kvtop.workload.request import Request


class Workload(Protocol):
    """A source of requests on step time. Deterministic: the same seed and calls give the same requests."""

    @property
    def holding_requests(self) -> int:
        """How many requests, past and to come, have `hold_at_stored` set."""
        ...

    @property
    def endless(self) -> bool:
        """Whether arrivals go on for ever."""
        ...

    def arrivals(self, step: int, unfinished: int) -> Sequence[Request]:
        """The requests that arrive at `step` (first step is 1), in order. Changes the workload's state.

        Called once for every step, in order. `unfinished` is how many requests wait, run or are swapped
        out as the step begins: a workload may hold traffic back so that no queue grows for ever.
        """
        ...

    def exhausted(self, step: int) -> bool:
        """Whether nothing will arrive after `step`. Changes nothing."""
        ...
