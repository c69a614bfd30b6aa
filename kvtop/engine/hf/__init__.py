"""Runs any transformers decoder on the paged cache. The only place that imports torch and transformers.

Importing this package loads neither; `load_runner` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kvtop.engine.hf.errors import ModelError

if TYPE_CHECKING:
    from kvtop.engine.hf.runner import HFRunner

__all__ = ["ModelError", "Progress", "load_runner"]

Progress = Callable[[str, float | None], None]
"""Called with what is being done and, where that is known, the fraction done (0 to 1)."""


def load_runner(
    model: str = "inside",
    *,
    device: str = "auto",
    dtype: str | None = None,
    kernels: str = "auto",
    progress: Progress | None = None,
) -> HFRunner:
    """Load a model; call `allocate` on what comes back before the first step.

    model: `inside` (the one that ships in the package), `smollm2`, a folder, a GGUF file, or a hub id.
    device: `auto` takes a GPU when there is one. dtype: `fp32`, `bf16`, `fp16`; None takes bfloat16 where
    the device computes in it, else fp32 (on a GPU fp16). kernels: `auto`, or one of
    `kvtop.kernels.choice.KINDS`. Raises ModelError, a title and one line that names
    the remedy. Slow: seconds; run it beside the screen. Changes nothing global but what
    `kvtop.engine.hf.loading` names.
    """
    from kvtop.engine.hf.loading import load

    return load(model, device=device, dtype=dtype, kernels=kernels, progress=progress or _silent)


def _silent(message: str, fraction: float | None) -> None:
    """Progress that nobody watches."""
