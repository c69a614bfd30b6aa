"""Other libraries' decode over paged K/V, where they are installed. Only timed: what they read is noise.

They may compile for minutes, or break the process, so this part comes last.

Each maker takes the query `[B, query heads, dim]`, flat keys and values, block tables `[B, blocks]` int32,
the tokens of every sequence, KV heads and block size, and returns one call for each table. It raises
ImportError where the library is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from gpu.decode import BLOCK_SIZE, BUDGET_SHAPE, TINY, make_store, note, paged_calls
from gpu.session import Session, say
from gpu.timing import Call, copy_bandwidth, seconds_per_call

Maker = Callable[
    [torch.Tensor, torch.Tensor, torch.Tensor, Sequence[torch.Tensor], int, int, int], list[Call]
]

WORKSPACE_BYTES = 256 << 20


def flashinfer(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    tables: Sequence[torch.Tensor],
    tokens: int,
    kv_heads: int,
    block_size: int,
) -> list[Call]:
    """Planned ahead, one wrapper a table; blocks as ours: head before offset."""
    from flashinfer import BatchDecodeWithPagedKVCacheWrapper

    batch, heads, dim = query.shape
    caches = tuple(flat.view(-1, kv_heads, block_size, dim) for flat in (keys, values))
    width = tables[0].shape[1]
    starts = torch.arange(batch + 1, dtype=torch.int32, device=query.device) * width
    last = torch.full((batch,), (tokens - 1) % block_size + 1, dtype=torch.int32, device=query.device)
    calls: list[Call] = []
    for table in tables[:3]:
        workspace = torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=query.device)
        wrapper = BatchDecodeWithPagedKVCacheWrapper(workspace, "HND", use_tensor_cores=True)
        wrapper.plan(
            starts,
            table.flatten(),
            last,
            heads,
            kv_heads,
            dim,
            block_size,
            q_data_type=query.dtype,
            kv_data_type=query.dtype,
        )
        calls.append(lambda wrapper=wrapper: wrapper.run(query, caches))  # type: ignore[misc]
    return calls


def vllm(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    tables: Sequence[torch.Tensor],
    tokens: int,
    kv_heads: int,
    block_size: int,
) -> list[Call]:
    """The FlashAttention that vLLM brings; offset before head."""
    from vllm.vllm_flash_attn import flash_attn_varlen_func

    batch, _, dim = query.shape
    caches = [flat.view(-1, block_size, kv_heads, dim) for flat in (keys, values)]
    starts = torch.arange(batch + 1, dtype=torch.int32, device=query.device)
    lengths = torch.full((batch,), tokens, dtype=torch.int32, device=query.device)

    def call(table: torch.Tensor) -> object:
        return flash_attn_varlen_func(
            query,
            caches[0],
            caches[1],
            max_seqlen_q=1,
            cu_seqlens_q=starts,
            max_seqlen_k=tokens,
            seqused_k=lengths,
            block_table=table,
            softmax_scale=dim**-0.5,
            causal=True,
        )

    return [lambda table=table: call(table) for table in tables]  # type: ignore[misc]


OTHERS: dict[str, Maker] = {"FlashInfer": flashinfer, "vLLM": vllm}


def run(session: Session) -> None:
    device, (batch, tokens) = session.device, BUDGET_SHAPE if session.cuda else TINY[0]
    peak = copy_bandwidth(device)
    store = make_store(session)
    query = torch.randn(batch, store.kv_heads * store.group, store.dim, device=device).to(store.keys.dtype)
    tables, shape = paged_calls(session, store, query, tokens, BLOCK_SIZE)[1], (batch, tokens, store)
    for name, make in OTHERS.items():
        if not session.clock.left:
            session.leave_out(f"{name}: no time is left")
            continue
        try:
            calls = make(query, store.keys, store.values, tables, tokens, store.kv_heads, BLOCK_SIZE)
            seconds = seconds_per_call(calls, device, graph=False)
        except ModuleNotFoundError as error:
            say(f"{name}: not installed ({error.name} is missing)")
        except Exception as error:
            session.leave_out(f"{name}: {type(error).__name__}: {str(error)[:200]}")
        else:
            note(session, name.lower(), f"{name}, {batch} x {tokens} tokens", seconds, shape, peak)
