"""A Llama written for fast training on a CPU, and its export to the folder that transformers loads.

The arithmetic is that of ``transformers.LlamaForCausalLM`` with tied embeddings. What differs is how it runs:
weights stay in fp32 and are cast to bf16 once a step, the projections that read the same input are one matrix
product, and the loss never holds all logits at once.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from rows import TiedLoss, attend
from safetensors.torch import save_file
from torch import Tensor, nn


@dataclass(frozen=True)
class Shape:
    """The sizes of the model, under the names that the exported configuration uses."""

    vocab_size: int = 4096
    hidden_size: int = 256
    num_hidden_layers: int = 6
    intermediate_size: int = 384
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    head_dim: int = 32
    max_position_embeddings: int = 2048
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the halves of each head [batch, time, heads, head_dim] by the angles of their positions, as Llama
    does.
    """
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Layer(nn.Module):
    """One decoder layer; the weights are kept apart, as the optimizer and the export want them."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        d, f = shape.hidden_size, shape.intermediate_size
        self.heads, self.kv_heads, self.head_dim = (
            shape.num_attention_heads,
            shape.num_key_value_heads,
            shape.head_dim,
        )
        self.eps = shape.rms_norm_eps
        inner, kv_inner = self.heads * self.head_dim, self.kv_heads * self.head_dim
        self.attention_norm = nn.Parameter(torch.ones(d))
        self.mlp_norm = nn.Parameter(torch.ones(d))
        self.q = nn.Parameter(torch.empty(inner, d))
        self.k = nn.Parameter(torch.empty(kv_inner, d))
        self.v = nn.Parameter(torch.empty(kv_inner, d))
        self.o = nn.Parameter(torch.empty(d, inner))
        self.gate = nn.Parameter(torch.empty(f, d))
        self.up = nn.Parameter(torch.empty(f, d))
        self.down = nn.Parameter(torch.empty(d, f))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """x [batch, time, d] bf16 -> the same shape."""
        batch, time, _ = x.shape
        dtype = x.dtype
        y = F.rms_norm(x, (x.shape[-1],), self.attention_norm.to(dtype), self.eps)
        qkv = F.linear(y, torch.cat((self.q, self.k, self.v)).to(dtype))
        # Heads that share a key head lie beside each other: [batch, key heads, time, query heads of each,
        # head_dim].
        q, k, v = qkv.view(batch, time, -1, self.head_dim).split(
            (self.heads, self.kv_heads, self.kv_heads), dim=2
        )
        q = rotate(q, cos, sin).view(batch, time, self.kv_heads, -1, self.head_dim).transpose(1, 2)
        k, v = rotate(k, cos, sin).transpose(1, 2), v.transpose(1, 2)
        y, _ = attend(*(part.flatten(0, 1).contiguous() for part in (q, k, v)))
        y = y.view(q.shape).transpose(1, 2).reshape(batch, time, -1)
        x = x + F.linear(y, self.o.to(dtype))
        y = F.rms_norm(x, (x.shape[-1],), self.mlp_norm.to(dtype), self.eps)
        gate, up = F.linear(y, torch.cat((self.gate, self.up)).to(dtype)).chunk(2, dim=-1)
        return x + F.linear(F.silu(gate) * up, self.down.to(dtype))


class Model(nn.Module):
    """The whole decoder with tied embeddings; calling it gives the mean loss of a batch."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Parameter(torch.empty(shape.vocab_size, shape.hidden_size))
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.num_hidden_layers))
        self.norm = nn.Parameter(torch.ones(shape.hidden_size))
        half = torch.arange(0, shape.head_dim, 2).float() / shape.head_dim
        angles = torch.outer(torch.arange(shape.max_position_embeddings).float(), shape.rope_theta**-half)
        self.register_buffer("cos", angles.cos()[:, None].bfloat16(), persistent=False)
        self.register_buffer("sin", angles.sin()[:, None].bfloat16(), persistent=False)
        self.initialise()

    def initialise(self) -> None:
        """Draw the weights; what adds to the residual stream starts smaller, the more layers add to it."""
        residual = 0.5 / (2 * self.shape.num_hidden_layers) ** 0.5
        for name, weight in self.named_parameters():
            if weight.ndim < 2:
                continue
            scale = 0.02 if name == "embedding" else weight.shape[1] ** -0.5
            if name.endswith((".o", ".down")):
                scale *= residual
            nn.init.normal_(weight, std=scale)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """tokens and targets [batch, time] int64 -> mean loss in nats a token."""
        table = self.embedding.bfloat16()
        x = F.embedding(tokens, table)
        cos, sin = self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, cos, sin)
        x = F.rms_norm(x, (x.shape[-1],), self.norm.to(x.dtype), self.shape.rms_norm_eps)
        return TiedLoss.apply(x.reshape(-1, x.shape[-1]), table, targets.reshape(-1))


def exported_weights(model: Model) -> dict[str, Tensor]:
    """Return the weights in bf16 under the names of ``LlamaForCausalLM``."""
    weights = {"model.embed_tokens.weight": model.embedding, "model.norm.weight": model.norm}
    names = {
        "attention_norm": "input_layernorm",
        "mlp_norm": "post_attention_layernorm",
        "q": "self_attn.q_proj",
        "k": "self_attn.k_proj",
        "v": "self_attn.v_proj",
        "o": "self_attn.o_proj",
        "gate": "mlp.gate_proj",
        "up": "mlp.up_proj",
        "down": "mlp.down_proj",
    }
    for index, layer in enumerate(model.layers):
        for name, weight in layer.named_parameters():
            weights[f"model.layers.{index}.{names[name]}.weight"] = weight
    return {name: weight.detach().bfloat16().contiguous() for name, weight in weights.items()}


def export(model: Model, tokenizer: Path, folder: Path) -> None:
    """Write the model and its tokenizer into ``folder``; each file appears whole or not at all, others there
    stay.
    """
    end = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **asdict(model.shape),
        **end,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": True,
        "dtype": "bfloat16",
        "use_cache": True,
    }
    text = "<|endoftext|>"
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": model.shape.max_position_embeddings,
        "bos_token": text,
        "eos_token": text,
        "pad_token": text,
        "unk_token": None,
        "clean_up_tokenization_spaces": False,
    }
    generation = {**end, "do_sample": True, "temperature": 0.7, "top_k": 0}
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        new = Path(temporary)
        save_file(exported_weights(model), new / "model.safetensors", metadata={"format": "pt"})
        for name, value in (
            ("config", config),
            ("generation_config", generation),
            ("tokenizer_config", tokenizer_config),
        ):
            (new / f"{name}.json").write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
        shutil.copyfile(tokenizer, new / "tokenizer.json")
        for file in sorted(new.iterdir()):
            file.chmod(0o644)
            os.replace(file, folder / file.name)
