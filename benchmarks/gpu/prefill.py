"""How fast prefill computes over the paged cache, beside SDPA over contiguous keys and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gpu.contiguous import fastest_prefill
from gpu.session import Session, say
from gpu.timing import seconds_per_call
from kvtop.kernels.gpu.paged_prefill import paged_prefill, prefill_tiles, queries_per_tile

KV_HEADS, GROUP, DIM, BLOCK_SIZE = 8, 4, 128, 16

# Sequences, tokens stored before, new tokens of each.
SHAPES = ((8, 0, 2048), (1, 0, 8192), (4, 8192, 512), (32, 0, 256), (1, 0, 2048))
TINY = ((2, 4, 6),)


def run(session: Session) -> None:
    cases: list[dict[str, Any]] = []
    session.figures["cases"] = cases
    heads = (KV_HEADS, GROUP, DIM) if session.cuda else (1, 2, 32)
    for done, shape in enumerate(SHAPES if session.cuda else TINY):
        if not session.clock.left:
            session.leave_out(f"prefill: {len(SHAPES) - done} of {len(SHAPES)} shapes")
            return
        cases.append(_measure(session, *shape, *heads))


def floating_operations(sequences: int, stored: int, new: int, query_heads: int, dim: int) -> int:
    """Of the two products over what each query sees: a multiplication and an addition count as two."""
    seen = new * stored + new * (new + 1) // 2
    return 4 * sequences * seen * query_heads * dim


def _measure(
    session: Session, sequences: int, stored: int, new: int, kv_heads: int, group: int, dim: int
) -> dict[str, Any]:
    device, length = session.device, stored + new
    each = -(-length // BLOCK_SIZE)
    dtype = torch.bfloat16 if session.cuda else torch.float32
    caches = [
        torch.randn(sequences * each, kv_heads, BLOCK_SIZE, dim, device=device, dtype=dtype) for _ in range(2)
    ]
    tables = torch.randperm(sequences * each, device=device).int().view(sequences, each)
    lengths = torch.full((sequences,), length, dtype=torch.int32, device=device)
    starts = torch.arange(sequences + 1, device=device) * new
    query = torch.randn(sequences * new, kv_heads * group, dim, device=device, dtype=dtype)
    queries = queries_per_tile(dim, group, dtype.itemsize)
    tiles = torch.from_numpy(prefill_tiles(np.full(sequences, new), queries)).to(device)
    read = caches[0], caches[1], tables, lengths, starts, tiles, dim**-0.5
    seconds = seconds_per_call([lambda: paged_prefill(query, *read)] * 3, device)
    work = floating_operations(sequences, stored, new, kv_heads * group, dim)
    found: dict[str, Any] = {"sequences": sequences, "stored_tokens": stored, "new_tokens": new}
    if seconds is None:
        return found
    found |= {"paged_us": seconds * 1e6, "paged_tflop_per_s": work / seconds / 1e12}
    what = f"prefill {sequences} x {new}" + (f" after {stored}" if stored else "")
    verdict = ""
    if not stored:
        rival = fastest_prefill(query.view(sequences, new, -1, dim).transpose(1, 2), kv_heads, device)
        if rival is not None:
            found |= {"sdpa_us": rival.seconds * 1e6, "sdpa": rival.name}
            found["paged_over_sdpa"] = seconds / rival.seconds
            verdict = f"SDPA ({rival.name}) {work / rival.seconds / 1e12:.0f} TFLOP/s"
    say(what, f"{work / seconds / 1e12:.0f} TFLOP/s", verdict)
    return found
