"""What decode reads a second from a scattered cache, as a share of what a copy does, and what paging costs.

Only the keys and values are counted as read. Each call of a measurement reads other blocks, several times
the L2 cache in all, so that they come from memory; the two kernels of a split context count together.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gpu.cases import TOLERANCE
from gpu.contiguous import Rival, fastest_decode
from gpu.correctness import row_error
from gpu.session import Session, say
from gpu.timing import Call, calls_for, copy_bandwidth, l2_bytes, seconds_per_call
from kvtop.kernels.gpu.configs import AttentionConfig, decode_config
from kvtop.kernels.gpu.decode_plan import DecodePlan, plan_decode
from kvtop.kernels.gpu.paged_decode import BACKEND, paged_decode

BLOCK_SIZE = 16
BUDGET_SHAPE = (64, 4096)
BUDGET_SHARE = 0.85

# Sequences and tokens of each: the most telling first.
GRID = (
    (64, 4096),
    (8, 4096),
    (1, 4096),
    (256, 4096),
    (64, 1024),
    (1, 32768),
    (8, 32768),
    (1, 1024),
    (8, 1024),
    (256, 1024),
    (64, 128),
    (1, 128),
    (8, 128),
    (256, 128),
    (64, 32768),
    (256, 32768),
)
TINY = ((2, 20), (1, 40))
OTHER_BLOCK_SIZES = (1, 128)
HOST_CALLS = 40


@dataclass(frozen=True)
class Store:
    """Keys and values of many tokens, seen as blocks of any size or as sequences in one piece."""

    keys: torch.Tensor
    """Flat."""
    values: torch.Tensor
    kv_heads: int
    group: int
    dim: int

    @property
    def tokens(self) -> int:
        return self.keys.numel() // (self.kv_heads * self.dim)

    @property
    def token_bytes(self) -> int:
        """K and V of a token."""
        return 2 * self.kv_heads * self.dim * self.keys.itemsize

    def blocks(self, block_size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """`[blocks, kv heads, block size, dim]`."""
        shape = -1, self.kv_heads, block_size, self.dim
        whole = self.tokens // block_size * block_size * self.kv_heads * self.dim
        return self.keys[:whole].view(shape), self.values[:whole].view(shape)

    def contiguous(self, batch: int, tokens: int, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """`[batch, kv heads, tokens, dim]`, another stretch for every index as far as there are."""
        size = batch * tokens * self.kv_heads * self.dim
        begin = index % (self.keys.numel() // size) * size
        shape = batch, self.kv_heads, tokens, self.dim
        return self.keys[begin : begin + size].view(shape), self.values[begin : begin + size].view(shape)


def run(session: Session) -> None:
    device = session.device
    peak = copy_bandwidth(device)
    if peak is not None:
        session.figures["copy_gb_per_s"] = peak / 1e9
        session.figures["l2_mib"] = l2_bytes(device) / 2**20
        say("copy within the device's memory, read + written", f"{peak / 1e9:.0f} GB/s")
    store = make_store(session)
    cases: list[dict[str, Any]] = []
    session.figures["cases"] = cases
    grid: Sequence[tuple[int, int]] = GRID if session.cuda else TINY
    if session.quick and session.cuda:
        grid = GRID[:6]
    for done, (batch, tokens) in enumerate(grid):
        if batch * tokens > store.tokens:
            size = batch * tokens * store.token_bytes / 2**30
            session.leave_out(f"decode {batch} x {tokens}: {size:.0f} GiB do not fit")
            continue
        if not session.clock.left:
            session.leave_out(f"decode: {len(grid) - done} of {len(grid)} shapes, {batch} x {tokens} first")
            break
        cases.append(_measure(session, store, batch, tokens, peak))
        if done == 0:  # the shape that the budget is about
            _beside(session, store, batch, tokens, peak)
    _conclude(session, cases)


def make_store(session: Session) -> Store:
    if not session.cuda:
        keys, values = (torch.randn(512 * 32) for _ in range(2))
        return Store(keys, values, 1, 2, 32)
    heads, dim = 8, 128
    free, _ = torch.cuda.mem_get_info(session.device)
    largest = max(batch * tokens for batch, tokens in (GRID[:6] if session.quick else GRID))
    # Twice the largest would read other memory at every call; a large one is cold after itself anyway.
    tokens = min(largest, int(free * 0.8) // (4 * heads * dim)) // 4096 * 4096
    keys, values = (
        torch.empty(tokens * heads * dim, dtype=torch.bfloat16, device=session.device).normal_()
        for _ in range(2)
    )
    return Store(keys, values, heads, 4, dim)


def paged_calls(
    session: Session,
    store: Store,
    query: torch.Tensor,
    tokens: int,
    block_size: int,
    scattered: bool = True,
    config: AttentionConfig | None = None,
    plan: DecodePlan | None = None,
) -> tuple[list[Call], list[torch.Tensor], DecodePlan]:
    """Calls that read different blocks, their tables, and the splits of each context: those of the shipped
    configuration, or of another `config` and `plan`."""
    batch, device = len(query), session.device
    caches = store.blocks(block_size)
    blocks, width = len(caches[0]), -(-tokens // block_size)
    config = config or decode_config(store.dim, store.group, store.keys.itemsize, BACKEND)
    processors = torch.cuda.get_device_properties(device).multi_processor_count if session.cuda else 132
    plan = plan or plan_decode(np.full(batch, tokens), store.kv_heads, processors, config.tile)
    lengths = torch.full((batch,), tokens, dtype=torch.int32, device=device)
    tables = []
    for index in range(_rounds(session, batch * tokens * store.token_bytes)):
        if scattered:
            ids = torch.randperm(blocks, device=device)[: batch * width]
        else:
            begin = index * batch * width % max(1, blocks - batch * width + 1)
            ids = torch.arange(begin, begin + batch * width, device=device)
        tables.append(ids.int().view(batch, width))
    scale = store.dim**-0.5

    def call(table: torch.Tensor) -> torch.Tensor:
        return paged_decode(query, *caches, table, lengths, scale, plan=plan, config=config)

    return [lambda table=table: call(table) for table in tables], tables, plan  # type: ignore[misc]


def _rounds(session: Session, size: int) -> int:
    return calls_for(size, session.device) if session.cuda else 2


def _measure(session: Session, store: Store, batch: int, tokens: int, peak: float | None) -> dict[str, Any]:
    """One shape: ours, scattered, and the fastest over contiguous K/V."""
    query = torch.randn(batch, store.kv_heads * store.group, store.dim, device=session.device)
    query = query.to(store.keys.dtype)
    calls, tables, plan = paged_calls(session, store, query, tokens, BLOCK_SIZE)
    _check(session, store, query, calls[0], tables[0], tokens)
    size = batch * tokens * store.token_bytes
    found: dict[str, Any] = {"batch": batch, "context_tokens": tokens, "read_mib": size / 2**20}
    found["splits"] = plan.splits
    seconds = seconds_per_call(calls, session.device)
    del calls
    data = [store.contiguous(batch, tokens, index) for index in range(_rounds(session, size))]
    rival = fastest_decode(query, data, session.device)
    if seconds is None or peak is None:
        return found
    share = size / seconds / peak
    found |= {"paged_us": seconds * 1e6, "paged_gb_per_s": size / seconds / 1e9, "share_of_copy": share}
    what = f"decode {batch} x {tokens} tokens, {size / 2**20:.1f} MiB"
    found |= _over(rival, seconds)
    beside = f"{found['paged_over_contiguous']:.2f} x contiguous ({found['contiguous']})" if rival else ""
    say(what, f"{seconds * 1e6:.1f} us, {share:.0%} of a copy", beside)
    return found


def _over(rival: Rival | None, seconds: float) -> dict[str, Any]:
    if rival is None:
        return {}
    figures = {"contiguous": rival.name, "contiguous_us": rival.seconds * 1e6}
    return figures | {"paged_over_contiguous": seconds / rival.seconds}


def _check(
    session: Session, store: Store, query: torch.Tensor, call: Call, table: torch.Tensor, tokens: int
) -> None:
    """The first and the last row at the size that is measured, against the definition."""
    got, caches = call(), store.blocks(BLOCK_SIZE)
    assert isinstance(got, torch.Tensor)
    kind = "bf16" if store.keys.dtype is torch.bfloat16 else "fp32"
    for row in {0, len(query) - 1}:
        error = row_error(query[row], got[row], *caches, table[row], tokens, store.dim**-0.5)
        name = f"{len(query)} x {tokens}, row {row}"
        session.findings.check("paged_decode, as measured", kind, error, TOLERANCE[kind], 1, name)


def _beside(session: Session, store: Store, batch: int, tokens: int, peak: float | None) -> None:
    """At one shape: blocks in order, blocks of other sizes, and the host's part."""
    query = torch.randn(batch, store.kv_heads * store.group, store.dim, device=session.device)
    query = query.to(store.keys.dtype)
    shape = batch, tokens, store
    calls = paged_calls(session, store, query, tokens, BLOCK_SIZE, scattered=False)[0]
    seconds = seconds_per_call(calls, session.device)
    note(session, "blocks_in_order", "... its blocks in order", seconds, shape, peak)
    for block_size in OTHER_BLOCK_SIZES:
        calls = paged_calls(session, store, query, tokens, block_size)[0]
        seconds = seconds_per_call(calls, session.device)
        note(session, f"block_size_{block_size}", f"... blocks of {block_size}", seconds, shape, peak)
    _host(session, calls)


