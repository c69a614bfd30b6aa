"""Copy-on-write and swapping on the GPU: which stream each runs on, and what waits for what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch

from kvtop.kernels.gpu.blocks import copy_blocks, swap_in, swap_out
from kvtop.kernels.packed import Array
from kvtop.kernels.protocol import Moves
from kvtop.kernels.waves import waves

PAIRS = "moves.pairs"


class TritonMover:
    """Implements `kvtop.kernels.protocol.BlockMover` for CUDA, and for a CPU under Triton's interpreter.

    Copies run on the current stream. Swaps run on a stream of their own, after what the current stream holds
    at the time; the current stream goes on without them until `settle`. The host waits for neither. On CUDA
    the host's pool must be pinned (else ValueError), and both pools must outlive the swaps between them.
    """

    def __init__(self) -> None:
        self._stream: torch.cuda.Stream | None = None
        self._swapped: torch.cuda.Event | None = None
        """Passed once the swaps since the last `settle` are done; None when there were none."""

    def metadata(self, moves: Moves) -> dict[str, Array]:
        """The pairs of all launches, one after the other, `[P, 2]` int64. Changes nothing."""
        pairs = [pair for _, groups in _launches(moves) for group in groups for pair in group]
        return {PAIRS: np.array(pairs, np.int64).reshape(-1, 2)}

    def run(
        self,
        device_kv: torch.Tensor,
        host_kv: torch.Tensor,
        moves: Moves,
        uploaded: Mapping[str, torch.Tensor],
    ) -> None:
        """Swaps beside the current stream, then copies on it, after the swaps. Changes both pools."""
        launches = _launches(moves)
        sizes = [len(group) for _, groups in launches for group in groups]
        waves_left = iter(uploaded[PAIRS].split(sizes) if sizes else ())  # type: ignore[no-untyped-call]
        for kind, groups in launches:
            if kind == "copy":
                self.settle()
                for _ in groups:
                    copy_blocks(device_kv, next(waves_left))
                continue
            with self._beside(device_kv.device, uploaded[PAIRS]):
                for _ in groups:
                    if kind == "out":
                        swap_out(device_kv, host_kv, next(waves_left))
                    else:
                        swap_in(host_kv, device_kv, next(waves_left))

    def settle(self) -> None:
        """Let the current stream wait for the swaps so far. The host does not wait."""
        if self._stream is not None and self._swapped is not None:
            torch.cuda.current_stream(self._stream.device).wait_event(self._swapped)
            self._swapped = None

    @contextmanager
    def _beside(self, device: torch.device, read: torch.Tensor) -> Iterator[None]:
        """What is launched within, and reads `read`, runs on the swaps' stream, after what the current stream
        holds."""
        if device.type != "cuda":
            yield
            return
        if self._stream is None:
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream(device))
        try:
            with torch.cuda.stream(self._stream):
                yield
        finally:  # what was launched before something went wrong runs all the same
            # It was made on the current stream, which may get its memory back only when the swaps are done.
            read.record_stream(self._stream)
            self._swapped = self._stream.record_event()


def _launches(moves: Moves) -> list[tuple[str, list[list[tuple[int, int]]]]]:
    """Kinds of moves in the order of their running, each with its waves; what does not occur is left out."""
    kinds = (("out", moves.swaps_out), ("in", moves.swaps_in), ("copy", moves.copies))
    return [(kind, waves(pairs, one_pool=kind == "copy")) for kind, pairs in kinds if pairs]
