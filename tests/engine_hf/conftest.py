"""Tiny random models, and a small loop that serves prompts through a runner without the scheduler."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import transformers

from kvtop.engine.hf.loading import prepare, quiet
from kvtop.engine.hf.runner import HFRunner
from kvtop.engine.runner import Row, StepPlan
from kvtop.workload.request import Request

VOCABULARY = 320

# Sizes that are unlike each other, so that a mixed-up axis shows.
TINY: dict[str, dict[str, Any]] = {
    "Llama": {"num_key_value_heads": 2, "num_attention_heads": 6, "hidden_size": 48, "head_dim": 8},
    "Qwen2": {"num_key_value_heads": 1, "num_attention_heads": 4, "hidden_size": 64},
    "GPT2": {"n_embd": 48, "n_head": 3, "n_layer": 3, "n_positions": 256},
    "Qwen3": {"num_key_value_heads": 2, "num_attention_heads": 4, "hidden_size": 64, "head_dim": 24},
    "Mistral": {"num_key_value_heads": 2, "num_attention_heads": 4, "hidden_size": 64, "sliding_window": 9},
    "Phi3": {"num_key_value_heads": 2, "num_attention_heads": 4, "hidden_size": 64, "pad_token_id": 0},
    "OPT": {"num_attention_heads": 4, "hidden_size": 64, "ffn_dim": 96, "word_embed_proj_dim": 64},
    "GPTNeoX": {"num_attention_heads": 4, "hidden_size": 64, "rotary_pct": 0.5},
    "Bloom": {"n_layer": 2, "n_head": 4, "hidden_size": 64},
    "Gemma2": {"num_key_value_heads": 2, "num_attention_heads": 4, "hidden_size": 64, "head_dim": 16},
    "GptOss": {"num_key_value_heads": 2, "num_attention_heads": 4, "hidden_size": 64, "head_dim": 16,
               "num_local_experts": 2, "num_experts_per_tok": 1},
    "Bert": {"num_attention_heads": 4, "hidden_size": 64},
}  # fmt: skip


def tiny_model(kind: str, seed: int = 3, **changes: Any) -> Any:
    """A random model of a few thousand weights, in fp32. Weights are large enough to tell tokens apart."""
    settings = {
        "vocab_size": VOCABULARY,
        "num_hidden_layers": 3,
        "intermediate_size": 96,
        "max_position_embeddings": 256,
        "initializer_range": 0.3,
        "bos_token_id": None,
        "eos_token_id": None,
        **TINY[kind],
        **changes,
    }
    config = getattr(transformers, f"{kind}Config")(**settings)
    torch.manual_seed(seed)
    with quiet():
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    # They begin as 0 and 1, which a forgotten bias or norm would not show.
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, float(name.endswith("weight")), 0.2)
    return model


def tiny_runner(kind: str, **changes: Any) -> HFRunner:
    """A runner on a tiny random model; `runner._network` is the model."""
    return prepare(
        tiny_model(kind, **changes), None, f"tiny {kind}", torch.device("cpu"), lambda message, fraction: None
    )


def reference_tokens(model: Any, prompts: Sequence[Sequence[int]], new_tokens: int) -> list[list[int]]:
    """What transformers' own `generate` gives, greedily, prompt by prompt; its attention is sdpa."""
    implementation = model.config._attn_implementation
    model.set_attn_implementation("sdpa")
    try:
        results = []
        for prompt in prompts:
            ids = torch.tensor([list(prompt)])
            with torch.inference_mode():
                out = model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=False,
                    max_new_tokens=new_tokens,
                    min_new_tokens=new_tokens,
                    pad_token_id=0,
                )
            results.append(out[0, len(prompt) :].tolist())
        return results
    finally:
        model.set_attn_implementation(implementation)


@dataclass
class Served:
    """A sequence on its way: what the scheduler would keep of it."""

    request: Request
    tokens: list[int]
    branch: int = 0
    stored: int = 0
    table: list[int] = field(default_factory=list)


class Server:
    """Serves prompts step by step: chunks of prompts and decodes in one packed forward, scattered blocks."""

    def __init__(self, runner: HFRunner, block_size: int, blocks: int, chunk: int, seed: int = 5) -> None:
        runner.allocate(blocks, block_size, blocks)
        # What was never written must never be read.
        runner._pool.device_kv.fill_(float("nan"))  # type: ignore[union-attr]
        runner._pool.host_kv.fill_(float("nan"))  # type: ignore[union-attr]
        self.runner, self.block_size, self.chunk = runner, block_size, chunk
        self.free = list(range(blocks))
        random.Random(seed).shuffle(self.free)
        self.sequences: list[Served] = []
        self.forwards: list[list[int]] = []

    def add(self, prompt: Sequence[int], **settings: Any) -> Served:
        """A new sequence, nothing of it stored."""
        request = Request(
            id=len(self.sequences), prompt_token_ids=tuple(prompt), max_new_tokens=10**6, **settings
        )
        self.sequences.append(Served(request, list(prompt)))
        return self.sequences[-1]

    def step(self, live: Sequence[Served], **plan: Any) -> None:
        """One forward over `live`, `plan` going into the StepPlan beside the rows."""
        rows = []
        for one in live:
            end = min(len(one.tokens), one.stored + self.chunk)
            while len(one.table) * self.block_size < end:
                one.table.append(self.free.pop())
            done = end == len(one.tokens)
            row = Row(one.request.id, one.request, one.branch, one.tokens[one.stored : end], one.stored,
                      one.table, int(done), 0)  # fmt: skip
            rows.append(row)
        self.forwards.append([len(row.token_ids) for row in rows])
        results = self.runner.run(StepPlan(rows=rows, **plan))
        for one, row, result in zip(live, rows, results, strict=True):
            one.stored += len(row.token_ids)
            one.tokens.extend(result.token_ids)

    def generate(self, new_tokens: int) -> list[list[int]]:
        """Serve until every sequence has its new tokens; the generated ids."""
        while live := [one for one in self.sequences if self.missing(one, new_tokens) > 0]:
            self.step(live)
        return self.outputs(new_tokens)

    def missing(self, one: Served, new_tokens: int) -> int:
        """How many tokens are still to come."""
        return new_tokens - (len(one.tokens) - len(one.request.prompt_token_ids))

    def outputs(self, new_tokens: int) -> list[list[int]]:
        """The first generated ids of every sequence."""
        return [one.tokens[len(one.request.prompt_token_ids) :][:new_tokens] for one in self.sequences]


def prompts(lengths: Sequence[int], seed: int = 11, vocabulary: int = VOCABULARY) -> list[list[int]]:
    """Random prompts of these lengths."""
    random_ids = random.Random(seed)
    return [[random_ids.randrange(vocabulary) for _ in range(length)] for length in lengths]


@dataclass(frozen=True)
class Kit:
    """The helpers above, handed to tests: test files cannot import from here."""

    tiny_model: Callable[..., Any] = tiny_model
    tiny_runner: Callable[..., HFRunner] = tiny_runner
    reference_tokens: Callable[..., list[list[int]]] = reference_tokens
    server: type[Server] = Server
    prompts: Callable[..., list[list[int]]] = prompts
    vocabulary: int = VOCABULARY


@pytest.fixture(scope="session")
def kit() -> Kit:
    """Helpers for tests that run a model."""
    return Kit()


@pytest.fixture(scope="session")
def llama() -> HFRunner:
    """A tiny Llama; tests may allocate its pool as they like."""
    return tiny_runner("Llama")
