"""Every kernel against the definition in float64, over a grid of types, heads, blocks, windows, lengths."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from gpu import moves, storing
from gpu.cases import DTYPES, TOLERANCE, Case, attend, difference, make_case
from gpu.session import Session, say
from kvtop.kernels import reference
from kvtop.kernels.gather_sdpa import GatherAttention
from kvtop.kernels.gpu import paged_decode as decoding
from kvtop.kernels.gpu import paged_prefill as prefilling
from kvtop.kernels.gpu.attention import TritonAttention
from kvtop.kernels.gpu.configs import decode_config
from kvtop.kernels.gpu.decode_plan import DecodePlan, plan_decode
from kvtop.kernels.protocol import Attention, HeadShape
from kvtop.kernels.upload import upload

KV_HEADS = 2
Numbers = tuple[int, ...]
QUICK: tuple[Numbers, Numbers, Numbers] = (64, 128), (1, 16, 256), (1, 8)
GRID: tuple[Numbers, Numbers, Numbers] = (
    (128, 64, 32, 256, 96, 80, 192, 160),
    (16, 1, 128, 7, 256, 64, 24),
    (1, 8, 3, 7, 16, 20, 71),
)
"""Head dims, block sizes, query heads of a KV head."""
FAR_BLOCKS = 140_000
"""Of 16 slots x 8 heads x 128: more than 2^31 elements in each cache."""


@dataclass(frozen=True)
class Trial:
    """One compiled variant of a kernel."""

    kernel: str
    dtype: str
    dim: int = 64
    group: int = 4
    block_size: int = 16

    @property
    def name(self) -> str:
        return f"{self.kernel} {self.dtype} dim {self.dim} group {self.group} block size {self.block_size}"


Errors = Iterator[tuple[str, float]]
"""What was computed, and its error in parts of a token's largest output."""


def trials(session: Session) -> list[Trial]:
    """The most telling first: when time runs out, the rest is left out."""
    attention = ("paged_decode", "paged_prefill", "attention")
    if not session.cuda:
        few = [Trial(kernel, "fp32", 32, 2, 4) for kernel in ("paged_decode", "reference", *attention[1:])]
        return [*few, Trial("paged_decode", "bf16", 32, 2, 4), Trial("store", "fp32"), Trial("moves", "bf16")]
    dims, blocks, groups = QUICK if session.quick else GRID
    types = ("bf16", "fp32", "fp16")
    chosen = [Trial("reference", "fp32", 64, 3, 5)]
    chosen += [Trial(kernel, dtype) for kernel in ("store", "moves") for dtype in types]
    chosen += [Trial("attention", dtype, 128) for dtype in types]
    chosen += [Trial(kernel, dtype, dim) for dim in dims for dtype in types for kernel in attention[:2]]
    chosen += [Trial("attention", dtype, dim, 3, 8) for dim in (64, 80) for dtype in types]
    chosen += [Trial("far blocks", "bf16", 128)]
    for kernel in attention[:2]:
        chosen += [Trial(kernel, dtype, 128, 4, size) for size in blocks for dtype in ("bf16", "fp32")]
        chosen += [Trial(kernel, dtype, 64, group) for group in groups for dtype in ("bf16", "fp32")]
    return list(dict.fromkeys(chosen))


def run(session: Session) -> None:
    index, of = session.share
    mine = trials(session)[index::of]
    for done, trial in enumerate(mine):
        if not session.clock.left:
            session.leave_out(f"correctness: {len(mine) - done} of {len(mine)} variants, {trial.name} first")
            return
        try:
            check(trial, session)
        except Exception:
            session.leave_out(f"correctness: {len(mine) - done - 1} of {len(mine)} variants, after an error")
            raise


def check(trial: Trial, session: Session) -> None:
    """Run all cases of a variant and note the errors. A kernel that raises fails the check."""
    exact = trial.kernel in ("store", "moves")
    tolerance = 0.0 if exact else 1e-12 if trial.kernel == "reference" else TOLERANCE[trial.dtype]
    try:
        for what, error in CHECKS[trial.kernel](trial, session):
            session.findings.check(trial.kernel, trial.dtype, error, tolerance, 1, f"{trial.name}: {what}")
            if not error <= tolerance:
                say(f"wrong: {trial.name}: {what}", f"error {error:.2e}", f"tolerance {tolerance:.0e}")
    except Exception as error:
        session.fail(f"{trial.name}: {type(error).__name__}: {_first_line(error)}")
        if broken(error):
            raise


