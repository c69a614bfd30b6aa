"""Copies and swaps of blocks, and the streams they run on: in Triton's interpreter, or on a GPU."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton")

from kvtop.kernels.gpu import mover as mover_module
from kvtop.kernels.gpu.blocks import copy_blocks, swap_in, swap_out
from kvtop.kernels.gpu.mover import TritonMover
from kvtop.kernels.protocol import BlockMover, Moves
from kvtop.kernels.torch_blocks import TorchMover
from kvtop.kernels.upload import upload

CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")
TYPES = [torch.float32, torch.bfloat16, torch.float16, torch.uint8]


def pool(
    blocks: int, dtype: torch.dtype = torch.float32, inner: tuple[int, ...] = (2, 4, 8), host: bool = False
) -> torch.Tensor:
    """`[3 layers, 2, blocks, *inner]` of bits at random, NaN and all."""
    generator = torch.Generator().manual_seed(blocks)
    size = (*inner[:-1], inner[-1] * dtype.itemsize)
    bits = torch.randint(0, 256, (3, 2, blocks, *size), dtype=torch.uint8, generator=generator)
    made = bits.view(dtype)
    return (made.pin_memory() if CUDA else made) if host else made.to(DEVICE)


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Equal in every bit."""
    return torch.equal(one.cpu().contiguous().view(torch.uint8), other.cpu().contiguous().view(torch.uint8))


def indices(*pairs: tuple[int, int]) -> torch.Tensor:
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).to(DEVICE)


def move(mover: BlockMover, device_kv: torch.Tensor, host_kv: torch.Tensor, moves: Moves) -> None:
    """As a step does it."""
    mover.run(device_kv, host_kv, moves, upload(mover.metadata(moves), DEVICE))
    mover.settle()
    if CUDA:
        torch.cuda.synchronize()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("inner", [(2, 4, 8), (1, 1, 1), (3, 1, 5), (1, 3, 2), (4, 24, 96)])
def test_copies_all_layers_of_keys_and_values(dtype, inner) -> None:
    kv = pool(6, dtype, inner)
    expected = kv.clone()
    expected[:, :, [5, 0, 3]] = expected[:, :, [1, 1, 2]]
    copy_blocks(kv, indices((1, 5), (1, 0), (2, 3)))
    assert same(kv, expected)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("inner", [(2, 4, 8), (1, 1, 1), (3, 1, 5), (4, 24, 96)])
def test_swaps_there_and_back(dtype, inner) -> None:
    device_kv, host_kv = pool(6, dtype, inner), pool(4, dtype, inner, host=True)
    original, expected = device_kv.clone(), host_kv.clone()
    expected[:, :, [3, 0]] = original[:, :, [1, 5]].cpu()
    swap_out(device_kv, host_kv, indices((1, 3), (5, 0)))
    if CUDA:
        torch.cuda.synchronize()
    assert same(host_kv, expected) and same(device_kv, original)
    swap_in(host_kv, device_kv, indices((3, 0), (0, 2)))
    original[:, :, [0, 2]] = original[:, :, [1, 5]]
    assert same(device_kv, original) and same(host_kv, expected)


@pytest.mark.parametrize("offset", [1, 2, 3, 4])
def test_a_pool_that_begins_anywhere(offset) -> None:
    """The words that move are no wider than the place of the pool's first byte allows."""
    memory = torch.arange(offset + 3 * 2 * 4 * 16, dtype=torch.int64, device=DEVICE).half()
    kv = memory[offset:].view(3, 2, 4, 1, 1, 16)
    expected = kv.clone()
    expected[:, :, 3] = expected[:, :, 0]
    copy_blocks(kv, indices((0, 3)))
    assert same(kv, expected)


def test_no_pairs_and_no_blocks() -> None:
    kv, host = pool(3), pool(0, host=True)
    before = kv.clone()
    copy_blocks(kv, indices())
    swap_out(kv, host, indices())
    swap_in(host, kv, indices())
    mover = TritonMover()
    move(mover, kv, host, Moves())
    assert same(kv, before)


def test_offsets_beyond_two_to_the_31() -> None:
    """Pages that are never touched take no memory."""
    if CUDA:
        pytest.skip("would take 2 GB of the GPU's memory")
    size = 2**15 + 1  # odd, so that it moves byte by byte
    kv = torch.empty(1, 2, 2**15, 1, 1, size, dtype=torch.uint8)
    kv[0, :, 2] = torch.randint(0, 256, (2, 1, 1, size), dtype=torch.uint8)
    copy_blocks(kv, indices((2, 2**15 - 1)))
    assert torch.equal(kv[0, :, -1], kv[0, :, 2])


