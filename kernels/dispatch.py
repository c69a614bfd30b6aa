"""Which kernels run: device, number type, what is installed and what was asked for become objects."""

from __future__ import annotations

import os
from typing import NamedTuple

import torch

from kvtop.kernels.choice import AUTO, Choice, KernelsUnavailable, Kind, Machine, choose_kind
from kvtop.kernels.protocol import Attention, BlockMover, HeadShape
from kvtop.kernels.torch_blocks import TorchMover

DTYPE_NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


class Kernels(NamedTuple):
    """One implementation, ready to run."""

    kind: Kind
    note: str | None
    """Why it is not the one that would be first here."""
    attention: Attention
    mover: BlockMover

    @property
    def name(self) -> str:
        """What the screens call its attention; where it is not the first choice, why."""
        return self.attention.name if self.note is None else f"{self.attention.name} ({self.note})"


def machine(device: torch.device, dtype: torch.dtype, head_dim: int | None = None) -> Machine:
    """What the choice depends on, asked of torch."""
    nvidia = device.type == "cuda" and torch.version.hip is None
    return Machine(
        device.type,
        DTYPE_NAMES.get(dtype, str(dtype)),
        torch.cuda.get_device_capability(device) if nvidia else None,
        head_dim,
        os.environ.get("TRITON_INTERPRET") == "1",
    )


def choose(device: torch.device, dtype: torch.dtype, heads: HeadShape, wanted: str = AUTO) -> Kernels:
    """The kernels for K/V of `dtype` on `device`, in layers with such heads.

    Where the first choice cannot run or does not load, plain torch serves and `name` says why. Raises
    KernelsUnavailable when `wanted` names an implementation that cannot.
    """
    choice = choose_kind(machine(device, dtype, heads.dim), wanted)
    try:
        return _load(choice, device, dtype, heads)
    except ImportError as error:
        reason = f"{choice.kind} does not load: {error}"
        if wanted != AUTO:
            raise KernelsUnavailable(f"--kernels {reason}; --kernels {AUTO} takes what runs here") from error
        return _load(Choice("torch", reason), device, dtype, heads)


def _try_numba(dtype: torch.dtype) -> None:
    """Load or compile the kernel. Raises ImportError when that fails, whatever the reason."""
    from kvtop.kernels.cpu.compile import try_kernel

    try:
        try_kernel(dtype)
    except Exception as error:
        raise ImportError(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _try_triton(device: torch.device) -> None:
    """Launch a small kernel: Triton needs a C compiler and Python's headers to launch its first one. Raises
    ImportError when that fails, whatever the reason."""
    from kvtop.kernels.gpu.blocks import copy_blocks

    kv = torch.zeros(1, 2, 2, 1, 1, 16, device=device)
    try:
        copy_blocks(kv, torch.tensor([[0, 1]], device=device))
    except Exception as error:
        raise ImportError(_first_line(error)) from error


def _load(choice: Choice, device: torch.device, dtype: torch.dtype, heads: HeadShape) -> Kernels:
    """Raises ImportError where a package is there and yet cannot be loaded, or cannot compile."""
    attention: Attention
    mover: BlockMover = TorchMover()
    if choice.kind == "triton":
        from kvtop.kernels.gpu.attention import TritonAttention
        from kvtop.kernels.gpu.mover import TritonMover

        _try_triton(device)
        attention, mover = TritonAttention(device, heads, dtype), TritonMover()
    elif choice.kind == "numba":
        from kvtop.kernels.cpu.attention import NumbaAttention

        _try_numba(dtype)
        attention = NumbaAttention()
    elif choice.kind == "reference":
        from kvtop.kernels.reference_attention import ReferenceAttention

        attention = ReferenceAttention()
    else:
        from kvtop.kernels.gather_sdpa import GatherAttention

        attention = GatherAttention()
    return Kernels(choice.kind, choice.note, attention, mover)
