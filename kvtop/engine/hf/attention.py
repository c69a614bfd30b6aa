"""The attention function that transformers calls, and what it needs to know of the step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from transformers import AttentionInterface, PreTrainedModel

from kvtop.engine.hf.errors import UnsupportedModel
from kvtop.kernels.protocol import Attention

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
    settle: Callable[[], None] = lambda: None
    """Called before the first layer reads or writes the cache: swaps may run beside what comes before."""
    calls: list[int] = field(default_factory=list)
    """The layers that called, in order; a model must call once for each layer."""
    tokens: int = 0
    """Tokens of the forward under way; what the layers compute beyond is padding that nobody reads."""


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
        step.settle()
    step.calls.append(layer)
    real, padding = step.tokens, query.shape[2] - step.tokens
    out = step.attention(
        query[0, :, :real],
        key[0, :, :real],
        value[0, :, :real],
        step.keys[layer],
        step.values[layer],
        query.shape[-1] ** -0.5 if scaling is None else scaling,
        sliding_window or 0,
    )
    if padding:
        out = F.pad(out, (0, 0, 0, 0, 0, padding))
    return out[None], None


def padded_length(tokens: int) -> int:
    """How many tokens a forward on a CPU computes for so many: up to 16 as they are, then multiples of 16.

    oneDNN compiles its kernels for every length anew and keeps them: a new length costs some milliseconds and
    2 MB of memory. This makes 31 lengths up to 256 instead of 256.
    """
    return tokens if tokens <= 16 else -(-tokens // 16) * 16


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
    step.tokens = token_ids.shape[1]
    if token_ids.device.type == "cpu":
        padding = (0, padded_length(step.tokens) - step.tokens)
        token_ids, positions = F.pad(token_ids, padding), F.pad(positions, padding)
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