def note(
    session: Session,
    name: str,
    what: str,
    seconds: float | None,
    shape: tuple[int, int, Store],
    peak: float | None,
) -> None:
    batch, tokens, store = shape
    if seconds is None or peak is None:
        return
    share = batch * tokens * store.token_bytes / seconds / peak
    session.figures[f"{name}_us"] = seconds * 1e6
    session.figures[f"{name}_share_of_copy"] = share
    say(what, f"{seconds * 1e6:.1f} us, {share:.0%} of a copy")


def _host(session: Session, calls: Sequence[Call]) -> None:
    """What launching a decode costs the host; the GPU is far behind meanwhile."""
    if not session.cuda:
        return
    torch.cuda.synchronize()
    began = time.perf_counter()
    for index in range(HOST_CALLS):
        calls[index % len(calls)]()
    passed = time.perf_counter() - began
    torch.cuda.synchronize()
    session.figures["host_us_per_decode_call"] = passed / HOST_CALLS * 1e6
    say("... the host's part of a call", f"{passed / HOST_CALLS * 1e6:.1f} us")


def _conclude(session: Session, cases: Sequence[dict[str, Any]]) -> None:
    """The cost of paging as one number, and the budget."""
    ratios = [case["paged_over_contiguous"] for case in cases if "paged_over_contiguous" in case]
    if ratios:
        cost = math.exp(sum(map(math.log, ratios)) / len(ratios))
        session.figures["paged_over_contiguous_geometric_mean"] = cost
        say(f"paged against contiguous, geometric mean of {len(ratios)} shapes", f"{cost:.2f} x")
    for case in cases:
        if (case["batch"], case["context_tokens"]) != BUDGET_SHAPE or "share_of_copy" not in case:
            continue
        share = case["share_of_copy"]
        session.figures["share_of_copy_at_64_x_4096"] = share
        if "paged_over_contiguous" in case:
            session.figures["paged_over_contiguous_at_64_x_4096"] = case["paged_over_contiguous"]
        held = share >= BUDGET_SHARE
        session.budget("decode_share_of_copy_at_64_x_4096", share, BUDGET_SHARE, held)
        say(
            "budget: decode at batch 64, context 4,096",
            f"{share:.0%} of a copy",
            f"at least {BUDGET_SHARE:.0%}  " + ("held" if held else "MISSED"),
        )
