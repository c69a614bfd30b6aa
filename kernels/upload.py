"""A step's metadata on its way to the device: many small arrays, one copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

ALIGNMENT = 16
"""Bytes; each array begins at a multiple, so that kernels may load it in whole vectors."""


def upload(arrays: Mapping[str, npt.NDArray[Any]], device: torch.device) -> dict[str, torch.Tensor]:
    """The arrays as tensors on the device, by name. Changes nothing.

    On CUDA they are laid out in one pinned buffer that goes over in one asynchronous copy on the current
    stream; torch's allocator keeps the buffer until that is done. On a CPU the tensors share the arrays'
    memory where that is contiguous.
    """
    if device.type == "cpu":
        return {name: torch.from_numpy(np.asarray(array, order="C")) for name, array in arrays.items()}
    places, size = layout(arrays)
    staged = torch.empty(size, dtype=torch.uint8, pin_memory=device.type == "cuda")
    fill(staged.numpy(), arrays, places)
    return views(staged.to(device, non_blocking=True), arrays, places)


def layout(arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[dict[str, int], int]:
    """Where each array begins in the buffer, and the buffer's size: in bytes."""
    places, size = {}, 0
    for name, array in arrays.items():
        places[name] = size
        size += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    return places, size


def fill(
    buffer: npt.NDArray[np.uint8],
    arrays: Mapping[str, npt.NDArray[Any]],
    places: Mapping[str, int],
) -> None:
    """Write the arrays to their places. Changes `buffer`."""
    for name, array in arrays.items():
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        buffer[places[name] : places[name] + len(data)] = data


def views(
    buffer: torch.Tensor, arrays: Mapping[str, npt.NDArray[Any]], places: Mapping[str, int]
) -> dict[str, torch.Tensor]:
    """The arrays' shapes and types over a buffer of bytes."""
    result = {}
    for name, array in arrays.items():
        kind = torch.from_numpy(np.empty(0, array.dtype)).dtype
        piece = buffer[places[name] : places[name] + array.nbytes]
        result[name] = piece.view(kind).view(array.shape)
    return result
