"""Copies, evictions and preemptions that flash in the map and fade."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kvtop.timeline.snapshot import FlashKind, Snapshot
from kvtop.ui.panels.map.codes import Blocks

STEP_SECONDS = 0.2
"""How long a flash keeps each of its steps; four of them fade within 0.8 s."""
BRIEF = {FlashKind.EVICTED: 2}
"""Steps of what happens so often that it would cover the owners: a full pool evicts with every allocation."""
PAUSE_SECONDS, PAUSE_STEPS = 1.0, 20
"""Whoever has not looked for that long, while the generator went that far on, has missed the flashes."""


class Flashing(NamedTuple):
    """Blocks that flash alike."""

    kind: FlashKind
    step: int
    """How far it has faded, from 0."""
    blocks: Blocks


class Flashes:
    """What still flashes, by when it was first seen."""

    def __init__(self) -> None:
        self._serial: int | None = None
        """The newest flash seen; None before the first snapshot."""
        self._seen = (0.0, 0)
        """Clock and engine step of the last snapshot."""
        self._lit: list[tuple[float, FlashKind, Blocks]] = []

    def update(self, snapshot: Snapshot, clock: float, *, wanted: bool = True) -> None:
        """Take up a snapshot's new flashes. The first snapshot's are over already, and so are those of a
        generator that ran on unseen. After a step back nothing flashes."""
        last = self._serial
        newest = snapshot.flashes[-1].serial if snapshot.flashes else last or 0
        self._serial = newest
        (then, step), self._seen = self._seen, (clock, snapshot.step)
        missed = clock - then > PAUSE_SECONDS and snapshot.step - step > PAUSE_STEPS
        back = last is not None and (newest < last or snapshot.step < step)
        if last is None or missed or back or not wanted:
            self._lit.clear()
            return
        new: dict[FlashKind, list[int]] = {}
        for flash in reversed(snapshot.flashes):
            if flash.serial <= last:
                break
            new.setdefault(flash.kind, []).extend(flash.blocks)
        self._lit += [(clock, kind, np.array(blocks, np.int32)) for kind, blocks in new.items()]

    def fading(self, clock: float, steps: int) -> Iterator[Flashing]:
        """What flashes now, oldest first; forgets what has gone through all its steps."""
        self._lit = [
            (since, kind, blocks)
            for since, kind, blocks in self._lit
            if clock - since < min(steps, BRIEF.get(kind, steps)) * STEP_SECONDS - 1e-9
        ]
        for since, kind, blocks in self._lit:
            yield Flashing(kind, max(0, int((clock - since) / STEP_SECONDS + 1e-9)), blocks)

    @property
    def active(self) -> bool:
        """Whether anything flashes, as far as `fading` has been asked."""
        return bool(self._lit)
