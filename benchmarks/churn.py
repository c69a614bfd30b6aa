"""The dashboard over a synthetic pool of which one percent changes in every frame.

usage: churn.py runs|random BLOCKS [PRESET]
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Sequence

import numpy as np

from kvtop.session import session as ses
from kvtop.timeline import snapshot as snap
from kvtop.timeline.snapshot import BlockState
from kvtop.ui.app.run import run_app

SEQUENCES = 48
FRAMES = 64
"""Snapshots are made before the clock starts: what is measured is the screen, not the engine."""
RUN = 16
WORDS = ("the", "people", "of", "these", "United", "States", "shall", "provide", "for", "a", "Union")


class ChurnSession:
    """Shows prepared snapshots in turn."""

    def __init__(self, frames: Sequence[snap.Snapshot]) -> None:
        self._frames = itertools.cycle(frames)
        self.supports = frozenset(
            {ses.Pause, ses.Resume, ses.StepOnce, ses.SetSpeed, ses.AddRequest, ses.AddBurst, ses.Abort}
        )
        self.status = ses.Status(ses.Phase.RUNNING, speed=20.0)

    def start(self) -> None: ...
    def close(self) -> None: ...
    def send(self, command: ses.Command) -> None: ...

    def select(self, **wanted: object) -> None: ...

    def snapshot(self) -> snap.Snapshot:
        return next(self._frames)

    def notices(self) -> Sequence[ses.Notice]:
        return ()

    def text(self, token_ids: Sequence[int]) -> str:
        return " ".join(WORDS[token % len(WORDS)] for token in token_ids)


def changing(
    columns: snap.BlockColumns, random: np.random.Generator, step: int, *, runs: bool
) -> snap.BlockColumns:
    """The columns with one percent of the blocks given to somebody else."""
    blocks = len(columns.state)
    number = max(1, blocks // 100)
    if runs:
        starts = random.integers(0, blocks, max(1, number // RUN))
        chosen = (starts[:, None] + np.arange(RUN)).ravel() % blocks
    else:
        chosen = random.integers(0, blocks, number)
    owner, state, touched = columns.owner.copy(), columns.state.copy(), columns.touched.copy()
    owner[chosen] = (
        np.repeat(random.integers(0, SEQUENCES, len(chosen) // RUN + 1), RUN)[: len(chosen)]
        if runs
        else random.integers(0, SEQUENCES, len(chosen))
    )
    state[chosen] = random.choice([BlockState.USED, BlockState.SHARED], len(chosen))
    touched[chosen] = step
    return dataclasses.replace(columns, owner=owner, state=state, touched=touched)


def frames(blocks: int, *, runs: bool) -> list[snap.Snapshot]:
    """Snapshots of a full pool, each one percent apart from the one before."""
    random = np.random.default_rng(1)
    owner = np.repeat(random.integers(0, SEQUENCES, blocks // RUN + 1), RUN)[:blocks].astype(np.int32)
    columns = snap.BlockColumns(
        state=np.full(blocks, BlockState.USED, np.uint8),
        ref_count=np.ones(blocks, np.int32),
        owner=owner,
        fill=np.full(blocks, 16, np.int32),
        has_hash=np.zeros(blocks, np.bool_),
        touched=np.zeros(blocks, np.int32),
    )
    source = snap.Source("live", "churn", "cpu", "bf16", None, 16, 24576, 5 << 20, "synthetic", 1, "swap", 64)
    made = []
    for step in range(1, FRAMES + 1):
        columns = changing(columns, random, step, runs=runs)
        rows = tuple(_row(number, step) for number in range(SEQUENCES))
        counters = snap.Counters(
            **dict.fromkeys(snap.Counters.__dataclass_fields__, step),
        )
        counters = dataclasses.replace(
            counters, total_blocks=blocks, used_blocks=blocks - step, slots=blocks * 16
        )
        figures = snap.StepFigures(48, 0, 1e-4, 1e-2, 1e-4, 400.0 + step, 20.0)
        made.append(snap.Snapshot(source, step, 0, counters, columns, None, rows, figures, ()))
    return made


def _row(number: int, step: int) -> snap.SequenceRow:
    table = np.arange(number, number + 20, dtype=np.int32)
    tail = tuple(range(step + number, step + number + 32))
    return snap.SequenceRow(
        id=number << 16, name=str(number), request=number, branch=0, label="", state="running",
        wait_reason="", prompt_tokens=200, generated_tokens=step, stored_tokens=200 + step,
        max_new_tokens=400, n=1, beam_width=1, blocks=20, on_host=False, shared_blocks=3,
        waste_slots=step % 16, prefix_hit_tokens=48, preemptions=0, table=table, tail=tail,
    )  # fmt: skip


if __name__ == "__main__":
    kind, blocks = sys.argv[1], int(sys.argv[2])
    preset = {"preset": sys.argv[3]} if len(sys.argv) > 3 else {}
    sys.exit(run_app(ChurnSession(frames(blocks, runs=kind == "runs")), fps=20, **preset))  # type: ignore[arg-type]
