"""`kvtop run --batch` as a process of its own on a random Llama: steps and tokens a second."""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
from typing import Any

from gpu.model import random_llama, scenario
from gpu.session import ROOT, Session, say

LEAST_S = 20
"""That a run gets, whatever is left: a model takes some seconds to load."""


def run(session: Session) -> None:
    sequences, prompt, steps = (64, 512, 160) if session.cuda else (3, 20, 8)
    if session.quick and session.cuda:
        steps = 60
    folder = random_llama(session)
    asked = session.temporary / "batch.toml"
    asked.write_text(scenario("gpu-check", sequences, prompt, steps), encoding="utf-8")
    command = [sys.executable, "-m", "kvtop", "run", "--batch", "--json", "--model", str(folder)]
    command += ["--device", session.device.type, "--scenario", str(asked), "-n", str(steps)]
    if not session.cuda:
        command += ["--dtype", "fp32", "--kernels", "torch"]  # compiles nothing
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"},
        cwd=session.temporary,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    session.processes.append(process)
    try:
        out, said = process.communicate(timeout=max(LEAST_S, session.clock.left))
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        session.leave_out(f"kvtop run --batch: not done after {error.timeout:.0f} s")
        return
    if process.returncode != 0:
        why = " ".join((said or out).split())[-400:]
        session.fail(f"kvtop run --batch exits {process.returncode}: {why}")
        return
    lines = [json.loads(line) for line in out.splitlines()]
    if len(lines) != steps:
        session.fail(f"kvtop run --batch -n {steps} wrote {len(lines)} lines")
        return
    session.figures |= {"sequences": sequences, "prompt_tokens": prompt, "steps": steps}
    for line in said.splitlines():
        say(line)  # such as which kernels run instead
    found = decoding_figures(lines, sequences)
    if not found:
        session.fail(f"kvtop run --batch: no two steps in turn gave {sequences} tokens each")
    elif session.cuda:  # on a CPU the sizes mean nothing
        session.figures |= found
        rates = found["steps_per_s"], found["tokens_per_s"]
        say(
            f"kvtop run --batch, {sequences} sequences of {prompt} tokens and more",
            f"{rates[0]:.1f} steps/s",
            f"{rates[1]:,.0f} tokens/s",
        )


def decoding_figures(lines: list[dict[str, Any]], sequences: int) -> dict[str, Any]:
    """Of the steps in which every sequence gets one token, after the first few such, which warm up; empty
    where there is none. lines: what `--batch --json` writes."""
    timings = [
        line["timing"]
        for before, line in itertools.pairwise(lines)
        if line["generated_tokens"] - before["generated_tokens"] == sequences
    ]
    timings = timings[min(5, len(timings) // 2) :]
    if not timings:
        return {}
    median = statistics.median(sum(timing.values()) for timing in timings)
    found = {"decode_step_ms": median * 1e3, "steps_per_s": 1 / median, "tokens_per_s": sequences / median}
    for phase in timings[0]:  # schedule_s, run_s, update_s
        name = phase.removesuffix("_s")
        found[f"{name}_ms"] = statistics.median(timing[phase] for timing in timings) * 1e3
    return found
