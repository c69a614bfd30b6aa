"""Which implementation of the kernels serves: decided from device, number type and what is installed.

Imports neither torch nor a compiler, so that a report can ask without loading them.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Literal, NamedTuple

Kind = Literal["triton", "numba", "torch", "reference"]
KINDS: tuple[Kind, ...] = ("triton", "numba", "torch", "reference")
AUTO = "auto"

NEEDED_CAPABILITY = (8, 0)
"""Of an NVIDIA GPU, for the Triton kernels: earlier chips lack bfloat16 and TF32 matrix instructions."""
LARGEST_HEAD = 256
"""Head dimension up to which Triton configurations are shipped."""
NUMBA_DTYPES = ("fp32", "bf16")


class KernelsUnavailable(Exception):
    """An implementation that was asked for cannot run here; the message is one line that names the remedy."""


class Machine(NamedTuple):
    """What the choice depends on."""

    device: str
    """`cpu` or `cuda` (torch's name for AMD GPUs, too)."""
    dtype: str
    """Of K and V: `fp32`, `bf16` or `fp16`."""
    capability: tuple[int, int] | None = None
    """Of an NVIDIA GPU."""
    head_dim: int | None = None
    interpreted: bool = False
    """Whether Triton kernels are interpreted (TRITON_INTERPRET=1), which also runs them on a CPU."""


class Choice(NamedTuple):
    """The implementation that serves."""

    kind: Kind
    note: str | None = None
    """Why it is not the one that would be first here."""


def choose_kind(machine: Machine, wanted: str = AUTO) -> Choice:
    """The implementation for a machine. Changes nothing.

    `auto` takes Triton on a GPU and Numba on a CPU; where that cannot run it takes plain torch, and the note
    names what is missing. Raises KernelsUnavailable when another one is wanted that cannot run.
    """
    if wanted == AUTO:
        first: Kind = "numba" if machine.device == "cpu" else "triton"
        lacking = obstacle(first, machine)
        return Choice(first) if lacking is None else Choice("torch", lacking)
    kind = next((kind for kind in KINDS if kind == wanted), None)
    if kind is None:
        raise KernelsUnavailable(f"no kernels {wanted!r}; there are {AUTO}, {', '.join(KINDS)}")
    lacking = obstacle(kind, machine)
    if lacking is not None:
        raise KernelsUnavailable(f"--kernels {kind}: {lacking}; --kernels {AUTO} takes what runs here")
    return Choice(kind)


def obstacle(kind: Kind, machine: Machine) -> str | None:
    """Why an implementation cannot run on a machine; None when it can."""
    if kind == "triton":
        return _no_triton(machine)
    if kind == "numba":
        if machine.device != "cpu":
            return "numba computes on the CPU only"
        if importlib.util.find_spec("numba") is None:
            return "numba is not installed"
        if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
            return "NUMBA_DISABLE_JIT is set"
        if machine.dtype not in NUMBA_DTYPES:
            return f"the numba kernels take {' and '.join(NUMBA_DTYPES)}, not {machine.dtype}"
    return None


def _no_triton(machine: Machine) -> str | None:
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    if machine.device == "cpu" and not machine.interpreted:
        return "triton needs a GPU, or TRITON_INTERPRET=1 to be interpreted on a CPU"
    if machine.capability is not None and machine.capability < NEEDED_CAPABILITY:
        major, minor = machine.capability
        return f"triton needs compute capability 8.0, this GPU has {major}.{minor}"
    if machine.head_dim is not None and machine.head_dim > LARGEST_HEAD:
        return f"the triton kernels take head dimensions up to {LARGEST_HEAD}, not {machine.head_dim}"
    return None
