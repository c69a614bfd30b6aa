"""Compiling the Numba kernel ahead of its use, in a process of its own."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import platformdirs
import torch


def compiled_marker(dim: int, dtype: str) -> Path | None:
    """The file that says that the kernel for this head dimension and type is in the cache folder; None where
    nothing can be written. Its name changes with the kernel's source and Numba's version."""
    from importlib.metadata import PackageNotFoundError, version

    source = Path(__file__).with_name("paged_decode.py")
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(platformdirs.user_cache_dir("kvtop")) / "numba")
    try:
        about = f"{source}{source.stat().st_mtime_ns}{version('numba')}{dim}{dtype}"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, PackageNotFoundError):
        return None
    if not os.access(folder, os.W_OK):
        return None
    return folder / f"compiled-{hashlib.blake2b(about.encode(), digest_size=8).hexdigest()}"


def compile_kernel(dim: int, dtype: torch.dtype) -> None:
    """Run the kernel once on tensors of its own, so that its machine code is in the cache."""
    import numpy as np

    from kvtop.kernels.cpu.attention import NumbaAttention
    from kvtop.kernels.packed import PackedStep

    attention = NumbaAttention()
    ones = np.ones(1, np.int32)
    step = PackedStep(np.zeros(1, np.int64), np.zeros((1, 1), np.int32), ones, np.array([0, 1]), 1)
    attention.begin(step, {})
    token = torch.zeros(1, 1, dim, dtype=dtype)
    cache = torch.zeros(1, 1, 1, dim, dtype=dtype)
    attention(token, token, token, cache, cache.clone(), 1.0, 0)