def broken(error: BaseException) -> bool:
    """Whether this process can use the GPU no more."""
    kind = getattr(torch, "AcceleratorError", ())
    text = str(error)
    return isinstance(error, kind) or any(
        word in text for word in ("CUDA error", "illegal memory", "[CUDA]:")
    )


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")[:300]


def edges(session: Session, block_size: int, tile: int) -> list[int]:
    """Lengths around the edges of blocks and tiles, and some long ones on a GPU."""
    near = {1, block_size - 1, block_size, block_size + 1, 2 * block_size + 1}
    if session.cuda:
        near |= {tile - 1, tile, tile + 1, 3 * tile, 127, 128, 129, 1000, 3333}
    return sorted(near - {0})


# -- each kernel ------------------------------------------------------------------------------------------


def check_reference(trial: Trial, session: Session) -> Errors:
    """The definition that the others are compared with, against the one that reads as it is defined."""
    for window in (0, 6):
        case = _case(trial, session, [(21, 1), (17, 6), (40, 11)], window)
        keys, values = (cache.double().cpu().numpy() for cache in (case.key_cache, case.value_cache))
        query, step = case.query.double().cpu().numpy(), case.step
        pairs = zip(step.token_rows(), step.token_positions(), strict=True)
        slow = np.stack(
            [
                reference.attend(query[t], keys, values, step.tables[row], int(position), case.scale, window)
                for t, (row, position) in enumerate(pairs)
            ]
        )
        yield f"window {window}", difference(case.expected().cpu(), torch.from_numpy(slow))


def check_decode(trial: Trial, session: Session) -> Errors:
    size = DTYPES[trial.dtype].itemsize
    tile = decode_config(trial.dim, trial.group, size, decoding.BACKEND).tile
    lengths = edges(session, trial.block_size, tile)[::-1]  # the others share the first one's blocks
    whole = -(-max(lengths) // tile) * tile
    step = tile if session.cuda else 1
    for window in (0, 5, 300) if session.cuda else (0, 5):
        case = _case(trial, session, [(length, 1) for length in lengths], window)
        expected = case.expected()
        plans = {"one split": DecodePlan(1, whole), "planned": _planned(case, tile)}
        # Without a GPU contexts are short: cut within a tile, once into more than one load reduces.
        for splits in (3, 64) if session.cuda else (2, 9):
            plans[f"{splits} splits"] = _cut(whole if session.cuda else max(lengths), splits, step)
        for name, plan in plans.items():
            yield f"{name}, window {window}", difference(_decode(case, plan), expected)


def _decode(case: Case, plan: DecodePlan) -> torch.Tensor:
    caches = case.key_cache, case.value_cache, case.tables, case.lengths
    return decoding.paged_decode(case.query, *caches, case.scale, window=case.window, plan=plan)


def _planned(case: Case, tile: int) -> DecodePlan:
    return plan_decode(case.step.lengths, case.key_cache.shape[1], 132, tile, case.window)


def _cut(tokens: int, splits: int, step: int) -> DecodePlan:
    """At most so many spans of whole steps, none behind the longest row's end."""
    span = math.ceil(math.ceil(tokens / splits) / step) * step
    return DecodePlan(math.ceil(tokens / span), span)


def check_prefill(trial: Trial, session: Session) -> Errors:
    size = DTYPES[trial.dtype].itemsize
    queries = prefilling.queries_per_tile(trial.dim, trial.group, size)
    rows = [(7, 7), (9, 2), (2 * trial.block_size, trial.block_size)]
    if session.cuda:
        rows += [(1, 1), (queries, queries), (queries + 1, queries + 1), (777, 130), (700, 64), (1025, 1025)]
    rows.sort(key=lambda row: row[1] - row[0])  # the longest prefix first: others share its blocks
    for window in (0, 4, 200) if session.cuda else (0, 4):
        case = _case(trial, session, rows, window)
        tiles = prefilling.prefill_tiles(case.step.counts, queries)
        got = prefilling.paged_prefill(
            case.query,
            case.key_cache,
            case.value_cache,
            case.tables,
            case.lengths,
            case.starts,
            torch.from_numpy(tiles).to(session.device),
            case.scale,
            window=window,
        )
        yield f"window {window}", difference(got, case.expected())


def check_attention(trial: Trial, session: Session) -> Errors:
    """What the engine calls: store, decode and prefill of one step, and against plain torch."""
    rows = [(19, 1), (5, 5), (24, 7)]
    if session.cuda:
        rows += [(1, 1), (33, 1), (2048, 1), (1500, 400), (900, 900), (3000, 1)]
    heads = HeadShape(KV_HEADS, trial.group, trial.dim)
    triton = TritonAttention(session.device, heads, DTYPES[trial.dtype])
    for window in (0, 6):
        case = _case(trial, session, rows, window)
        expected = case.expected()
        stored = case.key_cache.clone(), case.value_cache.clone()
        outs = []
        both: tuple[Attention, Attention] = triton, GatherAttention()
        for attention in both:
            _forget(case)
            attention.begin(case.step, upload(attention.metadata(case.step), session.device))
            query, key, value = (tensor.transpose(0, 1) for tensor in (case.query, case.key, case.value))
            caches = case.key_cache, case.value_cache
            outs.append(attention(query, key, value, *caches, case.scale, window))
            pairs = zip((case.key_cache, case.value_cache), stored, strict=True)
            if not all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs):
                yield f"what {attention.name} stored, window {window}", float("inf")
        yield f"window {window}", difference(outs[0], expected)
        # Both are rounded.
        yield f"against gather + SDPA, window {window}", difference(outs[0], outs[1].double()) / 2