def test_what_does_not_fit_is_refused() -> None:
    kv, pairs = pool(4), indices((0, 1))
    with pytest.raises(ValueError, match="pools differ"):
        swap_out(kv, pool(4, torch.bfloat16, host=True), pairs)
    with pytest.raises(ValueError, match="pools differ"):
        swap_in(pool(4, inner=(2, 4, 4), host=True), kv, pairs)
    with pytest.raises(ValueError, match="pools differ"):
        copy_blocks(kv[0], pairs)
    with pytest.raises(ValueError, match="contiguous"):
        copy_blocks(kv[:, :, ::2], pairs)
    with pytest.raises(ValueError, match="int64"):
        copy_blocks(kv, pairs.int())
    with pytest.raises(ValueError, match="int64"):
        copy_blocks(kv, pairs[0])


@pytest.mark.skipif(not CUDA, reason="needs a GPU")
def test_host_memory_that_is_not_pinned_is_refused() -> None:
    unpinned = pool(4, host=True).clone()
    for move in (
        lambda: swap_out(pool(4), unpinned, indices((0, 1))),
        lambda: swap_in(unpinned, pool(4), indices((0, 1))),
    ):
        with pytest.raises(ValueError, match="pinned"):
            move()


# -- the mover --------------------------------------------------------------------------------------------

PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4)


@settings(max_examples=20)
@given(st.lists(st.builds(Moves, PAIRS, PAIRS, PAIRS), min_size=1, max_size=2))
def test_moves_as_if_in_order(steps) -> None:
    pools = []
    for mover in (TritonMover(), TorchMover()):
        device_kv, host_kv = pool(4), pool(5, host=True)
        for moves in steps:
            move(mover, device_kv, host_kv, moves)
        pools.append((device_kv, host_kv))
    assert same(pools[0][0], pools[1][0]) and same(pools[0][1], pools[1][1])


class Streams:
    """Stands for torch.cuda: writes down what would be launched where, and what waits for what."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.current = "main"
        cuda = SimpleNamespace(
            Stream=lambda device: self._stream("side"),
            Event=object,
            current_stream=lambda device: self._stream(self.current),
            stream=self._within,
        )
        monkeypatch.setattr(mover_module, "torch", SimpleNamespace(cuda=cuda))
        for name in ("copy_blocks", "swap_out", "swap_in"):
            monkeypatch.setattr(mover_module, name, lambda *args, name=name: self._note(name))
        self.kv: Any = SimpleNamespace(device=SimpleNamespace(type="cuda"))
        self.pairs: Any = SimpleNamespace(
            split=lambda sizes: [None] * len(sizes),
            record_stream=lambda stream: self.log.append(f"pairs: kept for {stream.name}"),
        )

    def _note(self, what: str) -> None:
        self.log.append(f"{self.current}: {what}")

    def _stream(self, name: str) -> Any:
        def record() -> str:
            self.log.append(f"{name}: record")
            return "the swaps"

        return SimpleNamespace(
            name=name,
            device=None,
            wait_stream=lambda other: self.log.append(f"{name}: wait for {other.name}"),
            wait_event=lambda event: self.log.append(f"{name}: wait for {event}"),
            record_event=record,
        )

    @contextmanager
    def _within(self, stream: Any):
        self.current, before = stream.name, self.current
        yield
        self.current = before

    def run(self, mover: TritonMover, **moves: Any) -> None:
        mover.run(self.kv, self.kv, Moves(**moves), {mover_module.PAIRS: self.pairs})


SWAP_OUT = ["side: wait for main", "side: swap_out", "pairs: kept for side", "side: record"]
SWAP_IN = ["side: wait for main", "side: swap_in", "pairs: kept for side", "side: record"]


def test_swaps_run_beside_and_settle_orders_them(monkeypatch) -> None:
    streams, mover = Streams(monkeypatch), TritonMover()
    mover.settle()
    assert streams.log == []
    streams.run(mover, swaps_out=[(0, 1)], swaps_in=[(1, 2)])
    assert streams.log == SWAP_OUT + SWAP_IN
    streams.log.clear()
    mover.settle()
    mover.settle()
    assert streams.log == ["main: wait for the swaps"]


def test_a_copy_comes_after_the_swaps(monkeypatch) -> None:
    streams, mover = Streams(monkeypatch), TritonMover()
    streams.run(mover, copies=[(0, 1)])
    streams.run(mover, swaps_in=[(1, 2)], copies=[(2, 3)])
    streams.run(mover, swaps_out=[(3, 0)])
    assert streams.log == [
        "main: copy_blocks",
        *SWAP_IN,
        "main: wait for the swaps",
        "main: copy_blocks",
        *SWAP_OUT,
    ]
