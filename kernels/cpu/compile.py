"""Compiling the Numba kernel ahead of its use, in a process of its own, and where the code is kept."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

import platformdirs
import torch

KERNEL = "paged_attention.py"
SOURCES = (KERNEL, "microkernels.py", "vectors.py")


def cache_folder() -> Path | None:
    """Where Numba keeps machine code; None where nothing can be written."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(platformdirs.user_cache_dir("kvtop")) / "numba")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


@functools.cache
def sources() -> str:
    """A digest of the code that the kernel is made of: Numba's cache by itself looks at one file alone."""
    digest = hashlib.blake2b(digest_size=8)
    for name in SOURCES:
        digest.update(Path(__file__).with_name(name).read_bytes())
    return digest.hexdigest()


def compiled_marker(dtype: str) -> Path | None:
    """The file that says that the kernel for this type is in the cache folder; None where nothing can be
    written. Its name changes with the kernel's source, Numba's version and the processor: what else Numba
    finds its code by."""
    from importlib.metadata import PackageNotFoundError, version

    folder = cache_folder()
    kernel = Path(__file__).with_name(KERNEL)
    try:
        about = f"{kernel}{kernel.stat().st_mtime_ns}{sources()}{version('numba')}{dtype}{processor()}"
    except (OSError, PackageNotFoundError):
        return None
    return folder and folder / f"compiled-{hashlib.blake2b(about.encode(), digest_size=8).hexdigest()}"


def processor() -> str:
    """The processor that Numba compiles for."""
    import llvmlite.binding

    names = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")
    return "/".join([*(os.environ.get(name, "") for name in names), llvmlite.binding.get_host_cpu_name()])


def try_kernel(dtype: torch.dtype) -> None:
    """Run the kernel once, so that it is known to work. Where it does not, and code of it was kept, that is
    thrown away and the kernel compiled again: a file may have been cut by a full disk.

    Raises whatever went wrong, the second time.
    """
    from kvtop.kernels.cpu.paged_attention import write_and_attend

    try:
        compile_kernel(dtype)
    except Exception:  # what a damaged file makes of unpickling is not known beforehand
        if not discard():
            raise
        write_and_attend.cache_clear()
        compile_kernel(dtype)


def discard() -> int:
    """Delete the kernel's machine code from the cache folder; returns how many files there were."""
    folder = cache_folder()
    if folder is None:
        return 0
    kept = [*folder.rglob(f"{Path(KERNEL).stem}.*.nb?"), *folder.glob("compiled-*")]
    for file in kept:
        file.unlink(missing_ok=True)
    return len(kept)


def compile_kernel(dtype: torch.dtype) -> None:
    """Run the kernel once on tensors of its own, so that its machine code is in the cache.

    Raises KeyError for a type that it is not made for.
    """
    import numpy as np

    from kvtop.kernels.cpu.attention import NumbaAttention
    from kvtop.kernels.packed import PackedStep

    attention = NumbaAttention()
    ones = np.ones(1, np.int32)
    step = PackedStep(np.zeros(1, np.int64), np.zeros((1, 1), np.int32), ones, np.array([0, 1]), 1)
    attention.begin(step, {})
    token = torch.zeros(1, 1, 1, dtype=dtype)
    cache = torch.zeros(1, 1, 1, 1, dtype=dtype)
    attention(token, token, token, cache, cache.clone(), 1.0, 0)
