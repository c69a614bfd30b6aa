"""Figures over time: what the sparklines and the plots of rates are drawn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvtop.session.session import Status
from kvtop.timeline.snapshot import Counters, Snapshot
from kvtop.ui.draw.glyphs import BLOCK, Glyphs

Values = NDArray[np.float64]
"""Figures, oldest first; NaN where one was not published."""

FIGURES = (
    "tokens_per_second",
    "used_percent",
    "cached_percent",
    "running",
    "waiting",
    "swapped",
    "evictions_per_second",
    "preemptions_per_second",
    "copies_per_second",
    "kv_bytes_read",
    "step_seconds",
    "preempted",
)
"""What is kept of every sample. `running`, `waiting` and `swapped` are sequences; `preempted` counts the
preemptions since the sample before."""
_PLACE = {name: place for place, name in enumerate(FIGURES)}


@dataclass(frozen=True, slots=True)
class _Sample:
    """What the next sample's differences are taken from."""

    step: int
    seconds: float
    evictions: int
    preemptions: int
    copies: int


class History:
    """Samples of the newest snapshot, some a second; the newest `length` are kept.

    Rates a second are differences of counters over the session's own clock; where that has not moved there
    is no rate. A step number that goes backwards begins a new history.
    """

    def __init__(self, length: int = 3600) -> None:
        self.length = length
        self.total = 0
        """Samples since the beginning, those that were dropped included."""
        # Twice as long as what is kept: the newest are moved to the front only when the end is reached.
        self._figures = np.full((len(FIGURES), 2 * length), np.nan)
        self._seconds = np.zeros(2 * length)
        self._end = 0
        self._last: _Sample | None = None

    def add(self, snapshot: Snapshot, status: Status) -> None:
        """Append a sample."""
        last, seconds = self._last, status.elapsed_seconds
        if last is not None and snapshot.step < last.step:
            self._end = self.total = 0
            last = None
        if self._end == 2 * self.length:
            self._figures[:, : self.length] = self._figures[:, self.length :]
            self._seconds[: self.length] = self._seconds[self.length :]
            self._end = self.length
        sample = _sample(snapshot, seconds)
        self._figures[:, self._end] = _row(snapshot, sample, last)
        self._seconds[self._end] = seconds
        self._end += 1
        self.total += 1
        self._last = sample

    @property
    def kept(self) -> int:
        """Samples that can be asked for."""
        return min(self._end, self.length)

    def newest(self, name: str, number: int) -> Values:
        """The newest `number` samples of a figure, or as many as there are."""
        number = min(number, self.kept)
        values: Values = self._figures[_PLACE[name], self._end - number : self._end]
        return values

    def columns(self, name: str, width: int, each: int = 1) -> Values:
        """The newest figures in at most `width` columns, each the mean of `each` samples.

        Which samples share a column does not depend on when it is asked, so a plot moves by whole columns.
        """
        first, starts = self._starts(width, each)
        if not len(starts):
            return np.empty(0)
        values: Values = self._figures[_PLACE[name], first : self._end]
        if each == 1:
            return values
        known = np.add.reduceat(~np.isnan(values), starts, dtype=np.int64)
        sums = np.add.reduceat(np.nan_to_num(values), starts)
        means: Values = np.divide(sums, known, out=np.full(len(sums), np.nan), where=known > 0)
        return means

    def ages(self, width: int, each: int = 1) -> Values:
        """How many seconds before the newest sample each column of `columns` begins."""
        first, starts = self._starts(width, each)
        if not len(starts):
            return np.empty(0)
        begins: Values = self._seconds[first : self._end][starts]
        ages: Values = self._seconds[self._end - 1] - begins
        return ages

    def _starts(self, width: int, each: int) -> tuple[int, NDArray[np.intp]]:
        """The place of the first sample shown, and where columns begin, counted from it."""
        if not self._end or width < 1:
            return 0, np.empty(0, np.intp)
        oldest = self.total - self.kept
        newest_column = (self.total - 1) // each
        begin = max(oldest, (newest_column - width + 1) * each)
        columns = np.arange(begin // each, newest_column + 1)
        starts = np.maximum(columns * each, begin) - begin
        return self._end - (self.total - begin), starts

    def spark(self, name: str, width: int, ceiling: float | None = None, glyphs: Glyphs = BLOCK) -> str:
        """The newest figures in `width` cells, the highest (or `ceiling`) full height; unpublished ones are
        left out."""
        values = self.newest(name, 2 * width)
        return glyphs.spark(values[~np.isnan(values)].tolist(), width, ceiling)


def _sample(snapshot: Snapshot, seconds: float) -> _Sample:
    c = snapshot.counters
    return _Sample(snapshot.step, seconds, c.evictions, _preemptions(c), c.cow_copies)


def _preemptions(counters: Counters) -> int:
    return counters.preempted_recompute + counters.preempted_swap


def _row(snapshot: Snapshot, now: _Sample, last: _Sample | None) -> list[float]:
    """The figures of a sample, in the order of FIGURES."""
    c, figures = snapshot.counters, snapshot.figures
    unknown = float("nan")
    total = c.total_blocks or unknown

    since = last if last is not None and now.seconds > last.seconds else None
    passed = now.seconds - since.seconds if since is not None else unknown
    tokens = figures.tokens_per_second if figures is not None else None
    read = figures.kv_bytes_read if figures is not None else None
    took = unknown
    if figures is not None:
        took = figures.schedule_seconds + figures.run_seconds + figures.update_seconds
    return [
        unknown if tokens is None else tokens,
        100 * c.used_blocks / total,
        100 * c.cached_blocks / total,
        c.running,
        c.waiting,
        c.swapped,
        (now.evictions - since.evictions) / passed if since is not None else unknown,
        (now.preemptions - since.preemptions) / passed if since is not None else unknown,
        (now.copies - since.copies) / passed if since is not None else unknown,
        unknown if read is None else read,
        took,
        now.preemptions - last.preemptions if last is not None else 0,
    ]
