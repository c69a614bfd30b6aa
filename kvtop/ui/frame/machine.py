"""Memory of the process, the machine and the GPU. What cannot be known is None, never zero."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MachineMemory:
    """Bytes each; None when not known."""

    process: int | None = None
    """Resident memory of this process."""
    available: int | None = None
    """Memory of the machine that programs can still get."""
    gpu_used: int | None = None
    gpu_total: int | None = None
