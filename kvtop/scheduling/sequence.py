"""What the scheduler keeps of a request: its group, and one sequence for every sample or beam."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import Enum

from kvtop.memory.events import sequence_id, sequence_name
from kvtop.workload.request import Request


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
    """One sample or beam. `tokens` holds prompt and generated ids; K/V is stored for the first `stored`."""

    id: int
    tokens: array[int]
    """int32 token ids: the prompt, then what was generated."""
    prompt_length: int
    stored: int = 0
    score: float = 0.0
    """Sum of log-probabilities of the generated tokens (beam search only)."""
    finish_reason: str | None = None

    @property
    def name(self) -> str:
        """What people call it: `42` or `42.3`."""
        return sequence_name(self.id)

    @property
    def branch(self) -> int:
        """Which sample, beam or fork of its request it is; keys its random numbers."""
        return self.id & 0xFFFF

    @property
    def generated(self) -> int:
        """Tokens generated so far."""
        return len(self.tokens) - self.prompt_length

    @property
    def pending(self) -> int:
        """Tokens whose K/V is still to be computed; 1 when it decodes."""
        return len(self.tokens) - self.stored


@dataclass(slots=True, eq=False)
class SequenceGroup:
    """A request and its live sequences; preempted and resumed as a whole (SOSP'23, section 4.5)."""

    request: Request
    sequences: list[Sequence]
    state: GroupState = GroupState.WAITING
    forked: bool = False
    """Whether the samples or beams have branched off the prompt."""
    preemptions: int = 0
    admitted_once: bool = False
    wait_reason: str = ""
    """Why it is not running, in words; empty while it runs."""
    next_branch: int = 0
    ended: list[Sequence] = field(default_factory=list)
    """Sequences that finished, oldest first; for beams the hypotheses kept so far."""
    released_hold: bool = False

    @classmethod
    def of(cls, request: Request) -> SequenceGroup:
        """A new group with one sequence that holds the prompt. Branch 0, or 1 if it will branch."""
        branch = 1 if request.n > 1 or request.beam_width > 1 else 0
        prompt = Sequence(
            id=sequence_id(request.id, branch),
            tokens=array("i", request.prompt_token_ids),
            prompt_length=len(request.prompt_token_ids),
        )
        return cls(request=request, sequences=[prompt], next_branch=branch + 1)

    @property
    def is_beam(self) -> bool:
        """Whether beam search drives it."""
        return self.request.beam_width > 1

    @property
    def seats(self) -> int:
        """How many of the scheduler's `max_sequences` it takes, counting branches still to come."""
        if self.forked:
            return len(self.sequences)
        return max(self.request.n, self.request.beam_width)
