"""The scheduler fills a small pool, swaps and recomputes on each implementation of the kernels, and no token
changes: on a CPU, and on a GPU where there is one (`pytest tests/engine_hf/test_full_house.py` there)."""

from __future__ import annotations

import pytest
import torch

from kvtop.assembly import assemble
from kvtop.options import RunOptions
from kvtop.workload.scenario import load_scenario

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU on this machine")


def outputs_of(scenario: str, **options) -> tuple[dict[str, list[int]], int, str]:
    """Tokens by sequence, preemptions, and the kernels that ran."""
    run = assemble(
        RunOptions(dtype="fp32", keep_outputs=True, check=True, **options), load_scenario(scenario)
    )
    while not run.engine.done:
        run.step()
    preempted = run.scheduler.counts["swap"] + run.scheduler.counts["recompute"]
    return run.engine.outputs, preempted, run.runner.info.kernels


@pytest.mark.parametrize("scenario", ["full-house-swap", "full-house-recompute"])
def test_plain_torch_gives_the_tokens_of_the_numba_kernel(scenario):
    gathered, preempted, name = outputs_of(scenario, device="cpu", kernels="torch")
    walked, _, other = outputs_of(scenario, device="cpu", blocks=1000)
    assert preempted > 0 and (name, other) == ("torch", "numba")
    assert gathered == walked


@GPU
@pytest.mark.parametrize("kernels", ["triton", "torch"])
@pytest.mark.parametrize("scenario", ["full-house-swap", "full-house-recompute", "four-drafts", "beams"])
def test_on_a_gpu_the_pool_changes_no_token(scenario, kernels):
    torch.backends.cuda.matmul.allow_tf32 = False
    small, _, name = outputs_of(scenario, device="cuda", kernels=kernels)
    large, preempted, _ = outputs_of(scenario, device="cuda", blocks=2000, kernels=kernels)
    assert preempted == 0 and name == kernels
    assert small == large
