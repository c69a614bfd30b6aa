"""What must be shown, on the real model."""

from __future__ import annotations

import json

import pytest

from kvtop.assembly import assemble
from kvtop.options import RunOptions
from kvtop.workload.scenario import load_scenario


def test_mixed_twice(kvtop):
    runs = []
    for _ in range(2):
        done = kvtop("run", "--batch", "-n", "200", "--json", "--seed", "1")
        assert done.returncode == 0, done.stderr
        run = [json.loads(line) for line in done.stdout.splitlines()]
        for line in run:
            del line["timing"]
            blocks = line["blocks"]
            assert blocks["used"] + blocks["cached"] + blocks["free"] == blocks["total"]
            assert 0 < line["kv_runs_read"] <= line["kv_blocks_read"]
            # 6 layers x K and V x 2 heads x 32 numbers x 2 or 4 bytes for each token, at most 16 in a block.
            per_token = line["kv_bytes_read"] / line["kv_blocks_read"] / 16
            assert 0 < per_token <= 6 * 2 * 2 * 32 * 4
        runs.append(run)
    assert runs[0] == runs[1]
    assert len(runs[0]) == 200
    assert sum(runs[0][-1]["preemptions"].values()) > 0


@pytest.mark.parametrize("scenario", ["full-house-swap", "full-house-recompute"])
def test_a_full_house_changes_no_token(scenario):
    outputs = []
    for blocks in (None, 1000):
        run = assemble(
            RunOptions(dtype="fp32", blocks=blocks, keep_outputs=True, check=True), load_scenario(scenario)
        )
        while not run.engine.done:
            run.engine.step()
            run.checker.step_ended()
        assert run.manager.pool.used_blocks == run.manager.host_pool.used_blocks == 0
        outputs.append((run.engine.outputs, run.scheduler.counts["swap"], run.scheduler.counts["recompute"]))
    (small, swaps, recomputes), (large, *none) = outputs
    assert small == large
    assert none == [0, 0]
    assert (swaps if scenario == "full-house-swap" else recomputes) > 0
