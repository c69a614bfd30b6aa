"""Paged decode on the CPU beside contiguous SDPA, which looks nothing up: one layer, one thread.

Budget: 1.0 at bf16, 8 sequences of 1024 tokens, block size 16. The two are measured in turn, the least CPU
time of each counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from measure import one_thread, say

one_thread()

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from kvtop.kernels.dispatch import choose  # noqa: E402
from kvtop.kernels.packed import PackedStep  # noqa: E402

REPEATS = 60
BUDGETED = (torch.bfloat16, 8, 16)


def measure(dtype: torch.dtype, sequences: int, tokens: int, block_size: int) -> None:
    """Print one line. 9 query heads over 3 KV heads of 64, as SmolLM2-135M has them."""
    kv_heads, group, dim = 3, 3, 64
    each = -(-tokens // block_size)
    tables = np.random.default_rng(0).permutation(sequences * each).reshape(sequences, each)
    keys, values = (torch.randn(sequences * each, kv_heads, block_size, dim).to(dtype) for _ in range(2))
    query = torch.randn(sequences, kv_heads * group, dim).to(dtype).transpose(0, 1)
    key, value = (torch.randn(sequences, kv_heads, dim).to(dtype).transpose(0, 1) for _ in range(2))
    last = tokens - 1
    step = PackedStep(
        slots=tables[:, last // block_size] * block_size + last % block_size,
        tables=tables.astype(np.int32),
        lengths=np.full(sequences, tokens, np.int32),
        starts=np.arange(sequences + 1),
        block_size=block_size,
    )
    attention, name = choose(torch.device("cpu"), dtype)
    attention.begin(step, torch.device("cpu"))
    dense = [
        cache[torch.from_numpy(tables)].transpose(1, 2).reshape(sequences, kv_heads, -1, dim)[:, :, :tokens]
        .contiguous()
        for cache in (keys, values)
    ]  # fmt: skip
    folded = query.transpose(0, 1).reshape(sequences, kv_heads, group, dim)

    def paged() -> None:
        attention(query, key, value, keys, values, dim**-0.5, 0)

    def contiguous() -> None:
        F.scaled_dot_product_attention(folded, *dense)

    ours, theirs = fastest(paged, contiguous)
    label = f"{str(dtype).removeprefix('torch.')}, {sequences} x {tokens} tokens, blocks of {block_size}"
    say(f"{name}, {label}", f"{ours * 1e6:.0f} us")
    held = None if (dtype, sequences, block_size) != BUDGETED else ours <= theirs
    say("  contiguous sdpa, the same", f"{theirs * 1e6:.0f} us")
    say("  ratio", f"{ours / theirs:.2f} x", "" if held is None else "budget: at most 1", held)


def fastest(*works: Callable[[], None]) -> list[float]:
    """The smallest time of each, in seconds, measured in turn."""
    best = [float("inf")] * len(works)
    with torch.inference_mode():
        for _ in range(REPEATS):
            for i, work in enumerate(works):
                began = time.thread_time()
                work()
                best[i] = min(best[i], time.thread_time() - began)
    return best


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    for dtype in (torch.bfloat16, torch.float32):
        for sequences, tokens, block_size in ((8, 1024, 16), (16, 100, 16), (8, 1024, 4), (8, 1024, 256)):
            measure(dtype, sequences, tokens, block_size)


if __name__ == "__main__":
    main()
