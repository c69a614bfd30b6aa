"""Moving whole blocks between two pools: all layers, keys and values, in one launch.

Copy-on-write (Kwon et al., SOSP 2023, section 4.4) moves within the device's pool; swapping (section 4.5)
moves between it and host memory, which must be pinned: the kernel reads and writes it in place, over the
bus, so that scattered blocks need neither a staging buffer nor a copy call each.

The functions launch on the current stream and run all pairs at once; `kvtop.kernels.gpu.mover` has what
orders them. They move bits, whatever the type.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

TILE_WORDS = 1024
"""Words that one program moves."""
WARPS = 4

_WORDS = (torch.int64, torch.int32, torch.int16, torch.uint8)


@triton.jit(do_not_specialize=["source_blocks", "target_blocks"])
def move_blocks_kernel(
    source: tl.tensor,
    target: tl.tensor,
    pairs: tl.tensor,
    source_blocks: tl.tensor,
    target_blocks: tl.tensor,
    words: tl.tensor,
    TILE: tl.constexpr,
) -> None:
    """One program: `TILE` words of one plane (K or V of a layer) of one block.

    Grid: (pairs, planes, tiles of a block). source, target: `[planes, blocks, words]`, contiguous. Compiled
    alike for pools of every size: what a small one has warmed up serves a large one.
    """
    pair = tl.program_id(0).to(tl.int64)
    plane = tl.program_id(1).to(tl.int64)
    from_block = tl.load(pairs + 2 * pair)
    to_block = tl.load(pairs + 2 * pair + 1)
    word = tl.program_id(2) * TILE + tl.arange(0, TILE)
    inside = word < words
    moved = tl.load(source + (plane * source_blocks + from_block) * words + word, mask=inside)
    tl.store(target + (plane * target_blocks + to_block) * words + word, moved, mask=inside)


def copy_blocks(kv: torch.Tensor, pairs: torch.Tensor) -> None:
    """Copy blocks within a pool. Changes the destinations.

    kv: `[layers, 2, blocks, kv heads, block size, dim]`, contiguous. pairs: `[P, 2]` int64 (source,
    destination) on the same device; no destination may be another pair's source or destination. Raises
    ValueError for what does not fit.
    """
    _move(kv, kv, pairs)


def swap_out(device_kv: torch.Tensor, host_kv: torch.Tensor, pairs: torch.Tensor) -> None:
    """Copy blocks from the device's pool to the host's. Changes the host's.

    device_kv, host_kv: `[layers, 2, blocks, kv heads, block size, dim]` of one type, contiguous, equal but
    for the number of blocks; host_kv is in pinned memory. pairs: `[P, 2]` int64 (device block, host block)
    on the device, no host block twice. Raises ValueError for what does not fit.
    """
    _move(device_kv, host_kv, pairs)


def swap_in(host_kv: torch.Tensor, device_kv: torch.Tensor, pairs: torch.Tensor) -> None:
    """Copy blocks from the host's pool to the device's. Changes the device's.

    As `swap_out`, but pairs holds (host block, device block), no device block twice.
    """
    _move(host_kv, device_kv, pairs)


def _move(source: torch.Tensor, target: torch.Tensor, pairs: torch.Tensor) -> None:
    _check(source, target, pairs)
    if not len(pairs) or not source.numel():
        return
    planes = source.shape[0] * source.shape[1]
    source_words, target_words = _as_words(source, target)
    words = source_words.shape[2]
    move_blocks_kernel[len(pairs), planes, triton.cdiv(words, TILE_WORDS)](
        source_words,
        target_words,
        pairs,
        source.shape[2],
        target.shape[2],
        words,
        TILE=TILE_WORDS,
        num_warps=WARPS,
    )


def _as_words(source: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The pools as `[planes, blocks, words]`, in the largest words that a block and its place divide into."""
    planes = source.shape[0] * source.shape[1]
    flat = [pool.view(planes, pool.shape[2], -1).view(torch.uint8) for pool in (source, target)]
    aligned = math.gcd(flat[0].shape[2], *(pool.data_ptr() for pool in flat))
    word = next(word for word in _WORDS if aligned % word.itemsize == 0)
    return flat[0].view(word), flat[1].view(word)


def _check(source: torch.Tensor, target: torch.Tensor, pairs: torch.Tensor) -> None:
    one, other = source.shape, target.shape
    if len(one) != 6 or one[:2] != other[:2] or one[3:] != other[3:] or source.dtype != target.dtype:
        raise ValueError(f"pools differ: {tuple(one)} {source.dtype} and {tuple(other)} {target.dtype}")
    if not (source.is_contiguous() and target.is_contiguous()):
        raise ValueError("a pool of blocks must be contiguous")
    if pairs.dtype != torch.int64 or pairs.ndim != 2 or pairs.shape[1] != 2 or not pairs.is_contiguous():
        raise ValueError(f"pairs must be [P, 2] int64 and contiguous, not {tuple(pairs.shape)} {pairs.dtype}")
    if pairs.is_cuda and not all(pool.is_cuda or pool.is_pinned() for pool in (source, target)):
        raise ValueError("blocks move between the GPU and pinned host memory only: pin the host's pool")
