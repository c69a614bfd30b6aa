"""How long kernels take on the GPU, without the host that launches them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import torch

Call = Callable[[], object]

COLD = 4
"""Calls in turn touch this many times the L2 cache, so that it serves none of them."""
MOST_CALLS = 256


def calls_for(bytes_read: int, device: torch.device, least: int = 3) -> int:
    """How many calls on different data to measure in turn, so that each finds its data in memory alone."""
    return min(MOST_CALLS, max(least, -(-COLD * l2_bytes(device) // max(bytes_read, 1))))


def l2_bytes(device: torch.device) -> int:
    """The size of the L2 cache; where torch does not say, a size that is enough."""
    return int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0) or 64 * 2**20)


def seconds_per_call(
    calls: Sequence[Call], device: torch.device, repeats: int = 5, graph: bool = True
) -> float | None:
    """The median over `repeats` rounds of all calls, in seconds a call; None where there is no GPU: each is
    called once there, for its errors only.

    The calls are captured in one CUDA graph, so that the host's launches do not count; `graph` False is for
    what cannot be captured, or takes so long that launches do not matter.
    """
    if device.type != "cuda":
        for call in calls[:2]:
            call()
        return None
    _warm_up(calls[:3])
    work = _captured(calls) if graph else lambda: [call() for call in calls]
    work()
    torch.cuda.synchronize()
    rounds: list[float] = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        work()
        end.record()
        end.synchronize()
        rounds.append(start.elapsed_time(end) / 1e3 / len(calls))
    return statistics.median(rounds)


def _warm_up(calls: Sequence[Call]) -> None:
    """On a stream of its own, as capturing wants it; what compiles does it here."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls:
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()


def _captured(calls: Sequence[Call]) -> Call:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph.replay


def copy_bandwidth(device: torch.device) -> float | None:
    """Bytes read and written a second by a large copy within the device's memory."""
    size = 1 << 20
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        size = min(4 << 30, int(free * 0.3))
    source = torch.empty(size, dtype=torch.uint8, device=device).random_(0, 256)
    target = torch.empty_like(source)
    calls = [lambda: target.copy_(source)] * 4
    # A graph's copy may take another way through the card than a stream's: the faster one is the measure.
    measured = [seconds_per_call(calls, device, graph=graph) for graph in (True, False)]
    known = [seconds for seconds in measured if seconds is not None]
    return 2 * size / min(known) if known else None
