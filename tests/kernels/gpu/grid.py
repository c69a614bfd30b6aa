"""What the tests of the attention kernels share: where they run, types and head dims, and tolerances."""

from __future__ import annotations

import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
TYPES = [torch.float32, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float32: 5e-6, torch.float16: 2e-3, torch.bfloat16: 1.2e-2}
"""Of the largest output: its rounding and that of the weights. The interpreter rounds towards zero."""

GRID = [
    (32, torch.float32),
    (64, torch.bfloat16),
    (80, torch.float16),
    (128, torch.bfloat16),
    (192, torch.float32),
    (256, torch.float16),
]
