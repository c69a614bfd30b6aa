"""vLLM's BlockPool on the calls of bench_allocator.py; runs in an interpreter that has vLLM."""

from __future__ import annotations

import json
import sys
import time


def main() -> None:
    import vllm
    from vllm.v1.core.block_pool import BlockPool
    from vllm.v1.core.kv_cache_utils import hash_block_tokens, init_none_hash
    from vllm.utils.hashing import sha256_cbor

    total, batch, rounds = map(int, sys.argv[1:])
    init_none_hash(sha256_cbor)
    pool = BlockPool(num_gpu_blocks=total, enable_caching=False, hash_block_size=16)

    def bare() -> None:
        for _ in range(rounds):
            blocks = pool.get_new_blocks(batch)
            pool.free_blocks(reversed(blocks))

    print(json.dumps({"operations": 2 * rounds * batch / best(bare), "version": vllm.__version__}))


def best(work) -> float:  # noqa: ANN001
    """The least CPU time of five runs."""
    times = []
    for _ in range(5):
        began = time.thread_time()
        work()
        times.append(time.thread_time() - began)
    return min(times)


if __name__ == "__main__":
    main()
