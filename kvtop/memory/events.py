"""The vocabulary of facts: everything that changes a block or a sequence is one of these.

Facts are past tense. An event carries the step in which it happened and its order within that step; one
call of the memory core gives one event with arrays of block ids, so a 64-block prompt is one event.
Folding the events from the start gives the pool's own arrays, bit for bit (invariant I9,
`kvtop.timeline.state`): recording, rewinding, breakpoints and checking all rest on that.

Block ids count within their pool (`Tier.DEVICE`, `Tier.HOST`). A sequence id holds its request and its
branch; see `sequence_id`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from msgspec import Struct

BRANCH_BITS = 16
"""Low bits of a sequence id that number the branches (samples, beams, forks) of one request."""


def sequence_id(request: int, branch: int = 0) -> int:
    """The id of branch `branch` of request `request`. A request with a single sequence uses branch 0."""
    return request << BRANCH_BITS | branch


def request_of(sequence: int) -> int:
    """The request that a sequence belongs to."""
    return sequence >> BRANCH_BITS


def branch_of(sequence: int) -> int:
    """Which of its request's sequences it is, counted from 0."""
    return sequence & (1 << BRANCH_BITS) - 1


def sequence_name(sequence: int) -> str:
    """What people call it: `42` for branch 0, `42.3` for branch 3."""
    request, branch = request_of(sequence), branch_of(sequence)
    return f"{request}.{branch}" if branch else str(request)


def parse_sequence(name: str) -> int:
    """The inverse of `sequence_name`. Raises ValueError when `name` is not one."""
    request, _, branch = name.partition(".")
    return sequence_id(int(request), int(branch or 0))


class Tier(str, Enum):
    """Which of the two pools a block id counts in: the one that attention reads, or host memory."""

    DEVICE = "device"
    HOST = "host"


class QueueEnd(str, Enum):
    """Where freed blocks join the free queue: hashed ones at the back (LRU), others at the front (LIFO)."""

    FRONT = "front"
    BACK = "back"


class PreemptionMode(str, Enum):
    """How a preempted group's K/V comes back: copied from host memory, or computed again."""

    SWAP = "swap"
    RECOMPUTE = "recompute"


