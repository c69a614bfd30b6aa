"""Copy-on-write and swapping on the GPU: which stream each runs on, and what waits for what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from kvtop.kernels.gpu.blocks import copy_blocks, swap_in, swap_out
from kvtop.kernels.protocol import Pairs
from kvtop.kernels.upload import upload
from kvtop.kernels.waves import waves


class TritonMover:
    """Implements `kvtop.kernels.protocol.BlockMover` for CUDA, and for a CPU under Triton's interpreter.

    Copies run on the current stream. Swaps run on a stream of their own, after what the current stream holds
    at the time; the current stream goes on without them until `settle`. The host waits for neither. On CUDA
    the host's pool must be pinned (else ValueError), and both pools must outlive the swaps between them.
    """

    name = "triton"

    def __init__(self) -> None:
        self._stream: torch.cuda.Stream | None = None
        self._swapped: torch.cuda.Event | None = None
        """Passed once the swaps since the last `settle` are done; None when there were none."""

    def copy(self, kv: torch.Tensor, pairs: Pairs) -> None:
        """Copy (source, destination), after the swaps so far. Changes the destinations."""
        if not pairs:
            return
        self.settle()
        for wave in _upload(pairs, kv.device, one_pool=True):
            copy_blocks(kv, wave)

    def swap_out(self, device_kv: torch.Tensor, host_kv: torch.Tensor, pairs: Pairs) -> None:
        """Copy (device block, host block). Changes the host blocks."""
        if not pairs:
            return
        with self._beside(device_kv.device):
            for wave in _upload(pairs, device_kv.device, one_pool=False):
                swap_out(device_kv, host_kv, wave)

    def swap_in(self, host_kv: torch.Tensor, device_kv: torch.Tensor, pairs: Pairs) -> None:
        """Copy (host block, device block). Changes the device blocks."""
        if not pairs:
            return
        with self._beside(device_kv.device):
            for wave in _upload(pairs, device_kv.device, one_pool=False):
                swap_in(host_kv, device_kv, wave)

    def settle(self) -> None:
        """Let the current stream wait for the swaps so far. The host does not wait."""
        if self._stream is not None and self._swapped is not None:
            torch.cuda.current_stream(self._stream.device).wait_event(self._swapped)
            self._swapped = None

    @contextmanager
    def _beside(self, device: torch.device) -> Iterator[None]:
        """What is launched within runs on the swaps' stream, after what the current stream holds."""
        if device.type != "cuda":
            yield
            return
        if self._stream is None:
            self._stream = torch.cuda.Stream(device)
        self._stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(self._stream):
            yield
        self._swapped = self._stream.record_event()


def _upload(pairs: Pairs, device: torch.device, one_pool: bool) -> list[torch.Tensor]:
    """The pairs' waves, `[P, 2]` int64 each, in one copy on the current stream.

    The allocator gives memory that was made on a stream away to later work of that stream only: the waves
    may be dropped as soon as the kernels that read them are launched on it.
    """
    groups = waves(pairs, one_pool)
    rows = np.array([pair for group in groups for pair in group], np.int64)
    return list(upload({"pairs": rows}, device)["pairs"].split([len(group) for group in groups]))
