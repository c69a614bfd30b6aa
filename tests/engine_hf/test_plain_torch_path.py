"""The path that runs on CUDA, gather + SDPA in plain torch: through the engine on a CPU, and on a GPU where
there is one (`pytest tests/engine_hf/test_plain_torch_path.py` on such a machine)."""

from __future__ import annotations

import pytest
import torch

from kvtop.assembly import assemble
from kvtop.engine.hf import runner as hf_runner
from kvtop.kernels.gather_sdpa import GatherAttention
from kvtop.options import RunOptions
from kvtop.workload.scenario import load_scenario

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU on this machine")


def outputs_of(scenario: str, **options) -> tuple[dict[str, list[int]], int, str]:
    run = assemble(
        RunOptions(dtype="fp32", keep_outputs=True, check=True, **options), load_scenario(scenario)
    )
    while not run.engine.done:
        run.step()
    preempted = run.scheduler.counts["swap"] + run.scheduler.counts["recompute"]
    return run.engine.outputs, preempted, run.runner.info.attention


@pytest.fixture
def gather_everywhere(monkeypatch):
    monkeypatch.setattr(hf_runner, "choose", lambda device, dtype: (GatherAttention(), GatherAttention.name))


@pytest.mark.parametrize("scenario", ["full-house-swap", "full-house-recompute"])
def test_on_a_cpu_it_gives_the_tokens_of_the_numba_kernel(gather_everywhere, monkeypatch, scenario):
    gathered, preempted, name = outputs_of(scenario, device="cpu")
    monkeypatch.undo()
    walked, _, other = outputs_of(scenario, device="cpu", blocks=1000)
    assert preempted > 0 and (name, other.split()[0]) == ("gather + sdpa", "numba")
    assert gathered == walked


@GPU
@pytest.mark.parametrize("scenario", ["full-house-swap", "full-house-recompute", "four-drafts", "beams"])
def test_on_a_gpu_the_pool_changes_no_token(scenario):
    torch.backends.cuda.matmul.allow_tf32 = False
    small, _, name = outputs_of(scenario, device="cuda")
    large, preempted, _ = outputs_of(scenario, device="cuda", blocks=2000)
    assert preempted == 0 and name == "gather + sdpa"
    assert small == large
