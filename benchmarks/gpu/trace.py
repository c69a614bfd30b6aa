"""What a profiler's trace says of some steps: how long the GPU worked, on what, and what was copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

WORK = ("kernel", "gpu_memcpy", "gpu_memset")
"""Categories of torch's chrome traces that occupy the GPU."""
ATTENTION = ("decode_split", "reduce_splits", "prefill_tile", "store_kernel")


def figures(events: Iterable[Mapping[str, Any]], steps: int) -> dict[str, Any]:
    """A step's mean. events: the `traceEvents` of a chrome trace of `steps` steps (times in microseconds).
    Empty where the trace has nothing of a GPU."""
    work = [event for event in events if event.get("cat") in WORK and "dur" in event]
    if not work:
        return {}
    kernels = [event for event in work if event["cat"] == "kernel"]
    spent: Counter[str] = Counter()
    for event in kernels:
        spent[event["name"][:80]] += event["dur"]
    total = sum(spent.values())
    attention = sum(us for name, us in spent.items() if name.startswith(ATTENTION))
    found: dict[str, Any] = {
        "gpu_busy_us": busy(work) / steps,
        "kernels": len(kernels) / steps,
        "host_to_device_copies": _copies(work, "HtoD") / steps,
        "device_to_host_copies": _copies(work, "DtoH") / steps,
        "device_to_device_copies": _copies(work, "DtoD") / steps,
    }
    if total:
        found["attention_share_of_kernels"] = attention / total
        found["longest_kernels_us"] = {name: us / steps for name, us in spent.most_common(8)}
    return found


def busy(events: Iterable[Mapping[str, Any]]) -> float:
    """Microseconds in which at least one of the events was under way."""
    total, reached = 0.0, float("-inf")
    for begin, length in sorted((float(event["ts"]), float(event["dur"])) for event in events):
        total += max(0.0, begin + length - max(begin, reached))
        reached = max(reached, begin + length)
    return total


def _copies(events: Iterable[Mapping[str, Any]], way: str) -> int:
    return sum(event["cat"] == "gpu_memcpy" and way in event["name"] for event in events)
