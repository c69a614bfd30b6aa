"""What attention costs where K/V lies in one piece: torch's scaled_dot_product_attention, its fastest way."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu.timing import Call, seconds_per_call

Contiguous = tuple[torch.Tensor, torch.Tensor]
"""Keys and values, `[B, kv heads, N, dim]`."""


class Rival(NamedTuple):
    """The fastest of some ways to compute the same."""

    name: str
    seconds: float


def fastest_decode(query: torch.Tensor, data: Sequence[Contiguous], device: torch.device) -> Rival | None:
    """One query a sequence. query: `[B, query heads, dim]`; `data`: what is read in turn. None where nothing
    is timed, or nothing runs."""
    batch, heads, dim = query.shape
    kv_heads = data[0][0].shape[1]
    folded = query.view(batch, kv_heads, heads // kv_heads, dim)  # a group's heads as so many queries
    single = query[:, :, None]

    def fold(keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(folded, keys, values)

    def grouped(keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(single, keys, values, enable_gqa=True)

    return _fastest(
        {
            "flash, heads folded": (SDPBackend.FLASH_ATTENTION, fold),
            "flash, grouped heads": (SDPBackend.FLASH_ATTENTION, grouped),
            "efficient, heads folded": (SDPBackend.EFFICIENT_ATTENTION, fold),
        },
        data,
        device,
    )


def fastest_prefill(query: torch.Tensor, kv_heads: int, device: torch.device) -> Rival | None:
    """Causal, all tokens new. query: `[B, query heads, n, dim]`."""
    batch, heads, tokens, dim = query.shape
    keys, values = (torch.randn(batch, kv_heads, tokens, dim, device=device).to(query) for _ in range(2))
    wide = [tensor.repeat_interleave(heads // kv_heads, dim=1) for tensor in (keys, values)]

    def grouped(keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(query, keys, values, is_causal=True, enable_gqa=True)

    def repeated(keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(query, wide[0], wide[1], is_causal=True)

    ways = {
        "flash, grouped heads": (SDPBackend.FLASH_ATTENTION, grouped),
        "flash, repeated heads": (SDPBackend.FLASH_ATTENTION, repeated),
        "cuDNN, repeated heads": (SDPBackend.CUDNN_ATTENTION, repeated),
    }
    return _fastest(ways, [(keys, values)] * 3, device)


def _fastest(
    ways: Mapping[str, tuple[SDPBackend, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]],
    data: Sequence[Contiguous],
    device: torch.device,
) -> Rival | None:
    best = None
    for name, (backend, way) in ways.items():
        try:
            # A backend that does not take such tensors raises, and warns at length of why.
            with warnings.catch_warnings(), sdpa_kernel(backend):
                warnings.simplefilter("ignore")
                calls: list[Call] = [lambda pair=pair, way=way: way(*pair) for pair in data]  # type: ignore[misc]
                seconds = seconds_per_call(calls, device)
        except RuntimeError:
            if device.type == "cuda":
                torch.cuda.synchronize()  # raises where the GPU works no more
            continue
        if seconds is not None and (best is None or seconds < best.seconds):
            best = Rival(name, seconds)
    return best
