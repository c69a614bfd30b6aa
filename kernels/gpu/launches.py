"""Every kernel, with a typical launch of each shipped configuration: what there is to compile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kvtop.kernels.gpu import blocks
from kvtop.kernels.gpu import store as storing
from kvtop.kernels.gpu.ahead import TARGETS, Resources, compiled, signature
from kvtop.kernels.gpu.configs import (
    PADDED_DIMS,
    REDUCE_SPLITS,
    REDUCE_WARPS,
    Shipped,
    padded_dim,
    shipped_attention,
)
from kvtop.kernels.gpu.paged_decode import decode_split, reduce_splits
from kvtop.kernels.gpu.paged_prefill import prefill_tile

ODD_DIMS = (80, 192)
"""Head dims that are no power of two: the kernels mask their tiles."""
KV_HEADS, BLOCK_SIZE = 8, 16
"""Of a typical launch; they change no tile."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel, as one set of arguments has it compiled."""

    kernel: Any
    what: str
    """The configuration in words."""
    arguments: dict[str, Any]
    """By parameter, as `kvtop.kernels.gpu.ahead.signature` takes them."""
    options: dict[str, int]
    """Of the compiler."""
    backend: str | None = None
    """"cuda" or "hip"; None: the same for both."""
    multiplies: bool = False
    """Whether `tl.dot` stands in it."""

    @property
    def name(self) -> str:
        """The kernel's name and the configuration."""
        return f"{self.kernel.__name__}: {self.what}"

    @property
    def entry(self) -> tuple[Any, ...]:
        """The same for launches whose configurations are found under the same key of the tables."""
        width = self.arguments.get("PADDED_DIM", self.arguments.get("DIM_TILE", 0))
        return self.kernel.__name__, self.backend or "", width, self.arguments.get("key_cache") == "*fp32"

    @property
    def targets(self) -> tuple[str, ...]:
        """The chips of `kvtop.kernels.gpu.ahead.TARGETS` that this is for."""
        return tuple(name for name, chip in TARGETS.items() if self.backend in (None, chip.backend))

    def compile(self, target: str) -> Resources:
        """Compile for one of the targets; see `kvtop.kernels.gpu.ahead.compiled`."""
        return compiled(self.kernel, *signature(self.kernel, self.arguments), target, self.options)


def launches(dims: tuple[int, ...] = PADDED_DIMS + ODD_DIMS) -> Iterator[Launch]:
    """All kernels in all shipped configurations, for these head dims."""
    yield from _moves()
    for dim in dims:
        for types in (("bf16", "bf16"), ("fp32", "bf16"), ("fp16", "fp16"), ("fp32", "fp32")):
            yield _store(dim, *types)
    for dim in dims:
        for element in ("bf16", "fp16", "fp32"):
            yield _reduce(dim, element)
    for shipped in shipped_attention(dims):
        for element in ("bf16", "fp16") if shipped.element_bytes == 2 else ("fp32",):
            if shipped.kernel == "prefill":
                yield _prefill(shipped, element)
                continue
            yield _decode(shipped, element, split=True)
            yield _decode(shipped, element, split=False)


def _moves() -> Iterator[Launch]:
    for word, words in (("i64", 2048), ("i64", 2049), ("i64", 1), ("i32", 2049), ("i16", 2049), ("u8", 2049)):
        arguments = {
            "source": f"*{word}",
            "target": f"*{word}",
            "pairs": "*i64",
            "source_blocks": 1000,
            "target_blocks": 1,
            "words": words,
            "TILE": blocks.TILE_WORDS,
        }
        what = f"{words} words of {word}"
        yield Launch(blocks.move_blocks_kernel, what, arguments, {"num_warps": blocks.WARPS})


def _store(dim: int, element: str, cache: str) -> Launch:
    heads_tile, dim_tile = storing.tile_shape(KV_HEADS, dim)
    arguments = {
        "key": f"*{element}",
        "value": f"*{element}",
        "key_cache": f"*{cache}",
        "value_cache": f"*{cache}",
        "slots": "*i64",
        "heads": KV_HEADS,
        "block_size": BLOCK_SIZE,
        "key_token_stride": KV_HEADS * dim,
        "key_head_stride": dim,
        "value_token_stride": KV_HEADS * dim,
        "value_head_stride": dim,
        **_cache_strides(dim),
        "offset_stride": dim,
        "DIM": dim,
        "HEADS_TILE": heads_tile,
        "DIM_TILE": dim_tile,
    }
    what = f"dim {dim}, {element} into {cache}"
    return Launch(storing.store_kernel, what, arguments, {"num_warps": storing.WARPS})


def _cache_strides(dim: int) -> dict[str, int]:
    """Of a layer's cache `[blocks, KV_HEADS, BLOCK_SIZE, dim]`, contiguous."""
    head = BLOCK_SIZE * dim
    return {"block_stride": KV_HEADS * head, "head_stride": head}


def _decode(shipped: Shipped, element: str, split: bool) -> Launch:
    pointer = f"*{element}"
    arguments = {
        "out": pointer,
        "partial": "*fp32" if split else pointer,
        "sums": "*fp32" if split else pointer,
        **_attention(shipped, pointer),
        "tokens": "*i32",
        "rows": "*i32",
        "splits": 8 if split else 1,
        "span": 512,
        "SPLIT": split,
    }
    what = _words(shipped, element) + (", split" if split else "")
    return Launch(decode_split, what, arguments, shipped.config.options, shipped.backend, True)


def _prefill(shipped: Shipped, element: str) -> Launch:
    pointer = f"*{element}"
    arguments = {"out": pointer, **_attention(shipped, pointer), "starts": "*i64", "tiles": "*i32"}
    what = _words(shipped, element)
    return Launch(prefill_tile, what, arguments, shipped.config.options, shipped.backend, True)


def _words(shipped: Shipped, element: str) -> str:
    return f"{shipped.backend}, dim {shipped.dim}, {element}, group {shipped.group}"


def _attention(shipped: Shipped, pointer: str) -> dict[str, Any]:
    """What decode and prefill both take."""
    dim, config = shipped.dim, shipped.config
    heads = KV_HEADS * shipped.group
    return {
        "query": pointer,
        "key_cache": pointer,
        "value_cache": pointer,
        "tables": "*i32",
        "lengths": "*i32",
        "scale": 0.125,
        "window": 0,
        "table_stride": 256,
        "query_token_stride": heads * dim,
        "query_head_stride": dim,
        "out_token_stride": heads * dim,
        "out_head_stride": dim,
        **_cache_strides(dim),
        "GROUP": shipped.group,
        "ROWS": config.rows,
        "DIM": dim,
        "PADDED_DIM": padded_dim(dim),
        "BLOCK_SIZE": BLOCK_SIZE,
        "SLOT_STRIDE": dim,
        "TILE": config.tile,
        "PRECISION": config.precision,
        "HALVES": config.halves,
    }


def _reduce(dim: int, element: str) -> Launch:
    arguments = {
        "out": f"*{element}",
        "partial": "*fp32",
        "sums": "*fp32",
        "lengths": "*i32",
        "tokens": "*i32",
        "rows": "*i32",
        "window": 0,
        "splits": 8,
        "span": 512,
        "out_token_stride": 32 * dim,
        "out_head_stride": dim,
        "DIM": dim,
        "PADDED_DIM": padded_dim(dim),
        "SPLITS": REDUCE_SPLITS,
    }
    what = f"dim {dim}, {element}"
    return Launch(reduce_splits, what, arguments, {"num_warps": REDUCE_WARPS})
