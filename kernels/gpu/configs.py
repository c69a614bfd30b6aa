"""The shipped configurations of the Triton kernels: tile sizes, warps and pipeline stages.

Attention is keyed by the kernel, the compiler's backend ("cuda" or "hip"), the head dim padded to a power of
two and the bytes of an element. Every entry compiles for sm_80, sm_90, sm_100 (cuda) and gfx942 (hip) without
spilling a register and within the smallest shared memory of these: 163 KiB (sm_80) and 64 KiB (gfx942).
"""

from __future__ import annotations

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

    @property
    def options(self) -> dict[str, int]:
        """What the compiler is told beside the kernel's own arguments."""
        return {"num_warps": self.warps, "num_stages": self.stages}


# (backend, padded dim, bytes of an element) -> tile, warps, stages
_DECODE = {
    ("cuda", 32, 2): (128, 4, 4),
    ("cuda", 64, 2): (128, 4, 4),
    ("cuda", 128, 2): (64, 4, 4),
    ("cuda", 256, 2): (32, 4, 4),
    ("cuda", 32, 4): (64, 4, 4),
    ("cuda", 64, 4): (64, 4, 4),
    ("cuda", 128, 4): (32, 4, 4),
    ("cuda", 256, 4): (32, 4, 3),
    ("hip", 32, 2): (64, 4, 2),
    ("hip", 64, 2): (64, 4, 2),
    ("hip", 128, 2): (64, 4, 2),
    ("hip", 256, 2): (32, 4, 2),
    ("hip", 32, 4): (64, 4, 2),
    ("hip", 64, 4): (64, 4, 2),
    ("hip", 128, 4): (32, 4, 2),
    ("hip", 256, 4): (32, 4, 2),
}

# (backend, padded dim, bytes of an element) -> rows, tile, warps, stages
_PREFILL = {
    ("cuda", 32, 2): (128, 64, 4, 3),
    ("cuda", 64, 2): (128, 64, 4, 3),
    ("cuda", 128, 2): (128, 64, 8, 3),
    ("cuda", 256, 2): (64, 32, 4, 3),
    ("cuda", 32, 4): (64, 32, 4, 3),
    ("cuda", 64, 4): (64, 32, 4, 3),
    ("cuda", 128, 4): (64, 32, 8, 3),
    ("cuda", 256, 4): (32, 32, 8, 2),
    ("hip", 32, 2): (128, 64, 4, 2),
    ("hip", 64, 2): (128, 64, 4, 2),
    ("hip", 128, 2): (128, 64, 8, 2),
    ("hip", 256, 2): (64, 32, 4, 2),
    ("hip", 32, 4): (64, 32, 4, 2),
    ("hip", 64, 4): (64, 32, 4, 2),
    ("hip", 128, 4): (64, 32, 8, 2),
    ("hip", 256, 4): (32, 32, 8, 2),
}

SMALLEST_DOT = 16
"""Rows and columns that `tl.dot` wants at least."""
DECODE_ROWS = 64
"""Query heads of one program at most: a larger group takes several programs, each reading the context."""
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


def _precision(backend: str, element_bytes: int) -> str:
    """Float32 keeps its accuracy: three TF32 products where the tensor cores have no float32, else exact."""
    return "tf32x3" if backend == "cuda" and element_bytes == 4 else "ieee"


def decode_config(dim: int, group: int, element_bytes: int, backend: str = "cuda") -> AttentionConfig:
    """For `paged_decode`. group: query heads of a KV head. Raises ValueError for a head dim above 256."""
    rows = min(padded(group), DECODE_ROWS)
    tile, warps, stages = _DECODE[backend, padded_dim(dim), element_bytes]
    return AttentionConfig(rows, tile, warps, stages, _precision(backend, element_bytes))


def prefill_config(dim: int, group: int, element_bytes: int, backend: str = "cuda") -> AttentionConfig:
    """For `paged_prefill`. group: query heads of a KV head. Raises ValueError for a head dim above 256."""
    rows, tile, warps, stages = _PREFILL[backend, padded_dim(dim), element_bytes]
    return AttentionConfig(rows, tile, warps, stages, _precision(backend, element_bytes))


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
    for backend in ("cuda", "hip"):
        for dim in dims:
            for size in (2, 4):
                for group in (SMALLEST_DOT, 2 * SMALLEST_DOT, DECODE_ROWS):
                    config = decode_config(dim, group, size, backend)
                    yield Shipped("decode", backend, dim, group, size, config)
                yield Shipped("prefill", backend, dim, 4, size, prefill_config(dim, 4, size, backend))
