"""Allocate and free beside vLLM's BlockPool, on the same calls, in turns, in one process.

`KVTOP_VLLM_PYTHON=/path/to/venv/bin/python` names an interpreter that has vLLM (and msgspec and NumPy, which
come with it); the benchmark then runs in that. Without it the comparison is with figures measured that way
for vLLM 0.32: see MEASURED_VLLM.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from measure import say  # noqa: E402

BLOCKS, BATCH, ROUNDS, TURNS = 10_000, 64, 300, 12
CASES = {
    "batch": "allocate or free, 64 blocks a call",
    "single": "allocate or free, one block a call",
    "cycle": "allocate + hash + cache + evict + free",
}
MEASURED_VLLM = {"batch": 8.0e6, "single": 1.8e6, "cycle": 0.21e6}
"""Blocks a second of CPU time on a 2-core Xeon with AMX."""

Work = dict[str, Callable[[], None]]


def fresh_tokens() -> Callable[[], list[list[int]]]:
    """Token ids of 64 blocks that nobody has seen before, at each call."""
    numbers = count()

    def draw() -> list[list[int]]:
        first = next(numbers)
        return [[first, index, *range(14)] for index in range(BATCH)]

    return draw


def ours() -> Work:
    """A cycle caches what it allocated, so that frees go to the back of the queue and, once round, every
    allocation evicts."""
    from kvtop.memory.block_pool import BlockPool
    from kvtop.memory.prefix_cache import PrefixCache

    pool = BlockPool(BLOCKS, 16)
    cache = PrefixCache(16)
    cached = BlockPool(BLOCKS, 16, cache=cache)
    draw = fresh_tokens()

    def batch() -> None:
        for _ in range(ROUNDS):
            pool.release(pool.allocate(BATCH)[::-1], 0)

    def single() -> None:
        for _ in range(ROUNDS * BATCH):
            pool.release(pool.allocate(1), 0)

    def cycle() -> None:
        for _ in range(ROUNDS):
            blocks = cached.allocate(BATCH)
            node = cache.root()
            for block, tokens in zip(blocks, draw(), strict=True):
                node = cached.insert_in_cache(block, node, tokens)
            cached.release(blocks[::-1], 0)

    return {"batch": batch, "single": single, "cycle": cycle}


def vllms() -> Work:
    """The same calls on vLLM's pool, with its default hash."""
    from vllm.utils.hashing import sha256
    from vllm.v1.core.block_pool import BlockPool
    from vllm.v1.core.kv_cache_utils import hash_block_tokens, init_none_hash

    init_none_hash(sha256)
    pool = BlockPool(num_gpu_blocks=BLOCKS, enable_caching=False, hash_block_size=16)
    cached = BlockPool(num_gpu_blocks=BLOCKS, enable_caching=True, hash_block_size=16)
    draw = fresh_tokens()

    def batch() -> None:
        for _ in range(ROUNDS):
            pool.free_blocks(pool.get_new_blocks(BATCH)[::-1])

    def single() -> None:
        for _ in range(ROUNDS * BATCH):
            pool.free_blocks(pool.get_new_blocks(1))

    def cycle() -> None:
        for _ in range(ROUNDS):
            blocks = cached.get_new_blocks(BATCH)
            hashes, parent = [], None
            for tokens in draw():
                parent = hash_block_tokens(sha256, parent, tokens)
                hashes.append(parent)
            cached.cache_full_blocks(SimpleNamespace(block_hashes=hashes), blocks, 0, BATCH, 16, 0)
            cached.free_blocks(blocks[::-1])

    return {"batch": batch, "single": single, "cycle": cycle}


def blocks_per_second(peers: list[Work]) -> list[dict[str, float]]:
    """Each peer's best, taking turns so that a slow moment of the machine hits all alike."""
    figures: list[dict[str, float]] = [{} for _ in peers]
    for case in CASES:
        blocks = ROUNDS * BATCH * (1 if case == "cycle" else 2)
        for _ in range(TURNS):
            for work, figure in zip(peers, figures, strict=True):
                began = time.thread_time()
                work[case]()
                rate = blocks / (time.thread_time() - began)
                figure[case] = max(figure.get(case, 0.0), rate)
    return figures


def main() -> None:
    python = os.environ.get("KVTOP_VLLM_PYTHON")
    if find_spec("vllm") is None and python:
        sys.exit(subprocess.run([python, __file__], check=False).returncode)
    if find_spec("vllm") is None:
        (mine,), theirs, source = blocks_per_second([ours()]), MEASURED_VLLM, "vLLM 0.32, measured earlier"
    else:
        (mine, theirs), source = blocks_per_second([ours(), vllms()]), "vLLM, in turns with it"
    for case, what in CASES.items():
        ratio = mine[case] / theirs[case]
        say(f"{what}: kvtop", f"{mine[case]:,.0f} /s")
        say(f"{what}: {source}", f"{theirs[case]:,.0f} /s")
        say("  ratio", f"{ratio:.2f} x", "budget: above 1", ratio > 1)


if __name__ == "__main__":
    main()
