"""Copies, swaps and sharing leave the tokens as they are."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvtop.engine.hf.pool import KVPool, KVShape
from kvtop.engine.runner import Row, StepPlan


@pytest.fixture(scope="module")
def expected(kit: Any) -> Any:
    """generate's tokens for prompts of the tiny Llama."""
    model = kit.tiny_model("Llama")
    return lambda prompts, new_tokens: kit.reference_tokens(model, prompts, new_tokens)


@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_copy_on_write_lets_two_branches_part(kit: Any, llama: Any, expected: Any, block_size: int) -> None:
    (prompt,) = kit.prompts([10])
    server = kit.server(llama, block_size, 128, chunk=64)
    parent = server.add(prompt)
    server.step([parent])
    first = parent.tokens[-1]
    child = server.add(prompt)
    # The child shares every block, and is made to go another way from here on.
    child.stored, child.table = parent.stored, list(parent.table)
    child.tokens.append((first + 1) % kit.vocabulary)
    copies = []
    if parent.stored % block_size:
        fresh = server.free.pop()
        copies = [(child.table[-1], fresh)]
        child.table[-1] = fresh
    server.step([parent, child], copies=copies)
    outputs = server.generate(9)
    assert outputs[0] == expected([prompt], 9)[0]
    assert outputs[1][1:] == expected([prompt + child.tokens[10:11]], 8)[0]


@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_swap_out_and_in_elsewhere_keeps_the_tokens(
    kit: Any, llama: Any, expected: Any, block_size: int
) -> None:
    prompts = kit.prompts([9, 18])
    server = kit.server(llama, block_size, 96, chunk=64)
    staying, leaving = (server.add(prompt) for prompt in prompts)
    for _ in range(4):
        server.step([staying, leaving])
    host = list(range(len(leaving.table)))[::-1]
    server.step([staying], swaps_out=list(zip(leaving.table, host, strict=True)))
    llama._pool.device_kv[:, :, leaving.table] = float("nan")
    server.step([staying])
    back = [server.free.pop() for _ in leaving.table]
    leaving.table = list(back)
    server.step([staying, leaving], swaps_in=list(zip(host, back, strict=True)))
    assert server.generate(12) == expected(prompts, 12)


def test_swaps_out_come_before_swaps_in_before_copies(kit: Any) -> None:
    shape = KVShape(layers=2, kv_heads=1, group=1, head_dim=2, dtype=torch.float32, windows=(0, 0))
    pool = KVPool(shape, 4, 2, 2, torch.device("cpu"))
    runner = kit.tiny_runner("Llama", num_hidden_layers=2)
    runner._pool = pool
    for block in range(4):
        pool.device_kv[:, :, block] = float(block)
    pool.host_kv[:, :, 0], pool.host_kv[:, :, 1] = 10.0, 11.0
    # Host block 0 is filled from device block 1, which is then taken over by host block 1's content.
    runner.run(StepPlan(swaps_out=[(1, 0)], swaps_in=[(1, 1)], copies=[(1, 2), (2, 3)]))
    assert [float(pool.device_kv[1, 1, block].mean()) for block in range(4)] == [0.0, 11.0, 11.0, 11.0]
    assert float(pool.host_kv[0, 0, 0].mean()) == 1.0


def test_a_row_reads_what_an_earlier_row_of_the_same_step_writes(kit: Any, llama: Any, expected: Any) -> None:
    (prompt,) = kit.prompts([13])
    server = kit.server(llama, 4, 32, chunk=64)
    whole = server.add(prompt)
    server.step([whole])
    alone = whole.tokens[-1]
    # Again, in one step: one row writes two blocks, another the rest and reads all four. Either order.
    for first_row_last in (False, True):
        llama._pool.device_kv.fill_(float("nan"))
        rows = [
            Row(0, whole.request, 0, prompt[:8], 0, whole.table, 0, 0),
            Row(1, whole.request, 0, prompt[8:], 8, whole.table, 1, 0),
        ]
        if first_row_last:
            rows.reverse()
        results = llama.run(StepPlan(rows=rows))
        assert sorted(result.token_ids for result in results) == [(), (alone,)]


def test_rows_in_the_middle_of_a_prefill_give_nothing(kit: Any, llama: Any) -> None:
    server = kit.server(llama, 4, 32, chunk=3)
    one = server.add(kit.prompts([7])[0])
    server.step([one])
    assert (len(one.tokens), one.stored) == (7, 3)
