"""What a model generated once, to be played back without it: the same pictures on every machine.

Two processors round differently, so that a model's tokens differ from one to the other; those on the tape do
not. `record` wraps a model's runner, `TapeRunner` plays.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence as Seq
from itertools import cycle
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

import kvtop
from kvtop.engine.hf.packing import pack
from kvtop.engine.runner import CacheReads, Row, Runner, RunnerInfo, Sampled, StepPlan

TOKENIZER = Path(kvtop.__file__).parent / "models" / "inside-3m" / "tokenizer.json"

Key = tuple[int, int, int]
"""Request, branch, and the position after the last one computed."""


class TapeError(RuntimeError):
    """The tape does not have what the run asks for."""


def _key(row: Row) -> Key:
    return row.request.id, row.branch, row.start + len(row.token_ids)


class Recorder:
    """A runner that remembers what another one answered, and how long its steps took."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.info, self.eos_token_ids = runner.info, runner.eos_token_ids
        self.reads: CacheReads | None = None
        self.answers: dict[Key, Sampled] = {}

    def run(self, plan: StepPlan) -> list[Sampled]:
        """Ask the other runner."""
        results = self.runner.run(plan)
        self.reads = self.runner.reads
        for row, sampled in zip(plan.rows, results, strict=True):
            if row.samples or row.candidates:
                self.answers[_key(row)] = sampled
        return results

    def encode(self, text: str) -> list[int]:
        """As the other runner; raises TapeError if the tokenizer alone would give something else."""
        ids = self.runner.encode(text)
        if ids != Tokenizer.from_file(str(TOKENIZER)).encode(text).ids:
            raise TapeError("the tokenizer's file gives other ids than the model's runner")
        return ids

    def decode(self, token_ids: Seq[int]) -> str:
        """As the other runner."""
        return self.runner.decode(token_ids)

    def save(self, path: Path, timings: Seq[tuple[float, float, float]]) -> None:
        """Write the tape: answers, the runner's description, and the median step in microseconds."""
        median = [round(1e6 * statistics.median(column)) for column in zip(*timings, strict=True)]
        tape = {
            "info": self.info._asdict(),
            "eos": sorted(self.eos_token_ids),
            "step_microseconds": median,
            "runs": _runs(self.answers),
            "others": [
                [*key, sampled.token_ids, sampled.candidates]
                for key, sampled in sorted(self.answers.items())
                if len(sampled.token_ids) != 1
            ],
        }
        path.write_text(json.dumps(tape, separators=(",", ":")) + "\n", "utf-8")


def _runs(answers: dict[Key, Sampled]) -> list[tuple[int, int, int, list[int]]]:
    """Single tokens at positions in a row, as (request, branch, first position, tokens)."""
    runs: list[tuple[int, int, int, list[int]]] = []
    for (request, branch, position), sampled in sorted(answers.items()):
        if len(sampled.token_ids) != 1:
            continue
        if runs and (request, branch, position) == (*runs[-1][:2], runs[-1][2] + len(runs[-1][3])):
            runs[-1][3].append(sampled.token_ids[0])
        else:
            runs.append((request, branch, position, [sampled.token_ids[0]]))
    return runs


class TapeRunner:
    """Plays a tape. A request that is not on it raises TapeError."""

    def __init__(self, path: Path, block_size: int = 16) -> None:
        tape: dict[str, Any] = json.loads(path.read_text("utf-8"))
        self.info = RunnerInfo(**tape["info"])
        self.eos_token_ids = frozenset(tape["eos"])
        self.step_seconds = tuple(1e-6 * part for part in tape["step_microseconds"])
        """Schedule, run and update of the median step while the tape was recorded."""
        self.reads: CacheReads | None = None
        self._block_size = block_size
        self._tokenizer = Tokenizer.from_file(str(TOKENIZER))
        self._answers = {
            (request, branch, position): Sampled(tuple(tokens), tuple((i, p) for i, p in candidates))
            for request, branch, position, tokens, candidates in tape["others"]
        }
        for request, branch, position, tokens in tape["runs"]:
            for offset, token in enumerate(tokens):
                self._answers[request, branch, position + offset] = Sampled((token,))

    def run(self, plan: StepPlan) -> list[Sampled]:
        """What the model answered then."""
        self.reads = self._reads(plan)
        results = []
        for row in plan.rows:
            if not (row.samples or row.candidates):
                results.append(Sampled(()))
                continue
            try:
                results.append(self._answers[_key(row)])
            except KeyError:
                request, branch, position = _key(row)
                raise TapeError(
                    f"request {request}.{branch} at position {position} is not on the tape: "
                    "the run has changed, record it again (make screenshots ARGS=--record)"
                ) from None
        return results

    def _reads(self, plan: StepPlan) -> CacheReads | None:
        """What attention would have read, in a model without sliding windows."""
        if not plan.rows or self.info.bytes_per_block is None:
            return None
        read = pack(plan.rows, self._block_size).step.reads()
        kv_bytes = read.tokens * self.info.bytes_per_block // self._block_size
        return CacheReads(kv_bytes, read.blocks, read.runs)

    def encode(self, text: str) -> list[int]:
        """Token ids, as the model's tokenizer gives them."""
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids

    def decode(self, token_ids: Seq[int]) -> str:
        """Text of tokens."""
        text: str = self._tokenizer.decode(list(token_ids), skip_special_tokens=False)
        return text


class StepClock:
    """Seconds that pass as they did in the tape's median step, however long anything takes now.

    The engine looks four times a step: before and after schedule, run and update.
    """

    def __init__(self, step_seconds: Seq[float]) -> None:
        self._now = 0.0
        self._parts = cycle((0.0, *step_seconds))

    def __call__(self) -> float:
        """The time, which goes on with every look."""
        self._now += next(self._parts)
        return self._now
