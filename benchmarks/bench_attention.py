"""Paged attention on the CPU beside SDPA over contiguous K/V, which looks nothing up, and gather + SDPA.

One layer of SmolLM2-135M: 9 query heads over 3 KV heads of 64. One thread; the implementations are measured
in turn, and the least CPU time of each counts. Budget: at most contiguous SDPA's time at bf16, 8 sequences of
1,024 tokens, blocks of 16.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from measure import one_thread, say

one_thread()

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from kvtop.kernels.cpu.attention import NumbaAttention  # noqa: E402
from kvtop.kernels.gather_sdpa import GatherAttention  # noqa: E402
from kvtop.kernels.packed import PackedStep  # noqa: E402
from kvtop.kernels.protocol import Attention  # noqa: E402
from kvtop.kernels.upload import upload  # noqa: E402

KV_HEADS, GROUP, DIM = 3, 3, 64
BUDGETED = (torch.bfloat16, 8, 1024, 16)


class Layer(NamedTuple):
    """A step over scattered blocks, and one layer's tensors."""

    step: PackedStep
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor

    def paged(self, attention: Attention) -> Callable[[], object]:
        """One call of an attention that writes K/V and reads through the tables."""
        attention.begin(self.step, upload(attention.metadata(self.step), torch.device("cpu")))
        _, *tensors = self
        return lambda: attention(*tensors, DIM**-0.5, 0)

    def contiguous(self) -> Callable[[], object]:
        """SDPA over the same K/V, laid out densely beforehand: rows of equal length, one query each."""
        rows, length = len(self.step.lengths), int(self.step.lengths[0])
        table = torch.from_numpy(self.step.tables.astype(np.int64))
        dense = [
            cache[table].transpose(1, 2).reshape(rows, KV_HEADS, -1, DIM)[:, :, :length].contiguous()
            for cache in (self.keys, self.values)
        ]
        folded = self.query.transpose(0, 1).reshape(rows, KV_HEADS, GROUP, DIM)
        return lambda: F.scaled_dot_product_attention(folded, *dense)


def layer(rows: int, stored: int, new: int, block_size: int, dtype: torch.dtype) -> Layer:
    """`rows` sequences of `stored` tokens, the `new` last of which are in the step."""
    each = -(-stored // block_size)
    tables = np.random.default_rng(0).permutation(rows * each).reshape(rows, each)
    positions = np.arange(stored - new, stored)
    step = PackedStep(
        slots=(tables[:, positions // block_size] * block_size + positions % block_size).reshape(-1),
        tables=tables.astype(np.int32),
        lengths=np.full(rows, stored, np.int32),
        starts=np.arange(rows + 1) * new,
        block_size=block_size,
    )

    def tensor(heads: int) -> torch.Tensor:
        return torch.randn(rows * new, heads, DIM).to(dtype).transpose(0, 1)

    keys, values = (torch.randn(rows * each, KV_HEADS, block_size, DIM).to(dtype) for _ in range(2))
    return Layer(step, tensor(KV_HEADS * GROUP), tensor(KV_HEADS), tensor(KV_HEADS), keys, values)


def fastest(works: Sequence[Callable[[], object]]) -> list[float]:
    """The smallest CPU time of each, in seconds, measured in turn for about a second."""
    best = [float("inf")] * len(works)
    end = time.thread_time() + 1.0
    rounds = 0
    while rounds < 10 or time.thread_time() < end:
        for i, work in enumerate(works):
            began = time.thread_time()
            work()
            best[i] = min(best[i], time.thread_time() - began)
        rounds += 1
    return best


def decode(dtype: torch.dtype, rows: int, stored: int, block_size: int) -> None:
    """One token of each sequence."""
    made = layer(rows, stored, 1, block_size, dtype)
    ours, contiguous, gathered = fastest(
        [made.paged(NumbaAttention()), made.contiguous(), made.paged(GatherAttention())]
    )
    budgeted = (dtype, rows, stored, block_size) == BUDGETED
    label = f"{_name(dtype)}, {rows} x {stored:,} tokens, blocks of {block_size}"
    say(f"paged decode, {label}", f"{ours * 1e6:,.0f} us")
    say(
        "  of contiguous sdpa's time",
        f"{ours / contiguous:.2f} x",
        "budget: at most 1" if budgeted else "",
        ours <= contiguous if budgeted else None,
    )
    say("  of gather + sdpa's time", f"{ours / gathered:.2f} x")


def prefill(dtype: torch.dtype, cached: int, new: int) -> None:
    """One prompt, or the rest of one of which a prefix is cached."""
    made = layer(1, cached + new, new, 16, dtype)
    ours, gathered = fastest([made.paged(NumbaAttention()), made.paged(GatherAttention())])
    past = f" after {cached:,} cached" if cached else ""
    say(f"paged prefill, {_name(dtype)}, {new:,} tokens{past}", f"{ours * 1e6:,.0f} us")
    say("  of gather + sdpa's time", f"{ours / gathered:.2f} x")


def _name(dtype: torch.dtype) -> str:
    return {torch.bfloat16: "bf16", torch.float32: "fp32"}[dtype]


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    with torch.inference_mode():
        for dtype in (torch.bfloat16, torch.float32):
            for rows in (1, 8, 32):
                for stored in (128, 1024):
                    decode(dtype, rows, stored, 16)
            for block_size in (1, 4, 256):
                decode(dtype, 8, 1024, block_size)
        for dtype in (torch.bfloat16, torch.float32):
            for cached, new in ((0, 16), (0, 64), (0, 128), (0, 256), (0, 512), (0, 1024), (512, 64)):
                prefill(dtype, cached, new)


if __name__ == "__main__":
    main()
