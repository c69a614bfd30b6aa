"""`store` against plain indexing: in Triton's interpreter, or on a GPU where there is one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

pytest.importorskip("triton")

from kvtop.kernels.gpu.store import store, tile_shape
from tests.kernels.gpu.grid import DEVICE, TYPES


def slots_of(tokens: int, blocks: int, block_size: int) -> torch.Tensor:
    """Scattered slots, none twice, every fourth token padding."""
    slots = np.random.default_rng(tokens).permutation(blocks * block_size)[:tokens]
    slots[3::4] = -1
    return torch.from_numpy(slots).to(DEVICE)


def check(
    tokens: int,
    heads: int,
    dim: int,
    block_size: int,
    dtype: torch.dtype = torch.float32,
    cache_dtype: torch.dtype | None = None,
    exact: bool = True,
) -> None:
    generator = torch.Generator().manual_seed(dim)
    # As a fused projection leaves them: queries, keys and values of a token side by side.
    fused = torch.randn(tokens, 4 * heads, dim, generator=generator).to(DEVICE, dtype)
    key, value = fused[:, 2 * heads : 3 * heads], fused[:, 3 * heads :]
    blocks = -(-tokens // block_size) + 3
    shape = (blocks, heads, block_size, dim)
    key_cache = torch.full(shape, float("nan"), dtype=cache_dtype or dtype, device=DEVICE)
    value_cache = key_cache.clone()
    slots = slots_of(tokens, blocks, block_size)

    expected = key_cache.clone(), value_cache.clone()
    real = slots >= 0
    at = slots[real] // block_size, slots[real] % block_size
    for cache, new in zip(expected, (key, value), strict=True):
        cache[at[0], :, at[1]] = new[real].to(cache.dtype)
    store(key, value, key_cache, value_cache, slots)
    for got, wanted in zip((key_cache, value_cache), expected, strict=True):
        assert torch.equal(got.isnan(), wanted.isnan())
        if exact:
            assert torch.equal(got.nan_to_num(), wanted.nan_to_num())
        else:
            torch.testing.assert_close(got.nan_to_num(), wanted.nan_to_num(), rtol=2**-7, atol=0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("heads", "dim"), [(2, 64), (3, 80), (1, 5), (9, 256)])
@pytest.mark.parametrize("block_size", [1, 16, 24])
def test_each_token_goes_to_its_slot_and_padding_nowhere(dtype, heads, dim, block_size) -> None:
    check(9, heads, dim, block_size, dtype)


@pytest.mark.long
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("heads", [1, 2, 3, 8, 32])
@pytest.mark.parametrize("dim", [32, 64, 80, 96, 128, 160, 192, 256])
@pytest.mark.parametrize("block_size", [1, 2, 7, 16, 32, 128, 256])
def test_every_shape(dtype, heads, dim, block_size) -> None:
    check(33, heads, dim, block_size, dtype)


@pytest.mark.parametrize(("dtype", "cache_dtype"), itertools.permutations(TYPES, 2))
def test_rounds_to_the_type_of_the_cache_as_torch_does(dtype, cache_dtype) -> None:
    # The interpreter cuts off what bfloat16 has no bits for, where a GPU rounds to even.
    exact = DEVICE.type == "cuda" or cache_dtype != torch.bfloat16
    check(9, 3, 64, 16, dtype, cache_dtype, exact)


def test_keys_and_values_of_different_strides() -> None:
    key = torch.randn(2, 3, 8, device=DEVICE).transpose(0, 1)
    value = torch.randn(3, 2, 8, device=DEVICE)
    caches = torch.zeros(2, 1, 2, 4, 8, device=DEVICE)
    store(key, value, caches[0], caches[1], torch.tensor([2, 0, 3], device=DEVICE))
    assert torch.equal(caches[0, 0, :, [2, 0, 3]], key.transpose(0, 1))
    assert torch.equal(caches[1, 0, :, [2, 0, 3]], value.transpose(0, 1))


def test_nothing_to_store() -> None:
    cache = torch.zeros(1, 2, 4, 8, device=DEVICE)
    none = torch.empty(0, 2, 8, device=DEVICE)
    store(none, none, cache, cache.clone(), torch.empty(0, dtype=torch.int64, device=DEVICE))
    assert not cache.any()


def test_offsets_beyond_two_to_the_31(monkeypatch) -> None:
    """A view with a huge stride between blocks: pages that are never touched take no memory."""
    if DEVICE.type == "cuda":
        pytest.skip("would take 4 GB of the GPU's memory")
    stride = 2**30 + 64
    memory = torch.empty(2 * stride + 64, dtype=torch.float16)
    cache = memory.as_strided((3, 1, 2, 32), (stride, 64, 32, 1))
    new = torch.randn(1, 1, 32).half()
    store(new, new, cache, cache, torch.tensor([2 * 2 + 1]))
    assert torch.equal(cache[2, 0, 1], new[0, 0])


def test_tiles_cover_heads_and_dims() -> None:
    for heads, dim in itertools.product([1, 2, 3, 8, 12, 96], [5, 32, 80, 128, 256, 2048]):
        heads_tile, dim_tile = tile_shape(heads, dim)
        assert dim <= dim_tile < 2 * dim and heads_tile < 2 * heads
        assert dim_tile & (dim_tile - 1) == 0 and heads_tile & (heads_tile - 1) == 0


def test_what_does_not_fit_is_refused() -> None:
    key = torch.zeros(3, 2, 8, device=DEVICE)
    cache = torch.zeros(4, 2, 4, 8, device=DEVICE)
    slots = torch.zeros(3, dtype=torch.int64, device=DEVICE)
    with pytest.raises(ValueError, match="shapes do not fit"):
        store(key[:, :1], key[:, :1], cache, cache, slots)
    with pytest.raises(ValueError, match="shapes do not fit"):
        store(key, key, cache, cache, slots[:2])
    with pytest.raises(ValueError, match="differ"):
        store(key, key, cache, cache[:2], slots)
    with pytest.raises(ValueError, match="contiguous"):
        store(key, torch.zeros(3, 8, 2, device=DEVICE).transpose(1, 2), cache, cache, slots)
