"""A Llama of random weights, with the tokenizer of the model inside, and what to ask of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch

from gpu.session import ROOT, Session, say

INSIDE = ROOT / "kvtop" / "models" / "inside-3m"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")

BILLION: dict[str, int] = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
}
TINY: dict[str, int] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "vocab_size": 4096,
    "max_position_embeddings": 512,
}


def random_llama(session: Session) -> Path:
    """The folder of about a billion parameters on a GPU, of a tiny model without one; made once."""
    folder = session.temporary / "random-llama"
    if folder.exists():
        return folder
    from transformers import AutoModelForCausalLM, LlamaConfig

    from kvtop.engine.hf.loading import quiet

    sizes: dict[str, Any] = dict(BILLION if session.cuda else TINY)
    config = LlamaConfig(**sizes, bos_token_id=0, eos_token_id=0, pad_token_id=0, tie_word_embeddings=True)
    torch.manual_seed(0)
    partial = folder.with_name("partial")
    with quiet():
        with torch.device(session.device):
            model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        model.save_pretrained(partial)
    for name in TOKENIZER:
        shutil.copyfile(INSIDE / name, partial / name)
    partial.rename(folder)
    parameters = sum(tensor.numel() for tensor in model.parameters())
    session.figures["parameters"] = parameters
    say("random Llama", f"{parameters / 1e6:,.1f} M parameters")
    return folder


def scenario(
    name: str,
    sequences: int,
    prompt_tokens: int,
    new_tokens: int,
    *,
    token_budget: int = 8192,
    blocks: int | None = None,
    host_blocks: int = 0,
    temperatures: tuple[float, ...] = (0.0, 0.7),
) -> str:
    """A scenario file: all requests at once, none ends early; their temperatures in turn."""
    needed = sequences * (-(-(prompt_tokens + new_tokens) // 16) + 1)
    lines = [
        f'name = "{name}"',
        "[pool]",
        f"blocks = {blocks or needed}",
        "block_size = 16",
        f"host_blocks = {host_blocks}",
        f'preemption = "{"swap" if host_blocks else "recompute"}"',
        "[scheduler]",
        f"max_sequences = {4 * sequences}",
        f"token_budget = {max(token_budget, 4 * sequences)}",
        "watermark = 0.0",
    ]
    for index in range(sequences):
        lines += [
            "[[request]]",
            f"prompt_tokens = {prompt_tokens}",
            f"max_new_tokens = {new_tokens}",
            "ignore_eos = true",
            f"temperature = {temperatures[index % len(temperatures)]}",
        ]
    return "\n".join(lines) + "\n"
