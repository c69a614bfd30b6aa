"""Allocate and free beside vLLM's BlockPool, on the same calls in the same run.

`KVTOP_VLLM_PYTHON=/path/to/venv/bin/python` names an interpreter that has vLLM; without it the comparison is
with what was measured for vLLM 0.32 on a 2-core machine: 1.9 million single allocate-or-free operations and
207,000 cycles of allocate + hash + free a second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from measure import best_thread_seconds, say

BLOCKS = 10_000
BATCH = 64
ROUNDS = 400
MEASURED_VLLM = {"operations": 1.9e6, "cycles": 207e3}
PEER = Path(__file__).with_name("peer_vllm_block_pool.py")


def ours() -> dict[str, float]:
    """Operations and cycles a second of CPU time. A cycle caches what it allocated, so that frees go to the
    back of the queue and, once round, every allocation evicts."""
    from kvtop.memory.block_pool import BlockPool
    from kvtop.memory.prefix_cache import PrefixCache

    pool = BlockPool(BLOCKS, 16)

    def bare() -> None:
        for _ in range(ROUNDS):
            blocks = pool.allocate(BATCH)
            blocks.reverse()
            pool.release(blocks, 0)

    cached = BlockPool(BLOCKS, 16, cache=PrefixCache(16))
    fresh = iter(range(10**9))

    def cycles() -> None:
        cache = cached.cache
        assert cache is not None
        for _ in range(ROUNDS):
            blocks = cached.allocate(BATCH)
            parent = cache.root()
            first = next(fresh)
            for index, block in enumerate(blocks):
                parent = cached.insert_in_cache(block, parent, range(first + index, first + index + 16))
            blocks.reverse()
            cached.release(blocks, 0)

    cycles()
    return {
        "operations": 2 * ROUNDS * BATCH / best_thread_seconds(bare),
        "cycles": ROUNDS * BATCH / best_thread_seconds(cycles),
    }


def vllms() -> tuple[dict[str, float], str]:
    """The peer's figures, and where they are from."""
    python = os.environ.get("KVTOP_VLLM_PYTHON")
    if not python:
        return MEASURED_VLLM, "vLLM 0.32, measured earlier"
    done = subprocess.run(
        [python, str(PEER), str(BLOCKS), str(BATCH), str(ROUNDS)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"bench_allocator: {python} cannot run vLLM's BlockPool:\n{done.stderr}")
    figures = json.loads(done.stdout.splitlines()[-1])
    return figures, f"vLLM {figures.pop('version')}, in this run"


def main() -> None:
    mine = ours()
    theirs, source = vllms()
    for name, what in (
        ("operations", "allocate or free, one block"),
        ("cycles", "allocate + hash + cache + free"),
    ):
        ratio = mine[name] / theirs[name]
        say(f"{what}: kvtop", f"{mine[name]:,.0f} /s")
        say(f"{what}: {source}", f"{theirs[name]:,.0f} /s")
        say("  ratio", f"{ratio:.2f} x", "budget: above 1", ratio > 1)


if __name__ == "__main__":
    main()
