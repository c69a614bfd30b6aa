"""How fast it goes, over the last seconds of wall time."""

from __future__ import annotations

from collections import deque
from time import monotonic

WINDOW = 2.0
"""Seconds that a rate is taken over."""


class RateMeter:
    """Tokens and steps a second."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._marks: deque[tuple[float, int, int]] = deque()

    def start(self) -> None:
        """The clock runs from now."""
        self._began = monotonic()

    def elapsed(self) -> float:
        """Seconds since the start; 0 before it."""
        return monotonic() - self._began if self._began is not None else 0.0

    def count(self, steps: int, tokens: int) -> None:
        """Totals after a step."""
        now = monotonic()
        self._marks.append((now, steps, tokens))
        while self._marks[0][0] < now - WINDOW:
            self._marks.popleft()

    def per_second(self) -> tuple[float | None, float | None]:
        """(tokens, steps) a second; None while there is too little to tell."""
        if len(self._marks) < 2:
            return None, None
        (began, steps, tokens), (ended, last_steps, last_tokens) = self._marks[0], self._marks[-1]
        seconds = ended - began
        if seconds <= 0:
            return None, None
        return (last_tokens - tokens) / seconds, (last_steps - steps) / seconds