class FinishReason(str, Enum):
    """Why a sequence stopped: its end token, a length cap, or a user."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


class Event(Struct, frozen=True, tag=True, kw_only=False):
    """What every fact carries: the engine step (0 before the first) and its order within the step."""

    step: int
    order: int


# -- requests ---------------------------------------------------------------------------------------------


class Arrived(Event, frozen=True, tag=True):
    """A request joined the waiting queue. `label` is for people (a scenario's name for it, or empty)."""

    request: int
    prompt_token_ids: tuple[int, ...]
    max_new_tokens: int
    n: int
    beam_width: int
    label: str


class Admitted(Event, frozen=True, tag=True):
    """A group got its blocks. `prefix_hit_tokens` of its `prompt_tokens` were found in the prefix cache.

    `first` is False when the group had been preempted: such hits do not count in the hit rate.
    """

    request: int
    sequence: int
    prompt_tokens: int
    prefix_hit_tokens: int
    first: bool


class Rejected(Event, frozen=True, tag=True):
    """A request that can never fit was refused, with the reason in words."""

    request: int
    reason: str


class Waited(Event, frozen=True, tag=True):
    """A waiting request's obstacle changed; `reason` says in words what it waits for."""

    request: int
    reason: str


class Finished(Event, frozen=True, tag=True):
    """The last sequence of a request ended; `reason` is that of its best or last sequence."""

    request: int
    reason: FinishReason


class Aborted(Event, frozen=True, tag=True):
    """A user or a scenario ended the request; its sequences' blocks were released."""

    request: int


# -- sequences --------------------------------------------------------------------------------------------


class Forked(Event, frozen=True, tag=True):
    """`child` began with `parent`'s tokens, sharing every block of its table (one more reference each)."""

    parent: int
    child: int


class Advanced(Event, frozen=True, tag=True):
    """K/V of a sequence is now stored up to `stored` tokens; `token_ids` were generated (often one)."""

    sequence: int
    token_ids: tuple[int, ...]
    stored: int


class Held(Event, frozen=True, tag=True):
    """A sequence stopped growing at its `hold_at_stored`; its next `Advanced` ends that."""

    sequence: int


class SequenceEnded(Event, frozen=True, tag=True):
    """A sequence left: a reason of `FinishReason`, or `pruned` for a beam that lost."""

    sequence: int
    why: str


class Preempted(Event, frozen=True, tag=True):
    """The whole group of `request` gave its blocks up; `why` names who needed how many blocks."""

    request: int
    mode: PreemptionMode
    why: str
    blocks_short: int


class SwappedOut(Event, frozen=True, tag=True):
    """Every table entry of `sequences` moved from `device_blocks[i]` to `host_blocks[i]`, sharing kept."""

    sequences: tuple[int, ...]
    device_blocks: tuple[int, ...]
    host_blocks: tuple[int, ...]


class SwappedIn(Event, frozen=True, tag=True):
    """Every table entry of `sequences` moved from `host_blocks[i]` to `device_blocks[i]`, sharing kept."""

    sequences: tuple[int, ...]
    host_blocks: tuple[int, ...]
    device_blocks: tuple[int, ...]


class Resumed(Event, frozen=True, tag=True):
    """A preempted group runs again."""

    request: int


# -- blocks -----------------------------------------------------------------------------------------------


class Evicted(Event, frozen=True, tag=True):
    """Cached blocks lost their hash because the pool needed them: what they held cannot be found any more."""

    blocks: tuple[int, ...]


class Allocated(Event, frozen=True, tag=True):
    """Blocks left the front of the free queue and became logical blocks `logical`, `logical + 1`, ..."""

    blocks: tuple[int, ...]
    sequence: int
    logical: int


class Shared(Event, frozen=True, tag=True):
    """Blocks that already held the right tokens were appended to a table: a prefix hit, or a sibling's.

    A block with reference count 0 leaves the middle of the free queue.
    """

    blocks: tuple[int, ...]
    sequence: int
    logical: int


class Released(Event, frozen=True, tag=True):
    """A sequence gave up its last `len(blocks)` table entries; each block has one reference fewer."""

    blocks: tuple[int, ...]
    sequence: int
    tier: Tier


class Freed(Event, frozen=True, tag=True):
    """Blocks whose reference count fell to 0 joined the free queue at `end`, in this order."""

    blocks: tuple[int, ...]
    end: QueueEnd
    tier: Tier


class Cached(Event, frozen=True, tag=True):
    """Full blocks from `logical` on of a sequence can be found by hash from now on.

    `hashes[i]` is the signed 64-bit hash of the chain that ends in `blocks[i]`, `parents[i]` the hash of
    the chain before it (0 at the root).
    """

    blocks: tuple[int, ...]
    sequence: int
    logical: int
    hashes: tuple[int, ...]
    parents: tuple[int, ...]


class Copied(Event, frozen=True, tag=True):
    """Copy-on-write: `sequence` swapped its entry `logical` from `source` to a fresh `destination`."""

    source: int
    destination: int
    sequence: int
    logical: int


# -- steps ------------------------------------------------------------------------------------------------


class StepBegan(Event, frozen=True, tag=True):
    """An engine step began."""


class StepEnded(Event, frozen=True, tag=True):
    """An engine step ended. Timings are in seconds and may differ between two runs of one seed."""

    scheduled_tokens: int
    prefill_tokens: int
    schedule_seconds: float
    run_seconds: float
    update_seconds: float
    kv_bytes_read: int | None = None
    """Bytes of K/V that attention read in all layers; None where nobody says."""
    kv_blocks_read: int | None = None
    """Table entries that a layer's attention read, a shared block once for each of its sequences."""
    kv_runs_read: int | None = None
    """Stretches of neighbouring blocks among these."""


AnyEvent = (
    Arrived
    | Admitted
    | Rejected
    | Waited
    | Finished
    | Aborted
    | Forked
    | Advanced
    | Held
    | SequenceEnded
    | Preempted
    | SwappedOut
    | SwappedIn
    | Resumed
    | Evicted
    | Allocated
    | Shared
    | Released
    | Freed
    | Cached
    | Copied
    | StepBegan
    | StepEnded
)
"""The union of all facts, for decoders and exhaustive matches."""

Listener = Callable[[Any], None]


class EventBus:
    """Hands each fact to its listeners, in order, on the caller's thread.

    Emitters guard with `if bus.active:` so that without a listener an event costs one attribute look-up.
    A listener may block (a breakpoint holds the engine at the event that matched) but must not call back
    into the memory core.
    """

    __slots__ = ("_listeners", "active", "order", "step")

    def __init__(self) -> None:
        self.step = 0
        self.order = 0
        self.active = False
        self._listeners: tuple[Listener, ...] = ()

    def subscribe(self, listener: Listener) -> None:
        """Add a listener; it hears every later event."""
        self._listeners = (*self._listeners, listener)
        self.active = True

    def unsubscribe(self, listener: Listener) -> None:
        """Remove a listener. Raises ValueError when it was not subscribed."""
        remaining = list(self._listeners)
        remaining.remove(listener)
        self._listeners = tuple(remaining)
        self.active = bool(remaining)

    def begin_step(self, step: int) -> None:
        """Later events belong to `step`, counted from order 0."""
        self.step = step
        self.order = 0

    def emit(self, kind: type[Event], *fields: Any) -> None:
        """Build an event of `kind` from its fields after step and order, and hand it to every listener."""
        event = kind(self.step, self.order, *fields)
        self.order += 1
        for listener in self._listeners:
            listener(event)
