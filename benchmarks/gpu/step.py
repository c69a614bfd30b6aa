"""A step of the engine on a random Llama: how long the GPU is idle in it, and what crosses the bus.

The wall time is taken without the profiler, the GPU's time with it.
"""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

import torch

from gpu import trace
from gpu.model import random_llama, scenario
from gpu.session import Session, say
from kvtop.assembly import assemble
from kvtop.engine.hf import load_runner
from kvtop.engine.hf.runner import HFRunner
from kvtop.options import RunOptions
from kvtop.session.run import Run
from kvtop.workload.scenario import load_scenario

COPIES = 1
"""Each way, in a decode step."""
LONGEST_PREFILL = 400
SPARE = 80
"""Tokens that the first sequences generate while the last prompts are computed."""


def run(session: Session) -> None:
    sizes = (64, 1, 256) if session.cuda else (3,)
    options: dict[str, Any] = {} if session.cuda else {"dtype": "fp32", "kernels": "torch"}
    runner = load_runner(str(random_llama(session)), device=session.device.type, **options)
    session.figures["attention"] = runner.info.attention
    cases: list[dict[str, Any]] = []
    session.figures["cases"] = cases
    for done, sequences in enumerate(sizes):
        if not session.clock.left:
            session.leave_out(f"step: batch {', '.join(map(str, sizes[done:]))}")
            return
        cases.append(_measure(session, runner, sequences))


def _measure(session: Session, runner: HFRunner, sequences: int) -> dict[str, Any]:
    prompt, measured, profiled = (512, 40, 8) if session.cuda else (20, 3, 2)
    warm = 8 if session.cuda else 1
    asked = session.temporary / f"step-{sequences}.toml"
    new = warm + measured + profiled + SPARE
    asked.write_text(scenario("step", sequences, prompt, new), encoding="utf-8")
    wanted = load_scenario(str(asked))
    blocks = wanted.pool.blocks
    assert blocks is not None
    runner.allocate(blocks, 16, 0)
    runner.warm_up()
    engine_run = assemble(RunOptions(), wanted, runner=runner)
    _to_decoding(engine_run, sequences)
    for _ in range(warm):
        _decode(engine_run, sequences)
    walls, host = [], []
    for _ in range(measured):
        began = time.perf_counter()
        _decode(engine_run, sequences)  # waits for the tokens, so for all of the GPU's work
        walls.append(time.perf_counter() - began)
        host.append(engine_run.engine.timings[0] + engine_run.engine.timings[2])
    wall = statistics.median(walls)
    found: dict[str, Any] = {"sequences": sequences}
    events = _profile(session, engine_run, sequences, profiled)
    if not session.cuda:
        return found
    found |= {"wall_ms": wall * 1e3, "steps_per_s": 1 / wall, "tokens_per_s": sequences / wall}
    found["scheduler_and_memory_ms"] = statistics.median(host) * 1e3
    seen = trace.figures(events, profiled)
    what = f"step of {sequences} sequences"
    if not seen:
        session.leave_out(f"{what}: the profiler saw nothing of the GPU")
        say(what, f"{wall * 1e3:.2f} ms")
        return found
    found |= seen
    found["gpu_idle_share"] = max(0.0, 1 - found["gpu_busy_us"] / (wall * 1e6))
    say(what, f"{wall * 1e3:.2f} ms", f"GPU idle {found['gpu_idle_share']:.0%} ({1 / wall:.0f} steps/s)")
    ways = {way: found[f"{way}_copies"] for way in ("host_to_device", "device_to_host")}
    held = all(count == COPIES for count in ways.values())
    say(
        "... copies to the device and back",
        " and ".join(f"{count:g}" for count in ways.values()),
        f"{COPIES} each  " + ("held" if held else "MISSED"),
    )
    for way, count in ways.items():
        name = f"{way}_copies_in_a_decode_step_of_{sequences}"
        session.budget(name, count, COPIES, count == COPIES)
    return found


def _to_decoding(run: Run, sequences: int) -> None:
    """Step until every sequence decodes. Raises RuntimeError when that never happens."""
    for _ in range(LONGEST_PREFILL):
        entries = run.engine.step().entries
        if len(entries) == sequences and all(entry.tokens == 1 for entry in entries):
            return
    raise RuntimeError(f"no step of {sequences} decoding sequences in {LONGEST_PREFILL} steps")


def _decode(run: Run, sequences: int) -> None:
    tokens = run.engine.step().tokens
    if tokens != sequences:
        raise RuntimeError(f"a step of {tokens} tokens among those of {sequences} decoding sequences")


def _profile(session: Session, run: Run, sequences: int, steps: int) -> list[dict[str, Any]]:
    """The events of so many steps."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if session.cuda:
        activities = [torch.profiler.ProfilerActivity.CUDA]
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=activities):  # the first one is slow to start
            _decode(run, sequences)
            torch.cuda.synchronize()
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(steps):
            _decode(run, sequences)
        if session.cuda:
            torch.cuda.synchronize()
    path = session.temporary / "trace.json"
    profiler.export_chrome_trace(str(path))
    events: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return events
