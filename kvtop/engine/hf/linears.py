"""Linear layers whose weights oneDNN has laid out in advance: half a step's time at batch 1 on a CPU."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

_BATCH_HINT = 16
"""The number of tokens that the layout is chosen for; any number works."""

_SMALLEST = {torch.bfloat16: 0, torch.float32: 1 << 18}
"""Weights below this size stay as they are: in float32 the call costs more than the layout saves."""


class PackedLinear(torch.nn.Linear):
    """A linear layer that computes from a prepacked copy of its weight."""

    packed: Any

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """As `torch.nn.Linear.forward`."""
        return torch.ops.mkldnn._linear_pointwise(input, self.packed, self.bias, "none", [], "")


def available(dtype: torch.dtype) -> bool:
    """Whether torch has the operations and they compute what `F.linear` does. They are not public."""
    if dtype not in _SMALLEST or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    try:
        generator = torch.Generator().manual_seed(0)
        weight = torch.randn(48, 64, generator=generator).to(dtype)
        bias = torch.randn(48, generator=generator).to(dtype)
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, _BATCH_HINT)
        for tokens in (1, 5, _BATCH_HINT, 33):
            rows = torch.randn(1, tokens, 64, generator=generator).to(dtype)
            got = torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")
            torch.testing.assert_close(got, F.linear(rows, weight, bias))
    except (AttributeError, TypeError, RuntimeError, AssertionError):
        return False
    return True


def pack(model: torch.nn.Module) -> int:
    """Give linear layers of some size a prepacked copy of their weight; returns the bytes of the copies.

    Changes the layers' class. The weights stay, for code that reads them.
    """
    copied = 0
    with torch.inference_mode():
        for module in model.modules():
            if type(module) is not torch.nn.Linear:
                continue
            weight = module.weight.detach().contiguous()
            smallest = _SMALLEST.get(weight.dtype)
            if smallest is not None and weight.numel() >= smallest:
                packed = torch.ops.mkldnn._reorder_linear_weight(weight, _BATCH_HINT)
                module.__class__ = PackedLinear
                module.packed = packed
                copied += weight.nbytes
    return copied
