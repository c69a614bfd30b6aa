"""Sampling with torch, where the logits are, gives what sampling with NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kvtop.engine.hf import device_sampling
from kvtop.engine.hf.drawing import answers, draw, plan_drawing
from kvtop.engine.runner import Row
from kvtop.kernels.upload import upload
from kvtop.workload.request import Request

CPU = torch.device("cpu")


def row(i: int, samples: int = 1, candidates: int = 0, **settings: Any) -> Row:
    """A row of request i that is answered."""
    request = Request(id=i, prompt_token_ids=(1,), max_new_tokens=9, seed=100 + i, **settings)
    return Row(i << 16, request, 0, [5], 10 + i, [0], samples, candidates)


def both(rows: list[Row], logits: np.ndarray) -> tuple[Any, Any]:
    """The answers by NumPy and by torch."""
    plan = plan_drawing(rows)
    by_numpy = answers(rows, plan, draw(logits, rows, plan))
    uploaded = upload(device_sampling.metadata(plan), CPU)
    drawn = device_sampling.draw(torch.from_numpy(logits), plan, uploaded)
    return by_numpy, answers(rows, plan, drawn)


@pytest.mark.parametrize("vocabulary", [3, 320, 5000])
def test_every_kind_of_row_in_one_step(vocabulary: int) -> None:
    generator = np.random.default_rng(vocabulary)
    settings: list[dict[str, Any]] = [
        {"temperature": 0.0},
        {"temperature": 1.0},
        {"temperature": 0.7, "samples": 4},
        {"temperature": 1.3, "top_k": 7, "samples": 3},
        {"temperature": 1.0, "top_p": 0.8, "samples": 3},
        {"temperature": 2.0, "top_k": 50, "top_p": 0.5, "samples": 2},
        {"temperature": 0.0, "samples": 2},
        {"samples": 0, "candidates": 2},
        {"samples": 0, "candidates": 3},
    ]
    for repeat in range(8):
        rows = [row(i + 20 * repeat, **each) for i, each in enumerate(settings)]
        logits = (3 * generator.standard_normal((len(rows), vocabulary))).astype(np.float32)
        ours, theirs = both(rows, logits)
        assert [one.token_ids for one in theirs] == [one.token_ids for one in ours]
        assert ours[6].token_ids == (int(logits[6].argmax()),) * 2
        for one, other in zip(ours, theirs, strict=True):
            assert [token for token, _ in other.candidates] == [token for token, _ in one.candidates]
            np.testing.assert_allclose(
                [score for _, score in other.candidates], [score for _, score in one.candidates], atol=1e-5
            )


def test_of_equal_logits_the_smallest_id_is_first() -> None:
    logits = np.zeros((4, 50), np.float32)
    logits[:, [7, 31]] = 2.0
    rows = [
        row(0),
        row(1, temperature=1.0, top_k=1),
        row(2, samples=0, candidates=4),
        row(3, temperature=1.0),
    ]
    ours, theirs = both(rows, logits)
    assert theirs[0].token_ids == theirs[1].token_ids == (7,)
    assert [token for token, _ in theirs[2].candidates] == [7, 31, 0, 1]
    assert theirs[3].token_ids == ours[3].token_ids


def test_a_row_that_holds_nan_gives_numpys_answer() -> None:
    logits = np.zeros((1, 9), np.float32)
    logits[0, [4, 6]] = np.nan
    ours, theirs = both([row(0)], logits)
    assert theirs[0].token_ids == ours[0].token_ids == (4,)


def test_an_engine_that_samples_on_the_device_gives_the_same_tokens(kit: Any) -> None:
    """The path of a GPU, its tensors on the CPU: one upload holds all that the step needs."""
    runner = kit.tiny_runner("Llama")
    outputs = []
    for there in (False, True):
        runner._samples_on_device = there
        server = kit.server(runner, 4, 64, chunk=5)
        for i, prompt in enumerate(kit.prompts([7, 3, 12])):
            server.add(prompt, temperature=(0.0, 1.0, 0.8)[i], top_p=(1.0, 0.9, 1.0)[i], seed=i)
        outputs.append(server.generate(8))
    assert outputs[0] == outputs[1]
