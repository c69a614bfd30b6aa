"""What the scheduler keeps of a request: its group, and one sequence for every sample or beam."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kvtop.memory.block_table import BlockTable
from kvtop.memory.events import FinishReason, branch_of, request_of, sequence_id
from kvtop.workload.request import Request


class Sampled(NamedTuple):
    """What a runner returns for one scheduled sequence."""

    token_ids: tuple[int, ...]
    """One id for each sample asked for; empty in the middle of a prefill and for beams."""
    candidates: tuple[tuple[int, float], ...] = ()
    """For beams: (token id, log-probability), likeliest first; ties to the smaller id."""


class GroupState(str, Enum):
    """Where a group is. A request is in exactly one of these (invariant I7)."""

    WAITING = "waiting"
    """In the waiting queue: new, or preempted by recompute."""
    RUNNING = "running"
    SWAPPED = "swapped"
    FINISHED = "finished"
    ABORTED = "aborted"
    REJECTED = "rejected"


@dataclass(slots=True, eq=False)
class Sequence:
    """One sample or beam: its tokens and blocks are in `table`, which the cache manager changes."""

    table: BlockTable
    prompt_length: int
    score: float = 0.0
    """Sum of log-probabilities of the generated tokens (beam search only)."""
    holding: bool = False
    """Whether it stopped growing at its request's `hold_at_stored`."""
    finish_reason: FinishReason | None = None

    @property
    def id(self) -> int:
        """Sequence id: request and branch."""
        return self.table.sequence

    @property
    def branch(self) -> int:
        """Which sample, beam or fork of its request it is; keys its random numbers."""
        return branch_of(self.table.sequence)

    @property
    def generated(self) -> int:
        """Tokens generated so far."""
        return len(self.table.tokens) - self.prompt_length

    def branch_off(self, branch: int) -> Sequence:
        """A sequence with the same tokens and no blocks yet, as branch `branch` of the same request."""
        request = request_of(self.table.sequence)
        table = BlockTable(sequence_id(request, branch), self.table.tokens[:])
        return Sequence(table, self.prompt_length, self.score)


class Hypothesis(NamedTuple):
    """A finished beam: tokens generated, and their mean log-probability."""

    token_ids: tuple[int, ...]
    score: float
    reason: FinishReason


@dataclass(slots=True, eq=False)
class SequenceGroup:
    """A request and its live sequences; preempted and resumed as a whole (SOSP'23, section 4.5)."""

    request: Request
    arrival: int
    """Place in the order of arrival: who came first is served first."""
    sequences: list[Sequence]
    state: GroupState = GroupState.WAITING
    forked: bool = False
    """Whether samples or beams have branched off the prompt."""
    preemptions: int = 0
    admitted_once: bool = False
    last_branch: int = 0
    """The highest branch number given so far (not for beams)."""
    wait_reason: str = ""
    """Why it is not running, in words; empty while it runs."""
    hold_released: bool = False
    hypotheses: list[Hypothesis] = field(default_factory=list)
    """Beams that reached their end, best first."""

    @classmethod
    def of(cls, request: Request, arrival: int) -> SequenceGroup:
        """A new group with one sequence that holds the prompt: branch 0, or 1 if more will branch off."""
        branch = int(request.n > 1 or request.beam_width > 1)
        table = BlockTable(sequence_id(request.id, branch), array("i", request.prompt_token_ids))
        return cls(request, arrival, [Sequence(table, len(request.prompt_token_ids))], last_branch=branch)

    @property
    def is_beam(self) -> bool:
        """Whether beam search drives it."""
        return self.request.beam_width > 1

    @property
    def seats(self) -> int:
        """How many of `max_sequences` it takes, branches still to come included: a beam search thinned out by
        end tokens grows again."""
        if self.is_beam:
            return self.request.beam_width
        return len(self.sequences) if self.forked else self.request.n

    @property
    def holds_at(self) -> int | None:
        """Stored tokens at which its sequences stop growing for now; None when they need not."""
        return None if self.hold_released else self.request.hold_at_stored

    @property
    def tables(self) -> list[BlockTable]:
        """Block tables of its live sequences, in branch order of creation."""
        return [sequence.table for sequence in self.sequences]

    @property
    def preempted(self) -> bool:
        """Whether it waits to be resumed rather than for its first admission."""
        return self.admitted_once and self.state in (GroupState.WAITING, GroupState.SWAPPED)

    @property
    def holding(self) -> bool:
        """Whether all its sequences hold."""
        return bool(self.sequences) and all(sequence.holding for sequence in self.sequences)

    def next_branch(self) -> int:
        """The number of the next branch. Samples and forks get one that was never used: their names and their
        random numbers hang on it. Beams, which come and go, get the smallest that no live one has."""
        if not self.is_beam:
            self.last_branch += 1
            return self.last_branch
        taken = {sequence.branch for sequence in self.sequences}
        return next(branch for branch in range(1, len(taken) + 2) if branch not in taken)


class Scheduled(NamedTuple):
    """One sequence's share of a step: its next `tokens` tokens are computed."""

    group: SequenceGroup
    sequence: Sequence
    tokens: int

    @property
    def completes(self) -> bool:
        """Whether its last known token is among them, so that a next one can be drawn."""
        return self.tokens == self.sequence.table.pending

    @property
    def samples(self) -> int:
        """How many tokens to draw from the last position."""
        if not self.completes or self.group.is_beam:
            return 0
        return 1 if self.group.forked else self.group.request.n

    @property
    def candidates(self) -> int:
        """How many likely next tokens beam search asks for: twice the width, so that enough remain when
        all of the best are end tokens."""
        return 2 * self.group.request.beam_width if self.completes and self.group.is_beam else 0


@dataclass(slots=True)
class Schedule:
    """What one step does, in this order: swap out, swap in, copy, compute `entries`."""

    entries: list[Scheduled] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)
    """Copy-on-write: (source, destination)."""
    swaps_out: list[tuple[int, int]] = field(default_factory=list)
    """(device block, host block)."""
    swaps_in: list[tuple[int, int]] = field(default_factory=list)
    """(host block, device block)."""
    preempted: bool = False

    @property
    def tokens(self) -> int:
        """Tokens computed in this step."""
        return sum(entry.tokens for entry in self.entries)
