"""The protocol that every screen is written against: live, recorded and attached sessions alike."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from kvtop.memory.events import PreemptionMode
from kvtop.timeline.snapshot import Snapshot


class Phase(str, Enum):
    """Where a session is in its life."""

    LOADING = "loading"
    RUNNING = "running"
    PAUSED = "paused"
    ENDED = "ended"
    """The workload is done; the last snapshot stays on the screen."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Status:
    """Phase and words for it. `progress` is 0 to 1 while loading, None when unknown."""

    phase: Phase
    message: str = ""
    progress: float | None = None
    speed: float | None = None
    """Steps a second asked for; 0 is unbounded, None when it does not apply."""
    elapsed_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Notice:
    """A line for the person at the keyboard: the answer to a command, or a warning."""

    text: str
    warning: bool = False


# -- commands ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pause:
    """Stop after the current step."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Run on."""


@dataclass(frozen=True, slots=True)
class StepOnce:
    """Run one step and stay paused (pauses first if running)."""


@dataclass(frozen=True, slots=True)
class SetSpeed:
    """Steps a second; 0 is unbounded."""

    steps_per_second: float


@dataclass(frozen=True, slots=True)
class AddRequest:
    """Add one request. With `prompt` None, `prompt_tokens` are drawn from the workload's own text."""

    prompt: str | None = None
    prompt_tokens: int = 128
    max_new_tokens: int = 128
    n: int = 1
    beam_width: int = 1
    temperature: float = 0.7
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class AddBurst:
    """Add `requests` varied requests at once."""

    requests: int = 8


@dataclass(frozen=True, slots=True)
class Fork:
    """Branch a running sequence: the child shares all its blocks until one of them writes."""

    sequence: int


@dataclass(frozen=True, slots=True)
class Preempt:
    """Take the sequence's whole group off the device, by swap or recompute."""

    sequence: int
    mode: PreemptionMode


@dataclass(frozen=True, slots=True)
class Abort:
    """End the sequence's request."""

    sequence: int


Command = Pause | Resume | StepOnce | SetSpeed | AddRequest | AddBurst | Fork | Preempt | Abort


class Session(Protocol):
    """A source of snapshots that may take commands. All methods may be called from the UI's thread.

    None of them blocks for longer than a few milliseconds, save `close`.
    """

    @property
    def supports(self) -> frozenset[type]:
        """The command types that this session takes; the key bar shows only these."""
        ...

    @property
    def status(self) -> Status:
        """The newest status. Changes nothing."""
        ...

    def start(self) -> None:
        """Begin loading and running in the background. Called once."""
        ...

    def close(self) -> None:
        """Stop within a second and release everything. May be called twice."""
        ...

    def snapshot(self) -> Snapshot | None:
        """The newest published snapshot (None before the first), and a request for a fresh one."""
        ...

    def select(
        self, *, block: int | None = None, sequence: int | None = None, prefixes: bool = False
    ) -> None:
        """Which block's and sequence's details later snapshots carry, and whether the tree of prefixes."""
        ...

    def send(self, command: Command) -> None:
        """Queue a command for the engine's thread. Its answer comes as a notice."""
        ...

    def notices(self) -> Seq[Notice]:
        """Notices since the last call, oldest first; empties the list."""
        ...

    def text(self, token_ids: Seq[int]) -> str:
        """Text of tokens as the tokenizer has it: data, to be made harmless. Empty without one."""
        ...
