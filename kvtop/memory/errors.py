"""What the memory core raises. A call that raises has changed nothing."""

from __future__ import annotations


class AllocatorError(Exception):
    """A call that the allocator refuses: the caller's books and the pool's disagree."""


class DoubleFreeError(AllocatorError):
    """A block was given back more often than it was taken."""


class OutOfBlocksError(AllocatorError):
    """More blocks were asked for than are free; ask `can_...` first."""


class InvariantError(AllocatorError):
    """A check found the memory's books inconsistent; the message names the invariant (I1 to I9)."""
