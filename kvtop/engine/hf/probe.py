"""Run a model once on a small paged cache, and compare with what it computes by itself.

A model may keep an attention of its own whatever is asked of it, look at a mask that we never build (ALiBi,
chunked attention), or carry state beside K/V. One comparison finds all of these before the first step does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from kvtop.engine.hf.attention import NAME, StepContext, forward
from kvtop.engine.hf.errors import ModelError, UnsupportedModel
from kvtop.engine.hf.pool import KVPool, KVShape
from kvtop.kernels.choice import AUTO
from kvtop.kernels.dispatch import Kernels, choose
from kvtop.kernels.packed import Array, PackedStep
from kvtop.kernels.upload import upload

_TOKENS = 12
_CHUNKS = (7, 1, 4)
_BLOCK_SIZE = 4
_TOLERANCE = {torch.float32: 1e-3}
"""Relative difference of the logits (Euclidean) that rounding explains."""
_ROUGH_TOLERANCE = 0.1

_LAYER_TYPES = {"full_attention", "sliding_attention"}


def probe(network: PreTrainedModel, device: torch.device, kernels: str = AUTO) -> tuple[KVShape, Kernels]:
    """Switch the model to the paged attention and check it; returns what it stores for a token, and the
    kernels that serve: those that `kernels` names.

    Changes the model's attention implementation. Raises UnsupportedModel, with a message that begins in
    the middle of a sentence about the model, and KernelsUnavailable.
    """
    config = network.config.get_text_config()
    others = set(getattr(config, "layer_types", None) or ()) - _LAYER_TYPES
    if others:
        raise UnsupportedModel(
            f"its layers are of a kind that the paged cache does not hold: {_words(others)}"
        )
    tokens = _tokens(config)
    with torch.inference_mode():
        expected = _own_logits(network, tokens.to(device))
        network.set_attn_implementation(NAME)
        if network.config._attn_implementation != NAME:
            raise UnsupportedModel(
                f"it stays on its own attention ({network.config._attn_implementation}):"
                " its code does not use transformers' attention interface"
            )
        shape = _shape(network, tokens.to(device))
        chosen = choose(device, shape.dtype, shape.heads, kernels)
        got = _paged_logits(network, tokens, shape, device, chosen)
    difference = float((got - expected).norm() / expected.norm())
    if not difference < _TOLERANCE.get(network.dtype, _ROUGH_TOLERANCE):
        raise UnsupportedModel(
            f"on the paged cache its logits differ by {difference:.1%} from its own:"
            " its attention does something that the paged kernels do not know"
        )
    return shape, chosen


def _tokens(config: Any) -> torch.Tensor:
    """`[1, n]`: ids spread over the vocabulary, as many as fit the model's positions."""
    count = min(_TOKENS, getattr(config, "max_position_embeddings", None) or _TOKENS)
    generator = np.random.default_rng(7)
    return torch.from_numpy(generator.integers(0, config.vocab_size, (1, count)))


def _own_logits(network: PreTrainedModel, ids: torch.Tensor) -> torch.Tensor:
    try:
        return network(input_ids=ids, use_cache=False).logits[0].float()
    except (TypeError, ValueError, RuntimeError) as error:
        raise UnsupportedModel(f"it does not take plain token ids: {error}") from error


def _shape(network: PreTrainedModel, ids: torch.Tensor) -> KVShape:
    """What the layers store, seen in one forward, and whether each calls the attention once."""
    layers: int = network.config.get_text_config().num_hidden_layers
    onlooker = _Onlooker()
    nothing = [torch.empty(0)] * layers
    context = onlooker.context = StepContext(onlooker, nothing, nothing)
    positions = torch.arange(ids.shape[1], device=ids.device)[None]
    _forward(network, context, ids, positions, torch.tensor([0], device=ids.device))
    if sorted(context.calls) != list(range(layers)):
        raise UnsupportedModel(
            f"{len(set(context.calls))} of its {layers} layers use the paged attention,"
            f" with {len(context.calls)} calls in all"
        )
    if len(onlooker.shapes) != 1:
        raise UnsupportedModel(f"its layers store K/V of several shapes: {_words(onlooker.shapes)}")
    heads, kv_heads, head_dim, value_dim = onlooker.shapes.pop()
    if heads % kv_heads or head_dim != value_dim:
        raise UnsupportedModel(
            f"{heads} query heads over {kv_heads} KV heads do not fit the paged cache, or keys of {head_dim}"
            f" and values of {value_dim} numbers"
        )
    windows = tuple(onlooker.windows[layer] for layer in range(layers))
    return KVShape(layers, kv_heads, heads // kv_heads, head_dim, network.dtype, windows)


class _Onlooker:
    """Takes the place of an attention and notes the shapes that it is given. Its output means nothing."""

    name = "none"

    def __init__(self) -> None:
        self.shapes: set[tuple[int, int, int, int]] = set()
        self.windows: dict[int, int] = {}
        """The sliding window of each layer."""
        self.context: StepContext | None = None

    def metadata(self, step: PackedStep) -> dict[str, Array]:
        """Nothing to read."""
        return {}

    def begin(self, step: PackedStep, uploaded: Mapping[str, torch.Tensor]) -> None:
        """Nothing to prepare."""

    def __call__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        scale: float,
        window: int,
    ) -> torch.Tensor:
        """Zeros of the right shape."""
        heads, tokens, head_dim = query.shape
        self.shapes.add((heads, key.shape[0], head_dim, value.shape[2]))
        if self.context is not None:
            self.windows[self.context.calls[-1]] = window
        return query.new_zeros(tokens, heads, value.shape[2])


def _paged_logits(
    network: PreTrainedModel, ids: torch.Tensor, shape: KVShape, device: torch.device, kernels: Kernels
) -> torch.Tensor:
    """`[n, vocabulary]`: logits of every token, computed in chunks through a scattered block table."""
    count = ids.shape[1]
    blocks = -(-count // _BLOCK_SIZE)
    pool = KVPool(shape, blocks, _BLOCK_SIZE, 0, device)
    table = np.arange(blocks - 1, -1, -1)
    parts: list[torch.Tensor] = []
    start = 0
    for length in _CHUNKS:
        end = min(start + length, count)
        if start == end:
            break
        positions = np.arange(start, end)
        step = PackedStep(
            slots=table[positions // _BLOCK_SIZE] * _BLOCK_SIZE + positions % _BLOCK_SIZE,
            tables=table[None].astype(np.int32),
            lengths=np.array([end], np.int32),
            starts=np.array([0, end - start]),
            block_size=_BLOCK_SIZE,
        )
        attention = kernels.attention
        attention.begin(step, upload(attention.metadata(step), device))
        context = StepContext(attention, pool.keys, pool.values)
        where = torch.from_numpy(positions).to(device)[None]
        every = torch.arange(end - start, device=device)
        parts.append(_forward(network, context, ids[:, start:end].to(device), where, every))
        start = end
    return torch.cat(parts).float()


def _forward(
    network: PreTrainedModel,
    context: StepContext,
    ids: torch.Tensor,
    positions: torch.Tensor,
    keep: torch.Tensor,
) -> torch.Tensor:
    try:
        return forward(network, context, ids, positions, keep)
    except ModelError:
        raise
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise UnsupportedModel(f"it does not take one packed row of tokens: {error}") from error


def _words(values: set[Any]) -> str:
    return ", ".join(sorted(str(value) for value in values))
