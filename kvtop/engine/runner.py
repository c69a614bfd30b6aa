"""The protocol between the engine and whatever computes tokens: a model, or a script."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kvtop.scheduling.sequence import Sampled
from kvtop.workload.request import Request

__all__ = ["CacheReads", "Row", "Runner", "RunnerInfo", "Sampled", "StepPlan"]


class Row(NamedTuple):
    """One sequence's part of a step's packed forward.

    Positions `start .. start + len(token_ids) - 1` are computed: their K/V is written to the slots
    `table[position // block_size] * block_size + position % block_size`, then the queries attend to
    positions 0 up to their own, read through `table`. A row may read blocks that an earlier row of the
    same step writes, so every layer writes all rows' K/V before any row attends.
    """

    sequence: int
    request: Request
    branch: int
    """Keys the random numbers of its sample (with the request's seed and the sampled position)."""
    token_ids: Seq[int]
    start: int
    table: Seq[int]
    """Physical block ids, `len(table) * block_size >= start + len(token_ids)`. Do not keep or change."""
    samples: int
    """How many tokens to draw after the last position: 0 in the middle of a prefill, 1 while decoding,
    n at the end of the prompt of a request with n samples (keyed by branch, branch + 1, ...)."""
    candidates: int
    """For beam search: how many of the likeliest next tokens to return with log-probabilities, else 0."""


@dataclass(slots=True)
class StepPlan:
    """What the runner does in one step, in this order: swaps out, swaps in, copies, then the rows."""

    rows: list[Row] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)
    """Copy-on-write: (source, destination) device blocks, all layers."""
    swaps_out: list[tuple[int, int]] = field(default_factory=list)
    """(device block, host block)."""
    swaps_in: list[tuple[int, int]] = field(default_factory=list)
    """(host block, device block)."""

    @property
    def scheduled_tokens(self) -> int:
        """Tokens computed in this step."""
        return sum(len(row.token_ids) for row in self.rows)


class CacheReads(NamedTuple):
    """What a step's attention read of the K/V cache, by the tables that the kernel was given."""

    kv_bytes: int
    """Of all layers, each row's tokens once: a block that two sequences share is read for each of them."""
    blocks: int
    """Table entries of the layers that read most, a shared block once for each sequence."""
    runs: int
    """Stretches of these entries that count up by one: the fewer, the less scattered."""


class RunnerInfo(NamedTuple):
    """What the screens say about a runner. Absent figures are None, never zero."""

    model: str
    device: str | None
    dtype: str | None
    attention: str | None
    """The implementation chosen at run time, e.g. `numba paged decode + prefill`."""
    bytes_per_block: int | None
    weight_bytes: int | None
    max_positions: int | None
    """Longest sequence that the model takes, in tokens; None when nothing limits it."""
    vocabulary: int
    windows: tuple[int, ...] | None = None
    """Per layer: how many of a sequence's last tokens a query sees, 0 for all; None without a model."""
    kernels: str | None = None
    """Which implementation of the kernels runs: `triton`, `numba`, `torch` or `reference`."""
    kernels_note: str | None = None
    """Why it is not the one that would be first on this device, such as a package that is missing."""

    @property
    def windowed(self) -> bool:
        """Whether some layer reads only the last tokens of a sequence."""
        return any(self.windows or ())


class Runner(Protocol):
    """Computes the tokens of a step. Owns the K/V tensors of the device and host pools."""

    info: RunnerInfo
    eos_token_ids: frozenset[int]
    reads: CacheReads | None
    """Of the newest `run`; None where no K/V is read, as by a script."""

    def run(self, plan: StepPlan) -> list[Sampled]:
        """Do the copies and swaps, compute the rows, return one result per row. Changes the K/V tensors."""
        ...

    def encode(self, text: str) -> list[int]:
        """Token ids of a prompt. Changes nothing."""
        ...

    def decode(self, token_ids: Seq[int]) -> str:
        """Text of tokens, unescaped: whoever shows it makes control characters visible. Thread-safe."""
        ...
