"""The shipped configurations of the Triton kernels: tile sizes, warps and pipeline stages.

Attention is keyed by the kernel, the compiler's backend ("cuda" or "hip"), the head dim padded to a power of
two and the bytes of an element. Every entry compiles for sm_80, sm_90, sm_100 (cuda) and gfx942 (hip) without
spilling a register and within the smallest shared memory of these: 163 KiB (sm_80) and 64 KiB (gfx942).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

PADDED_DIMS = (32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class AttentionConfig:
    """How one program of an attention kernel is compiled."""

    rows: int
    """Rows of the query tile: query heads (decode), or query heads x queries (prefill)."""
    tile: int
    """Tokens of K and V read at a time."""
    warps: int
    stages: int
    """Tiles in flight, the one being worked on included."""
    precision: str
    """`input_precision` of `tl.dot`; it matters for float32 only."""
    halves: bool
    """Queries times keys in two products, half of the head dim each."""

    @property
    def options(self) -> dict[str, int]:
        """What the compiler is told beside the kernel's own arguments."""
        return {"num_warps": self.warps, "num_stages": self.stages}


# (backend, padded dim, bytes of an element) -> (rows at most, tile, warps, stages), by rows.
# A group of more query heads than the last entry takes is spread over several programs.
_DECODE = {
    ("cuda", 32, 2): ((16, 128, 4, 5),),
    ("cuda", 64, 2): ((32, 128, 4, 5), (64, 64, 4, 5)),
    ("cuda", 128, 2): ((16, 64, 4, 5), (64, 64, 8, 5)),
    ("cuda", 256, 2): ((32, 32, 4, 5), (64, 32, 8, 5)),
    ("cuda", 32, 4): ((16, 64, 4, 5), (64, 32, 4, 5)),
    ("cuda", 64, 4): ((16, 32, 4, 5), (64, 32, 8, 5)),
    ("cuda", 128, 4): ((16, 32, 4, 5),),
    ("cuda", 256, 4): ((16, 32, 8, 3),),
    ("hip", 32, 2): ((64, 64, 4, 2),),
    ("hip", 64, 2): ((64, 64, 4, 2),),
    ("hip", 128, 2): ((64, 64, 4, 2),),
    ("hip", 256, 2): ((64, 32, 4, 2),),
    ("hip", 32, 4): ((64, 64, 4, 2),),
    ("hip", 64, 4): ((64, 64, 4, 2),),
    ("hip", 128, 4): ((64, 32, 4, 2),),
    ("hip", 256, 4): ((16, 16, 4, 2),),
}

# (backend, padded dim, bytes of an element) -> rows, tile, warps, stages
_PREFILL = {
    ("cuda", 32, 2): (128, 64, 4, 5),
    ("cuda", 64, 2): (128, 64, 8, 5),
    ("cuda", 128, 2): (128, 64, 8, 5),
    ("cuda", 256, 2): (64, 32, 8, 5),
    ("cuda", 32, 4): (64, 32, 4, 5),
    ("cuda", 64, 4): (32, 32, 4, 5),
    ("cuda", 128, 4): (16, 32, 4, 5),
    ("cuda", 256, 4): (16, 16, 8, 2),
    ("hip", 32, 2): (64, 32, 8, 2),
    ("hip", 64, 2): (64, 32, 8, 2),
    ("hip", 128, 2): (64, 32, 8, 2),
    ("hip", 256, 2): (32, 16, 8, 2),
    ("hip", 32, 4): (64, 32, 4, 2),
    ("hip", 64, 4): (64, 32, 8, 2),
    ("hip", 128, 4): (32, 16, 8, 2),
    ("hip", 256, 4): (32, 16, 8, 2),
}

SMALLEST_DOT = 16
"""Rows and columns that `tl.dot` wants at least."""
REDUCE_SPLITS = 8
"""Partial results that the second pass of a decode reads at a time."""
REDUCE_WARPS = 2


def padded(size: int) -> int:
    """The next power of two, and at least what `tl.dot` wants."""
    return max(SMALLEST_DOT, 1 << (size - 1).bit_length())


def padded_dim(dim: int) -> int:
    """The power of two that a head dim of 1 to 256 is padded to; 32 at least. Raises ValueError above."""
    if not 0 < dim <= PADDED_DIMS[-1]:
        raise ValueError(f"head dim {dim} is not in 1 .. {PADDED_DIMS[-1]}")
    return max(PADDED_DIMS[0], padded(dim))


def _config(
    rows: int, tile: int, warps: int, stages: int, dim: int, element_bytes: int, backend: str
) -> AttentionConfig:
    # Float32 keeps its accuracy: three TF32 products on tensor cores, which have no float32; AMD's have.
    split = backend == "cuda" and element_bytes == 4
    halves = split and padded_dim(dim) == PADDED_DIMS[-1]
    return AttentionConfig(rows, tile, warps, stages, "tf32x3" if split else "ieee", halves)


@functools.cache
def decode_config(dim: int, group: int, element_bytes: int, backend: str = "cuda") -> AttentionConfig:
    """For `paged_decode`. group: query heads of a KV head. Raises ValueError for a head dim above 256."""
    entries = _DECODE[backend, padded_dim(dim), element_bytes]
    most, tile, warps, stages = next((e for e in entries if group <= e[0]), entries[-1])
    rows = min(padded(group), most)
    return _config(rows, tile, warps, stages, dim, element_bytes, backend)


@functools.cache
def prefill_config(dim: int, group: int, element_bytes: int, backend: str = "cuda") -> AttentionConfig:
    """For `paged_prefill`. group: query heads of a KV head. Raises ValueError for a head dim above 256."""
    rows, tile, warps, stages = _PREFILL[backend, padded_dim(dim), element_bytes]
    return _config(rows, tile, warps, stages, dim, element_bytes, backend)


@dataclass(frozen=True, slots=True)
class Shipped:
    """One compiled kernel of those that the tables lead to."""

    kernel: str
    """"decode" or "prefill"."""
    backend: str
    dim: int
    group: int
    element_bytes: int
    config: AttentionConfig


def shipped_attention(dims: tuple[int, ...] = PADDED_DIMS) -> Iterator[Shipped]:
    """Every attention configuration in use for these head dims, once."""
    for backend, dim, size in itertools.product(("cuda", "hip"), dims, (2, 4)):
        seen = set()
        for group in (16, 32, 64):
            config = decode_config(dim, group, size, backend)
            if config not in seen:
                yield Shipped("decode", backend, dim, group, size, config)
            seen.add(config)
        yield Shipped("prefill", backend, dim, 4, size, prefill_config(dim, 4, size, backend))
