"""Where there is no GPU, Triton's kernels run in its interpreter, on CPU tensors."""

from __future__ import annotations

import os

import torch

# Read when a kernel is decorated, so before any module of kernels is imported.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
