"""Writing a step's keys and values into the paged cache, by slot (Kwon et al., SOSP 2023, section 4.3)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

TILE_ELEMENTS = 1024
"""Elements of K and of V that one program moves, about: heads are taken together until there are so many."""
WARPS = 4


@triton.jit
def store_kernel(
    key: tl.tensor,
    value: tl.tensor,
    key_cache: tl.tensor,
    value_cache: tl.tensor,
    slots: tl.tensor,
    heads: tl.tensor,
    block_size: tl.tensor,
    key_token_stride: tl.tensor,
    key_head_stride: tl.tensor,
    value_token_stride: tl.tensor,
    value_head_stride: tl.tensor,
    block_stride: tl.tensor,
    head_stride: tl.tensor,
    offset_stride: tl.tensor,
    DIM: tl.constexpr,
    HEADS_TILE: tl.constexpr,
    DIM_TILE: tl.constexpr,
) -> None:
    """One program: one token's K and V for `HEADS_TILE` heads. Grid: (tokens, tiles of heads)."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token)
    if slot >= 0:
        block = slot // block_size
        offset = slot % block_size
        head = (tl.program_id(1) * HEADS_TILE + tl.arange(0, HEADS_TILE))[:, None]
        element = tl.arange(0, DIM_TILE)[None, :]
        wanted = (head < heads) & (element < DIM)
        at = block * block_stride + offset * offset_stride + head.to(tl.int64) * head_stride + element
        new_key = tl.load(key + token * key_token_stride + head * key_head_stride + element, mask=wanted)
        new_value = tl.load(
            value + token * value_token_stride + head * value_head_stride + element, mask=wanted
        )
        tl.store(key_cache + at, new_key.to(key_cache.dtype.element_ty), mask=wanted)
        tl.store(value_cache + at, new_value.to(value_cache.dtype.element_ty), mask=wanted)


def tile_shape(heads: int, dim: int) -> tuple[int, int]:
    """The heads and the elements of each that one program covers: powers of two."""
    dim_tile = triton.next_power_of_2(dim)
    return min(triton.next_power_of_2(heads), max(1, TILE_ELEMENTS // dim_tile)), dim_tile


def store(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    """Write each token's key and value to its slot. Changes the caches, and of them only these slots.

    key, value: `[T, kv heads, dim]`, any strides as long as a head's elements are contiguous; fp32, fp16 or
    bf16, rounded to the caches' type. key_cache, value_cache: `[blocks, kv heads, block size, dim]`, of the
    same strides. slots: `[T]` int64, block id x block size + offset; -1 marks a token of padding, which is
    not written. Two tokens must not have the same slot.

    Raises ValueError where the shapes or strides do not fit.
    """
    tokens, heads, dim = key.shape
    _, cache_heads, block_size, cache_dim = key_cache.shape
    if (heads, dim) != (cache_heads, cache_dim) or value.shape != key.shape or slots.shape != (tokens,):
        raise ValueError(
            f"shapes do not fit: key {tuple(key.shape)}, value {tuple(value.shape)}, "
            f"cache {tuple(key_cache.shape)}, slots {tuple(slots.shape)}"
        )
    if key_cache.shape != value_cache.shape or key_cache.stride() != value_cache.stride():
        raise ValueError("the two caches differ in shape or strides")
    if dim > 1 and not key.stride(2) == value.stride(2) == key_cache.stride(3) == 1:
        raise ValueError("the last dimension must be contiguous")
    if not tokens:
        return
    heads_tile, dim_tile = tile_shape(heads, dim)
    store_kernel[tokens, triton.cdiv(heads, heads_tile)](
        key,
        value,
        key_cache,
        value_cache,
        slots,
        heads,
        block_size,
        key.stride(0),
        key.stride(1),
        value.stride(0),
        value.stride(1),
        key_cache.stride(0),
        key_cache.stride(1),
        key_cache.stride(2),
        DIM=dim,
        HEADS_TILE=heads_tile,
        DIM_TILE=dim_tile,
        num_warps=WARPS,
    )
