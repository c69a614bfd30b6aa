"""Copy-on-write and swapping: right in every bit, and how fast beside plain copies of the same bytes."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from gpu.session import Session, say
from gpu.timing import Call, copy_bandwidth, seconds_per_call
from kvtop.kernels.gpu.blocks import copy_blocks, swap_in, swap_out
from kvtop.kernels.gpu.mover import TritonMover
from kvtop.kernels.protocol import Moves
from kvtop.kernels.torch_blocks import TorchMover
from kvtop.kernels.upload import upload

LAYERS, BLOCKS, HOST_BLOCKS, INNER = 16, 2048, 512, (8, 16, 128)
"""Of the pools that are timed: 1 MiB a block in bfloat16."""

# -- correctness ------------------------------------------------------------------------------------------


def check_moves(dtype: torch.dtype, session: Session) -> Iterator[tuple[str, float]]:
    """Errors of 0, or infinite ones: against plain torch, one pair after the other."""
    # Copies onto blocks that others read or wrote before; a block out and in again within one step.
    steps = [
        Moves(swaps_out=[(1, 3), (5, 0), (2, 3)], swaps_in=[(3, 4), (0, 2)], copies=[(4, 7), (7, 1), (4, 6)]),
        Moves(copies=[(0, 1), (1, 2), (3, 1)]),
        Moves(swaps_in=[(2, 0), (3, 1)]),
        Moves(swaps_out=[(7, 1)]),
        Moves(),
    ]
    shapes = [(2, 2, 8, 2, 4, 8), (1, 2, 8, 1, 3, 5)]
    if session.cuda:
        shapes += [(16, 2, 8, 8, 16, 128), (3, 2, 8, 3, 7, 80)]
    for shape in shapes:
        kv, host = _pool(shape, dtype, session), _pool((*shape[:2], 4, *shape[3:]), dtype, session, host=True)
        wanted, wanted_host = kv.cpu().clone(), host.clone()
        mover, plain = TritonMover(), TorchMover()
        for moves in steps:
            plain.run(wanted, wanted_host, moves, {})
            mover.run(kv, host, moves, upload(mover.metadata(moves), session.device))
            mover.settle()
        _wait(session)
        same = _same(kv, wanted) and _same(host, wanted_host)
        yield f"copies and swaps of {shape}", 0.0 if same else float("inf")
    yield "what is written after settle", 0.0 if _settled(dtype, session) else float("inf")


def _settled(dtype: torch.dtype, session: Session) -> bool:
    """Whether blocks that are swapped out may be overwritten at once after `settle`."""
    blocks = 256 if session.cuda else 3
    shape = (4, 2, blocks, 8, 16, 128) if session.cuda else (1, 2, blocks, 1, 4, 8)
    kv, host = _pool(shape, dtype, session), _pool(shape, dtype, session, host=True)
    wanted, mover = kv.cpu().clone(), TritonMover()
    moves = Moves(swaps_out=[(block, blocks - 1 - block) for block in range(blocks)])
    mover.run(kv, host, moves, upload(mover.metadata(moves), session.device))
    mover.settle()
    kv.zero_()
    _wait(session)
    return _same(host, wanted.flip(2))


def _pool(shape: tuple[int, ...], dtype: torch.dtype, session: Session, host: bool = False) -> torch.Tensor:
    generator = torch.Generator().manual_seed(shape[2])
    made = torch.randn(shape, generator=generator).to(dtype)
    if host:
        return made.pin_memory() if session.cuda else made
    return made.to(session.device)


def _wait(session: Session) -> None:
    if session.cuda:
        torch.cuda.synchronize()


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.cpu(), other.cpu())


# -- bandwidth --------------------------------------------------------------------------------------------


def run(session: Session) -> None:
    layers, blocks, host_blocks, inner = 2, 6, 4, (1, 4, 8)
    if session.cuda:
        layers, blocks, host_blocks, inner = LAYERS, BLOCKS, HOST_BLOCKS, INNER
    device = session.device
    kv = torch.empty(layers, 2, blocks, *inner, dtype=torch.bfloat16, device=device).normal_()
    host = torch.zeros(layers, 2, host_blocks, *inner, dtype=torch.bfloat16, pin_memory=session.cuda)
    block_bytes = kv.nbytes // blocks
    session.figures["block_bytes"] = block_bytes
    peak = copy_bandwidth(device)
    for count in (blocks // 128, blocks // 8, blocks // 2) if session.cuda else (2,):
        # Other blocks at every call: the L2 cache serves none of them.
        calls: list[Call] = []
        for _ in range(4):
            pairs = torch.randperm(blocks, device=device)[: 2 * count].view(-1, 2)
            calls.append(lambda pairs=pairs: copy_blocks(kv, pairs))  # type: ignore[misc]
        seconds = seconds_per_call(calls, device)
        if seconds is not None and peak is not None:
            rate = 2 * count * block_bytes / seconds
            session.figures[f"copy_{count}_blocks_gb_per_s"] = rate / 1e9
            session.figures[f"copy_{count}_blocks_share_of_copy"] = rate / peak
            say(f"copy-on-write of {count} blocks", f"{rate / 1e9:.0f} GB/s", f"{rate / peak:.0%} of a copy")
    _swaps(session, kv, host, block_bytes)


def _swaps(session: Session, kv: torch.Tensor, host: torch.Tensor, block_bytes: int) -> None:
    """Scattered blocks over the bus, beside one plain copy of as many bytes from and to pinned memory."""
    count = host.shape[2] // 2
    device = session.device
    here = torch.randperm(kv.shape[2], device=device)[:count]
    there = torch.randperm(host.shape[2], device=device)[:count]
    out, back = torch.stack([here, there], 1), torch.stack([there, here], 1)
    flat, flat_host = (pool.view(-1).view(torch.uint8)[: count * block_bytes] for pool in (kv, host))
    mover = TritonMover()
    moves_out = Moves(swaps_out=[(int(a), int(b)) for a, b in out.tolist()])
    plain = TorchMover()

    def through_mover() -> None:
        mover.run(kv, host, moves_out, upload(mover.metadata(moves_out), device))
        mover.settle()

    def one_by_one() -> None:
        plain.run(kv, host, moves_out, {})

    ways: dict[str, Call] = {
        "swap_out": lambda: swap_out(kv, host, out),
        "swap_in": lambda: swap_in(host, kv, back),
        "swap_out_with_upload": through_mover,
        "swap_out_torch_block_by_block": one_by_one,
        "plain_copy_out": lambda: flat_host.copy_(flat, non_blocking=True),
        "plain_copy_in": lambda: flat.copy_(flat_host, non_blocking=True),
    }
    for name, way in ways.items():
        seconds = seconds_per_call([way] * 2, device, graph=False)
        if seconds is not None:
            rate = count * block_bytes / seconds / 1e9
            session.figures[f"{name}_gb_per_s"] = rate
            say(f"{name.replace('_', ' ')}, {count} blocks of {block_bytes >> 10} KiB", f"{rate:.1f} GB/s")
    for side in ("out", "in"):
        ours, theirs = (session.figures.get(f"{kind}_{side}_gb_per_s") for kind in ("swap", "plain_copy"))
        if ours and theirs:
            session.figures[f"swap_{side}_share_of_plain_copy"] = ours / theirs
