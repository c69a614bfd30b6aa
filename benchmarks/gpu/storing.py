"""`store` against plain indexing: bit for bit."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from gpu.session import Session
from kvtop.kernels.gpu.store import store


def check_store(dtype: torch.dtype, session: Session) -> Iterator[tuple[str, float]]:
    """Errors of 0, or infinite ones."""
    shapes = [(5, 2, 32, 4)]
    if session.cuda:
        shapes = [(1, 1, 64, 16), (200, 8, 128, 16), (77, 3, 80, 7), (64, 2, 256, 1), (33, 20, 96, 256)]
    for tokens, heads, dim, block_size in shapes:
        for source in (dtype, torch.float32) if session.cuda else (dtype,):
            what = f"{source} to {dtype}, {tokens} tokens, {heads} heads of {dim}, block size {block_size}"
            right = _right((tokens, heads, dim), block_size, source, dtype, session.device)
            yield what, 0.0 if right else float("inf")


def _right(
    shape: tuple[int, int, int], size: int, source: torch.dtype, dtype: torch.dtype, device: torch.device
) -> bool:
    tokens, heads, dim = shape
    generator = torch.Generator(device).manual_seed(dim)
    blocks = -(-tokens // size) + 2
    order = torch.randperm(blocks * size, generator=generator, device=device)[:tokens]
    slots = torch.where(torch.arange(tokens, device=device) % 5 == 3, -1, order)
    # As models hand them over: keys and values are parts of one wider tensor.
    both = torch.randn(tokens, 2 * heads, dim, generator=generator, device=device).to(source)
    key, value = both[:, :heads], both[:, heads:]
    caches = [torch.full((blocks, heads, size, dim), float("nan"), dtype=dtype, device=device) for _ in "kv"]
    expected = [cache.clone() for cache in caches]
    real = slots >= 0
    for cache, new in zip(expected, (key, value), strict=True):
        cache[slots[real] // size, :, slots[real] % size] = new[real].to(dtype)
    store(key, value, caches[0], caches[1], slots)
    # NaN where nothing was written, in both.
    return all(
        torch.equal(cache.isnan(), wanted.isnan()) and torch.equal(cache.nan_to_num(), wanted.nan_to_num())
        for cache, wanted in zip(caches, expected, strict=True)
    )
