"""Greedy tokens in fp32 equal those of transformers' own `generate`, whatever the blocks do."""

from __future__ import annotations

from typing import Any

import pytest

LENGTHS = (1, 3, 4, 5, 15, 16, 17, 40)
NEW_TOKENS = 14


@pytest.fixture(scope="module")
def runner_of(kit: Any) -> Any:
    """A runner of each kind, made once."""
    made: dict[str, Any] = {}
    return lambda kind: made.get(kind) or made.setdefault(kind, kit.tiny_runner(kind))


def check(kit: Any, kind: str, runner: Any, block_size: int, chunk: int) -> None:
    prompts = kit.prompts(LENGTHS)
    expected = kit.reference_tokens(kit.tiny_model(kind), prompts, NEW_TOKENS)
    assert len({tuple(tokens) for tokens in expected}) == len(prompts), "the model must tell prompts apart"
    server = kit.server(runner, block_size, 8 * 64 // block_size, chunk)
    for prompt in prompts:
        server.add(prompt)
    assert server.generate(NEW_TOKENS) == expected
    mixed = [counts for counts in server.forwards if 1 in counts and max(counts) > 1]
    assert mixed, "prefill and decode must have shared a forward"


@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "GPT2"])
def test_greedy_tokens_equal_generate(kit: Any, runner_of: Any, kind: str, block_size: int) -> None:
    check(kit, kind, runner_of(kind), block_size, chunk=7)


@pytest.mark.long
@pytest.mark.parametrize("chunk", [2, 7, 64])
@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "GPT2", "Qwen3", "Mistral", "Phi3", "OPT", "GPTNeoX"])
def test_greedy_tokens_equal_generate_on_more_models(
    kit: Any, runner_of: Any, kind: str, block_size: int, chunk: int
) -> None:
    check(kit, kind, runner_of(kind), block_size, chunk)
