"""The model that ships inside: its folder, its shape, its loss on unseen text, and what it writes."""

from __future__ import annotations

import importlib.util
import json
import lzma
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "kvtop" / "models" / "inside-3m"
DATA = ROOT / "tests" / "data"

# A little above what the shipped weights were measured at; another training run may land on either side.
BITS_A_BYTE = 1.40


@pytest.fixture(scope="module")
def model() -> Any:
    return AutoModelForCausalLM.from_pretrained(FOLDER).eval()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(FOLDER)


@pytest.fixture(scope="module")
def quality() -> ModuleType:
    """The measures of the training folder, which is no package."""
    spec = importlib.util.spec_from_file_location("quality", ROOT / "training" / "quality.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def held_out() -> list[str]:
    """The beginnings of three held-out documents, one a line: an address of 1893, Moby-Dick 58, James 1."""
    return (DATA / "heldout.txt").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def written(model: Any) -> list[int]:
    """Five hundred tokens drawn at temperature 0.7, from the beginning of a document."""
    torch.manual_seed(3)
    ids = torch.tensor([[model.config.bos_token_id]])
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        min_new_tokens=500,
        max_new_tokens=500,
        do_sample=True,
        temperature=0.7,
        top_k=0,
    )
    return out[0, 1:].tolist()


def test_folder_is_small_and_whole() -> None:
    names = {file.name for file in FOLDER.iterdir()}
    assert names == {
        "README.md",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 8_000_000


def test_weights_are_bf16_and_tied() -> None:
    with safe_open(FOLDER / "model.safetensors", framework="pt") as weights:
        names = list(weights.keys())
        kinds = {weights.get_slice(name).get_dtype() for name in names}
    assert kinds == {"BF16"}
    assert "lm_head.weight" not in names


def test_shape(model: Any) -> None:
    config = model.config
    assert config.model_type == "llama"
    assert config.max_position_embeddings == 2048
    assert config.num_attention_heads % config.num_key_value_heads == 0
    assert 1 < config.num_key_value_heads < config.num_attention_heads
    assert model.dtype == torch.bfloat16
    assert model.num_parameters() < 3_900_000


def test_card_names_the_size(model: Any) -> None:
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"{model.num_parameters():,}" in card
    assert "Apache-2.0" in card


@pytest.mark.parametrize(
    "text", ["Call me Ishmael.", "  two  spaces\nand a line\t", "naïve — 漢字 🐋 \u200d", ""]
)
def test_tokenizer_gives_back_any_text(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer(text).input_ids) == text


def test_tokenizer_gives_back_held_out_text(tokenizer: Any, model: Any, held_out: list[str]) -> None:
    for line in held_out:
        ids = tokenizer(line).input_ids
        assert tokenizer.decode(ids) == line
        assert max(ids) < model.config.vocab_size
        assert len(line.encode("utf-8")) / len(ids) > 3.2


def test_special_tokens_agree(tokenizer: Any) -> None:
    config = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
    generation = json.loads((FOLDER / "generation_config.json").read_text(encoding="utf-8"))
    assert tokenizer.eos_token_id == config["eos_token_id"] == generation["eos_token_id"]
    assert tokenizer.bos_token_id == config["bos_token_id"] == generation["bos_token_id"]


@torch.no_grad()
def test_held_out_loss(model: Any, tokenizer: Any, held_out: list[str]) -> None:
    nats = 0.0
    for line in held_out:
        ids = torch.tensor([[tokenizer.bos_token_id, *tokenizer(line).input_ids]])
        logits = model(ids[:, :-1]).logits[0].float()
        nats += F.cross_entropy(logits, ids[0, 1:], reduction="sum").item()
    size = sum(len(line.encode("utf-8")) for line in held_out)
    assert nats / math.log(2) / size < BITS_A_BYTE


def test_sample_is_made_of_words(written: list[int], tokenizer: Any, quality: ModuleType) -> None:
    vocabulary = set(lzma.decompress((DATA / "words.txt.xz").read_bytes()).decode("utf-8").split())
    found = quality.words(tokenizer.decode(written))
    assert len(found) > 250
    assert quality.known_share(found, vocabulary) >= 0.95


def test_sample_does_not_go_round_in_circles(written: list[int], tokenizer: Any, quality: ModuleType) -> None:
    assert quality.worst_repeat(written) <= 3
    assert quality.worst_repeat(quality.words(tokenizer.decode(written))) <= 3


def test_repeats_are_counted_within_a_window(quality: ModuleType) -> None:
    phrase = list(range(8))
    assert quality.worst_repeat(phrase * 5) == 5
    assert quality.worst_repeat(phrase + list(range(100, 600)) + phrase) == 1
    assert quality.worst_repeat(phrase + list(range(100, 584)) + phrase) == 2
    assert quality.worst_repeat([1, 2, 3]) == 0
