"""Steps a second of the generator on the model inside, and the share of a step that is scheduler, memory and
events (the rest is the model)."""

from __future__ import annotations

import time

from measure import one_thread, say

one_thread()

from kvtop.assembly import assemble  # noqa: E402
from kvtop.options import RunOptions  # noqa: E402
from kvtop.workload.scenario import load_scenario  # noqa: E402

STEPS = 150


def main() -> None:
    run = assemble(RunOptions(device="cpu", seed=1, max_sequences=64), load_scenario("mixed"))
    run.bus.subscribe(lambda event: None)
    for _ in range(STEPS):
        run.step()
    sequences, ours, model = 0, 0.0, 0.0
    began = time.process_time()
    for _ in range(STEPS):
        run.step()
        schedule, compute, update = run.engine.timings
        ours, model = ours + schedule + update, model + compute
        sequences += run.scheduler.sequence_counts()[0]
    seconds = time.process_time() - began
    say("sequences running, on average", f"{sequences / STEPS:.1f}")
    say("steps", f"{STEPS / seconds:.1f} /CPU-s")
    say("scheduler + memory + events, share of a step", f"{100 * ours / (ours + model):.1f} %")


if __name__ == "__main__":
    main()
