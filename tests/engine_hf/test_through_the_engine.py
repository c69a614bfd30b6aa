"""The whole way, scheduler and memory included: the tokens are generate's, whatever the pool went through."""

from __future__ import annotations

from typing import Any

import pytest

from kvtop.engine.engine import Engine
from kvtop.memory.cache_manager import CacheManager
from kvtop.memory.events import PreemptionMode
from kvtop.scheduling.config import SchedulerConfig
from kvtop.scheduling.scheduler import Scheduler
from kvtop.workload.request import Request

NEW_TOKENS = 18
AMPLE = 4096
"""Slots in which nothing ever has to give way."""
TIGHT = 112
"""Slots that hold any one request, but not all of them at once."""


class Arrivals:
    """A workload of given requests, two a step."""

    endless = False
    holding_requests = 0

    def __init__(self, requests: list[Request]) -> None:
        self.requests = requests

    def arrivals(self, step: int, unfinished: int) -> list[Request]:
        return self.requests[2 * step - 2 : 2 * step]

    def exhausted(self, step: int) -> bool:
        return 2 * step >= len(self.requests)


def serve(runner: Any, requests: list[Request], slots: int, block_size: int, **options: Any) -> Engine:
    """An engine run to its end; its `outputs`, scheduler and manager tell what happened."""
    blocks, host_blocks = slots // block_size, options.pop("host_slots", 0) // block_size
    runner.allocate(blocks, block_size, host_blocks)
    runner._pool.device_kv.fill_(float("nan"))
    manager = CacheManager(
        blocks, block_size, host_blocks=host_blocks, prefix_caching=options.pop("prefix_caching", True)
    )
    config = SchedulerConfig(max_positions=runner.info.max_positions, **options)
    scheduler = Scheduler(manager, config, eos_token_ids=runner.eos_token_ids)
    engine = Engine(runner, manager, scheduler, Arrivals(requests), keep_outputs=True)
    while not engine.done:
        engine.step()
        assert engine.steps < 2000
    assert manager.pool.available_blocks == manager.pool.num_blocks
    return engine


def requests_of(prompts: list[list[int]], **settings: Any) -> list[Request]:
    return [
        Request(id=i, prompt_token_ids=tuple(prompt), max_new_tokens=NEW_TOKENS, seed=i, **settings)
        for i, prompt in enumerate(prompts, 1)
    ]


@pytest.fixture(scope="module")
def prompts(kit: Any) -> list[list[int]]:
    """Eight prompts; every second one begins as the first does."""
    made: list[list[int]] = kit.prompts([20, 3, 9, 16, 1, 33, 5, 12])
    return [made[0][:13] + prompt if i % 2 else prompt for i, prompt in enumerate(made)]


@pytest.fixture(scope="module")
def expected(kit: Any, prompts: list[list[int]]) -> Any:
    """generate's tokens by sequence name, for each kind of model; computed once."""
    known: dict[str, dict[str, list[int]]] = {}

    def of(kind: str) -> dict[str, list[int]]:
        if kind not in known:
            tokens = kit.reference_tokens(kit.tiny_model(kind), prompts, NEW_TOKENS)
            known[kind] = {str(i): row for i, row in enumerate(tokens, 1)}
        return known[kind]

    return of


@pytest.fixture(scope="module")
def runner_of(kit: Any) -> Any:
    """A runner of each kind, made once."""
    made: dict[str, Any] = {}
    return lambda kind: made.get(kind) or made.setdefault(kind, kit.tiny_runner(kind))


@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "GPT2"])
def test_prefix_hits(
    prompts: list[list[int]], expected: Any, runner_of: Any, kind: str, block_size: int
) -> None:
    cold = serve(runner_of(kind), requests_of(prompts), AMPLE, block_size, prefix_caching=False)
    warm = serve(runner_of(kind), requests_of(prompts * 2), AMPLE, block_size, token_budget=24)
    assert cold.manager.prefix_hits == 0 and warm.manager.prefix_hits > 0
    assert cold.outputs == expected(kind)
    again = {str(int(name) + len(prompts)): tokens for name, tokens in expected(kind).items()}
    assert warm.outputs == expected(kind) | again


@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("mode", list(PreemptionMode))
@pytest.mark.parametrize("kind", ["Llama", "GPT2"])
def test_preemption(
    prompts: list[list[int]], expected: Any, runner_of: Any, kind: str, mode: PreemptionMode, block_size: int
) -> None:
    engine = serve(
        runner_of(kind), requests_of(prompts), TIGHT, block_size, host_slots=AMPLE, preemption=mode,
        token_budget=40,
    )  # fmt: skip
    assert engine.scheduler.counts[mode.value] > 0
    assert engine.outputs == expected(kind)


@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_samples_part_by_copy_on_write_and_survive_preemption(
    prompts: list[list[int]], runner_of: Any, block_size: int
) -> None:
    requests = requests_of(prompts[:5], n=3, temperature=2.0, top_k=40, top_p=0.95)
    ample = serve(runner_of("Llama"), requests, AMPLE, block_size)
    assert len({tuple(tokens) for tokens in ample.outputs.values()}) == len(ample.outputs) == 15
    if block_size > 1:
        assert ample.manager.cow_copies > 0
    for mode in PreemptionMode:
        tight = serve(runner_of("Llama"), requests, 144, block_size, host_slots=AMPLE, preemption=mode)
        assert tight.scheduler.counts[mode.value] > 0
        assert tight.outputs == ample.outputs


@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_greedy_samples_are_generates(
    prompts: list[list[int]], expected: Any, runner_of: Any, block_size: int
) -> None:
    """Samples of a greedy request write the same tokens into blocks of their own after the copy."""
    engine = serve(runner_of("Llama"), requests_of(prompts[:4], n=2), AMPLE, block_size)
    wanted = expected("Llama")
    assert engine.outputs == {f"{i}.{branch}": wanted[str(i)] for i in range(1, 5) for branch in (1, 2)}


@pytest.mark.parametrize(("block_size", "tight_slots"), [(1, 84), (4, 112), (16, 112)])
def test_beams_are_the_best_found_by_hand(
    kit: Any, prompts: list[list[int]], runner_of: Any, block_size: int, tight_slots: int
) -> None:
    requests = requests_of(prompts[:3], beam_width=3, ignore_eos=True)
    engine = serve(runner_of("Llama"), requests, AMPLE, block_size)
    model = kit.tiny_model("Llama")
    for i, prompt in enumerate(prompts[:3], 1):
        ranked = beam_search(model, prompt, 3)
        assert [engine.outputs[f"{i}.{rank}"] for rank in (1, 2, 3)] == ranked
    for mode in PreemptionMode:
        tight = serve(
            runner_of("Llama"), requests, tight_slots, block_size, host_slots=AMPLE, preemption=mode
        )
        assert tight.scheduler.counts[mode.value] > 0
        assert tight.outputs == engine.outputs


def beam_search(model: Any, prompt: list[int], width: int) -> list[list[int]]:
    """Beam search without a cache: the whole sequence again for every token."""
    import torch

    beams: list[tuple[float, list[int]]] = [(0.0, [])]
    for _ in range(NEW_TOKENS):
        grown = []
        for score, tokens in beams:
            with torch.inference_mode():
                logits = model(torch.tensor([prompt + tokens]), use_cache=False).logits[0, -1]
            steps = torch.log_softmax(logits.double(), 0)
            best = steps.topk(width)
            grown += [
                (score + float(step), [*tokens, int(token)])
                for step, token in zip(best.values, best.indices, strict=True)
            ]
        beams = sorted(grown, reverse=True)[:width]
    return [tokens for _, tokens in beams]
