"""Arrays laid out in one buffer and seen through it: nothing changes on the way."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kvtop.kernels.upload import ALIGNMENT, fill, layout, upload, views

TYPES = ["?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
ARRAYS = st.dictionaries(
    st.text("abc", min_size=1, max_size=3),
    st.sampled_from(TYPES).flatmap(lambda kind: hnp.arrays(kind, SHAPES)),
    max_size=6,
)


def through_a_buffer(arrays: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    places, size = layout(arrays)
    buffer = torch.full((size,), 0xA5, dtype=torch.uint8)
    fill(buffer.numpy(), arrays, places)
    return views(buffer, arrays, places)


def same(tensor: torch.Tensor, array: np.ndarray) -> bool:
    """Equal in shape, type and every bit."""
    back = tensor.numpy()
    return back.shape == array.shape and back.dtype == array.dtype and back.tobytes() == array.tobytes()


@given(ARRAYS)
def test_every_type_and_shape_comes_back(arrays) -> None:
    tensors = through_a_buffer(arrays)
    assert list(tensors) == list(arrays)
    assert all(same(tensors[name], array) for name, array in arrays.items())


@given(ARRAYS)
def test_arrays_begin_at_vectors_and_do_not_meet(arrays) -> None:
    places, size = layout(arrays)
    end = 0
    for name, array in arrays.items():
        assert places[name] % ALIGNMENT == 0 and end <= places[name] < end + ALIGNMENT
        end = places[name] + array.nbytes
    assert end <= size


@given(ARRAYS)
def test_on_a_cpu_the_memory_is_shared(arrays) -> None:
    tensors = upload(arrays, torch.device("cpu"))
    for name, array in arrays.items():
        assert same(tensors[name], array)
        if array.size:
            assert np.shares_memory(tensors[name].numpy(), array)


@pytest.mark.parametrize("how", [through_a_buffer, lambda arrays: upload(arrays, torch.device("cpu"))])
def test_arrays_that_are_not_contiguous(how) -> None:
    whole = np.arange(24, dtype=np.int32).reshape(4, 6)
    arrays = {"columns": whole[:, 1::2], "backwards": whole[::-1], "transposed": whole.T}
    tensors = how(arrays)
    assert all(same(tensors[name], array) for name, array in arrays.items())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_one_buffer_on_a_gpu() -> None:
    arrays = {"a": np.arange(5, dtype=np.int64), "b": np.zeros((0, 3), np.int32), "c": np.ones(3, np.float32)}
    tensors = upload(arrays, torch.device("cuda"))
    assert all(same(tensors[name].cpu(), array) for name, array in arrays.items())
    assert len({tensor.untyped_storage().data_ptr() for tensor in tensors.values()}) == 1