def _forget(case: Case) -> None:
    slots = torch.from_numpy(case.step.slots).to(case.key_cache.device)
    for cache in (case.key_cache, case.value_cache):
        cache[slots // case.step.block_size, :, slots % case.step.block_size] = float("nan")


def check_far_blocks(trial: Trial, session: Session) -> Errors:
    """Offsets beyond 2^31 elements."""
    free = torch.cuda.mem_get_info(session.device)[0] if session.cuda else 0
    if free < 24 << 30:
        session.leave_out("correctness: offsets beyond 2^31 elements need 24 GiB of free memory")
        return
    case = make_case(
        [(100, 1), (37, 1), (64, 1)],
        session.device,
        DTYPES[trial.dtype],
        group=trial.group,
        kv_heads=8,
        dim=trial.dim,
        pool=FAR_BLOCKS,
    )
    yield "decode", difference(_decode(case, DecodePlan(1, 1 << 20)), case.expected())
    tiles = prefilling.prefill_tiles(case.step.counts, 1)
    read = case.key_cache, case.value_cache, case.tables, case.lengths, case.starts
    on_device = torch.from_numpy(tiles).to(session.device)
    got = prefilling.paged_prefill(case.query, *read, on_device, case.scale)
    yield "prefill", difference(got, case.expected())


def _case(trial: Trial, session: Session, rows: list[tuple[int, int]], window: int) -> Case:
    return make_case(
        rows,
        session.device,
        DTYPES[trial.dtype],
        block_size=trial.block_size,
        group=trial.group,
        kv_heads=KV_HEADS,
        dim=trial.dim,
        window=window,
        seed=window,
    )


def row_error(
    query: torch.Tensor,
    got: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    table: torch.Tensor,
    length: int,
    scale: float,
) -> float:
    """The error of one decoding row. query, got: `[query heads, dim]`."""
    return difference(got[None], attend(query[None], key_cache, value_cache, table, length, scale))


CHECKS: dict[str, Callable[[Trial, Session], Errors]] = {
    "reference": check_reference,
    "paged_decode": check_decode,
    "paged_prefill": check_prefill,
    "attention": check_attention,
    "far blocks": check_far_blocks,
    "store": lambda trial, session: storing.check_store(DTYPES[trial.dtype], session),
    "moves": lambda trial, session: moves.check_moves(DTYPES[trial.dtype], session),
}
