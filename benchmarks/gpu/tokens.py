"""Tokens of greedy and beam search in fp32: through swaps and copies the same with Triton and plain torch."""

from __future__ import annotations

from typing import Any

from gpu.model import random_llama, scenario
from gpu.session import Session, say
from kvtop.assembly import assemble
from kvtop.engine.hf import load_runner
from kvtop.options import RunOptions
from kvtop.workload.scenario import load_scenario


def run(session: Session) -> None:
    # The pool holds a part of what is asked, so that sequences are swapped out and in.
    sizes: dict[str, Any] = {"sequences": 8, "prompt_tokens": 70, "new_tokens": 24, "blocks": 30}
    if not session.cuda:
        sizes = {"sequences": 3, "prompt_tokens": 14, "new_tokens": 6, "blocks": 6}
    asked = session.temporary / "tokens.toml"
    text = scenario("tokens", **sizes, host_blocks=200, token_budget=64)
    # Greedy and beam search in turn.
    asked.write_text(text.replace("temperature = 0.7", "beam_width = 2"), encoding="utf-8")
    model = "inside" if session.cuda else str(random_llama(session))
    outputs, counts = {}, {}
    for kernels in ("triton", "torch"):
        runner = load_runner(model, device=session.device.type, dtype="fp32", kernels=kernels)
        runner.allocate(sizes["blocks"], 16, 200)
        wanted = load_scenario(str(asked))
        made = assemble(RunOptions(keep_outputs=True), wanted, runner=runner)
        while not made.engine.done:
            if not session.clock.left:
                session.leave_out(f"tokens: not done with {kernels}")
                return
            made.step()
        outputs[kernels] = made.engine.outputs
        counts[kernels] = made.scheduler.counts["swap"], made.manager.cow_copies
    same = outputs["triton"] == outputs["torch"] and bool(outputs["triton"])
    tokens = sum(map(len, outputs["torch"].values()))
    session.figures |= {"tokens": tokens, "preemptions_by_swap": counts["triton"][0]}
    session.figures["copies_on_write"] = counts["triton"][1]
    session.findings.check("engine: tokens as with plain torch", "fp32", 0.0 if same else 1.0, 0.0, tokens)
    swaps, copies = counts["triton"]
    say(
        "greedy and beam tokens, Triton against plain torch",
        f"{tokens} tokens",
        f"{swaps} swaps, {copies} copies",
    )
