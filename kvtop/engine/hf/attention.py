"""The attention function that transformers calls, and what it needs to know of the step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import AttentionInterface, PreTrainedModel

from kvtop.engine.hf.errors import UnsupportedModel
from kvtop.kernels.dispatch import Attention

NAME = "kvtop_paged"
"""What the function is called in transformers' registry. No mask function goes by that name, so
transformers builds no mask."""

KEYWORD = "kvtop_step"
"""The keyword argument of the model's forward that carries the `StepContext` to every layer."""


@dataclass(slots=True, eq=False)
class StepContext:
    """What every layer of one forward shares."""

    attention: Attention
    keys: list[torch.Tensor]
    """Per layer `[blocks, kv heads, block size, dim]`."""
    values: list[torch.Tensor]
    calls: list[int] = field(default_factory=list)
    """The layers that called, in order; a model must call once for each layer."""


def paged(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Write this layer's K/V by slot and attend through the block tables. Changes the caches.

    query: `[1, query heads, T, dim]`, key and value: `[1, kv heads, T, dim]`, positions applied. Returns
    `[1, T, query heads, dim]`. Raises UnsupportedModel for what would change the scores and is not done
    here. `attention_mask` is not looked at: rows are causal, and a model's own mask knows nothing of them.
    """
    step: StepContext | None = options.get(KEYWORD)
    if step is None:
        raise UnsupportedModel("its layers do not hand keyword arguments on to the attention")
    layer: int = module.layer_idx  # type: ignore[assignment]
    if not step.calls:
        _refuse(module, options)
    step.calls.append(layer)
    out = step.attention(
        query[0],
        key[0],
        value[0],
        step.keys[layer],
        step.values[layer],
        query.shape[-1] ** -0.5 if scaling is None else scaling,
        sliding_window or 0,
    )
    return out[None], None


def forward(
    network: PreTrainedModel,
    step: StepContext,
    token_ids: torch.Tensor,
    positions: torch.Tensor,
    keep: torch.Tensor,
) -> torch.Tensor:
    """One packed forward of `T` tokens; returns logits `[len(keep), vocabulary]`. Changes the caches.

    token_ids and positions: `[1, T]`; keep: which tokens' logits are wanted.
    """
    output = network(
        input_ids=token_ids, position_ids=positions, use_cache=False, logits_to_keep=keep, **{KEYWORD: step}
    )
    logits: torch.Tensor = output.logits[0]
    return logits


def _refuse(module: torch.nn.Module, options: dict[str, Any]) -> None:
    if options.get("s_aux") is not None:
        raise UnsupportedModel("its attention has sinks, which the paged kernels do not compute")
    if options.get("softcap") is not None:
        raise UnsupportedModel("its attention caps scores (soft-cap), which the paged kernels do not compute")
    if options.get("position_bias") is not None:
        raise UnsupportedModel("its attention adds a position bias, which the paged kernels do not compute")
    if options.get("is_causal") is False or getattr(module, "is_causal", True) is False:
        raise UnsupportedModel("its attention looks ahead: it is not a decoder")


AttentionInterface.register(NAME, paged)
