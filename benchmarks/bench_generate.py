"""CPU-seconds of the runner against transformers' `generate`, on the same model, prompts and machine.

    python benchmarks/bench_generate.py [--model smollm2] [--prompts 16] [--tokens 64] [--dtype bf16]

Budget: at most generate's. CPU time of the process is compared, not wall time: other programs run too. Each
is measured three times, in turn, and the smallest figure counts.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

from kvtop.engine.hf import load_runner
from kvtop.engine.hf.loading import DTYPES
from kvtop.engine.runner import Row, StepPlan
from kvtop.workload.request import Request

WORDS = "the president of the united states said to the congress that peace and trade were at hand".split()


def prompts_of(encode: Callable[[str], list[int]], count: int) -> list[list[int]]:
    """Prompts of unequal lengths."""
    texts = (" ".join(WORDS[i % 7 :] + WORDS[: 2 + i % 11]) for i in range(count))
    return [encode(text) for text in texts]


def serve(runner: Any, prompts: list[list[int]], new_tokens: int, block_size: int = 16) -> list[list[int]]:
    """Every prompt to its end, all in one batch, greedily; no scheduler and no memory manager."""
    tokens = [list(prompt) for prompt in prompts]
    stored = [0] * len(prompts)
    each = -(-(max(map(len, prompts)) + new_tokens) // block_size)
    tables = [list(range(i * each, (i + 1) * each)) for i in range(len(prompts))]
    requests = [
        Request(id=i, prompt_token_ids=tuple(prompt), max_new_tokens=new_tokens)
        for i, prompt in enumerate(prompts)
    ]
    for _ in range(new_tokens):
        rows = [
            Row(i, requests[i], 0, tokens[i][stored[i] :], stored[i], tables[i], 1, 0)
            for i in range(len(prompts))
        ]
        for i, result in enumerate(runner.run(StepPlan(rows=rows))):
            stored[i] = len(tokens[i])
            tokens[i].extend(result.token_ids)
    return [row[len(prompt) :] for row, prompt in zip(tokens, prompts, strict=True)]


def generate(model: Any, prompts: list[list[int]], new_tokens: int) -> list[list[int]]:
    """The same by transformers: padded on the left, all in one batch."""
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    with torch.inference_mode():
        out = model.generate(
            ids,
            attention_mask=mask,
            do_sample=False,
            max_new_tokens=new_tokens,
            min_new_tokens=new_tokens,
            pad_token_id=0,
        )
    return [row[width:] for row in out.tolist()]


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time of one call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--dtype", default="bf16", choices=list(DTYPES))
    options = parser.parse_args()

    from transformers import AutoModelForCausalLM

    from kvtop.engine.hf import convert, sources

    runner = load_runner(options.model, device="cpu", dtype=options.dtype)
    source = sources.find(options.model)
    folder = source.folder or convert.unpacked(source, lambda message, fraction: None)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=DTYPES[options.dtype]).eval()
    prompts = prompts_of(runner.encode, options.prompts)
    longest = max(map(len, prompts)) + options.tokens
    runner.allocate(options.prompts * -(-longest // 16), 16, 0)
    runner.warm_up()
    generate(model, prompts, 2)
    serve(runner, prompts, 2)
    ours, theirs = [], []
    for _ in range(3):
        ours.append(cpu_seconds(lambda: serve(runner, prompts, options.tokens)))
        theirs.append(cpu_seconds(lambda: generate(model, prompts, options.tokens)))
    made = options.prompts * options.tokens
    print(f"{runner.info.model} {runner.info.dtype}, {options.prompts} prompts x {options.tokens} tokens")
    print(f"kvtop     {min(ours):7.2f} CPU-s  {made / min(ours):8.0f} tokens/CPU-s  ({runner.info.attention})")
    print(f"generate  {min(theirs):7.2f} CPU-s  {made / min(theirs):8.0f} tokens/CPU-s")
    print(f"ratio     {min(ours) / min(theirs):7.2f}        budget 1.00")


if __name__ == "__main__":
    main()
