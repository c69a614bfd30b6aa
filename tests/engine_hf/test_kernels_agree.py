"""Greedy tokens are the same with each implementation of the kernels: those of transformers' `generate`."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvtop.engine.hf import runner as runner_module
from kvtop.engine.hf.loading import prepare
from kvtop.engine.hf.runner import HFRunner
from kvtop.engine.runner import Row, StepPlan
from kvtop.kernels.choice import KINDS

CPU = torch.device("cpu")


def runner_on(kit: Any, kernels: str, kind: str, **changes: Any) -> tuple[HFRunner, Any]:
    """A tiny model on some kernels, and the model."""
    if kernels == "triton":
        pytest.importorskip("triton")
        if torch.cuda.is_available():
            pytest.skip("on a GPU Triton is not interpreted: test_full_house.py runs there")
    model = kit.tiny_model(kind, **changes)
    return prepare(model, None, f"tiny {kind}", CPU, lambda message, fraction: None, kernels), model


@pytest.mark.parametrize("kernels", KINDS)
def test_tokens_are_those_of_generate(kit: Any, kernels: str) -> None:
    few = kernels == "triton"  # interpreted
    runner, model = runner_on(kit, kernels, "Llama", num_hidden_layers=1 if few else 3)
    assert runner.info.kernels == kernels and runner.info.kernels_note is None
    prompts = kit.prompts([5, 9] if few else [5, 9, 30, 1])
    server = kit.server(runner, 4, 64, chunk=6)
    for prompt in prompts:
        server.add(prompt)
    new_tokens = 4 if few else 12
    assert server.generate(new_tokens) == kit.reference_tokens(model, prompts, new_tokens)
    assert any(len(set(tokens)) > 2 for tokens in server.outputs(new_tokens))


@pytest.mark.parametrize("kernels", KINDS)
def test_a_sliding_window(kit: Any, kernels: str) -> None:
    few = kernels == "triton"
    runner, model = runner_on(kit, kernels, "Mistral", num_hidden_layers=1)
    (prompt,) = kit.prompts([14])
    server = kit.server(runner, 4, 64, chunk=64)
    server.add(prompt)
    new_tokens = 2 if few else 8
    assert server.generate(new_tokens) == kit.reference_tokens(model, [prompt], new_tokens)


@pytest.mark.parametrize("kernels", KINDS)
def test_blocks_move_before_they_are_read(kit: Any, kernels: str) -> None:
    """Swapped out, in elsewhere, and copied: what follows is as if nothing had moved."""
    runner, model = runner_on(kit, kernels, "Llama", num_hidden_layers=1)
    (prompt,) = kit.prompts([7])
    server = kit.server(runner, 4, 16, chunk=64)
    one = server.add(prompt)
    server.step([one])
    old, host = list(one.table), list(range(len(one.table)))
    fresh = [server.free.pop() for _ in old]
    runner.run(StepPlan(swaps_out=list(zip(old, host, strict=True))))
    runner._pool.device_kv[:, :, old] = float("nan")  # type: ignore[union-attr]
    last = server.free.pop()
    one.table = [fresh[0], last]
    server.step([one], swaps_in=list(zip(host, fresh, strict=True)), copies=[(fresh[1], last)])
    assert server.outputs(2) == kit.reference_tokens(model, [prompt], 2)


def test_a_steps_arrays_go_to_the_device_at_once(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, _ = runner_on(kit, "torch", "Llama", num_hidden_layers=1)
    server = kit.server(runner, 4, 32, chunk=64)
    for prompt in kit.prompts([5, 6]):
        server.add(prompt, temperature=1.0)
    uploads: list[set[str]] = []
    upload = runner_module.upload

    def noted(arrays: Any, device: torch.device) -> Any:
        uploads.append(set(arrays))
        return upload(arrays, device)

    monkeypatch.setattr(runner_module, "upload", noted)
    runner._samples_on_device = True
    server.step(server.sequences)
    (names,) = uploads
    assert {"token_ids", "positions", "last_tokens", "gather.tables", "draws.uniforms"} <= names


def test_the_first_layer_waits_for_the_swaps(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, _ = runner_on(kit, "torch", "Llama", num_hidden_layers=2)
    order: list[str] = []

    def noted(owner: Any, name: str) -> None:
        done = getattr(owner, name)
        monkeypatch.setattr(
            type(owner), name, lambda self, *arguments: (order.append(name), done(*arguments))[1]
        )

    for owner, name in ((runner._kernels.mover, "run"), (runner._kernels.mover, "settle")):
        noted(owner, name)
    noted(runner._kernels.attention, "__call__")
    server = kit.server(runner, 4, 16, chunk=64)
    one = server.add(kit.prompts([5])[0])
    server.step([one])
    server.step([one], swaps_out=[(one.table[0], 0)], swaps_in=[(0, server.free.pop())])
    assert order == ["settle", "__call__", "__call__", "run", "settle", "__call__", "__call__"]
    order.clear()
    runner.run(StepPlan(swaps_out=[(one.table[0], 0)]))
    assert order == ["run", "settle"]


def test_reads_are_counted_by_the_tables_and_windows(kit: Any) -> None:
    runner, _ = runner_on(kit, "numba", "Mistral", num_hidden_layers=2)
    runner.allocate(16, 4, 0)
    assert runner.info.windows == (9, 9) and runner.info.windowed
    request = kit.server(runner, 4, 16, chunk=64).add([1]).request
    rows = [
        Row(0, request, 0, [3] * 14, 0, [5, 6, 7, 9], 1, 0),
        Row(1 << 16, request, 0, [3] * 6, 0, [1, 0], 1, 0),
    ]
    runner.run(StepPlan(rows=rows))
    per_token = runner.bytes_per_block(4) // 4
    # The first query of a prompt sees from its first token on: all of both.
    assert runner.reads == (20 * per_token, 6, 4)
    runner.run(StepPlan(rows=[Row(0, request, 0, [3], 14, [5, 6, 7, 9], 1, 0)]))
    # Tokens 6 to 14 of 15: in logical blocks 1 to 3.
    assert runner.reads == (9 * per_token, 3, 2)
    runner.run(StepPlan(copies=[(1, 2)]))
    assert runner.reads is None
