"""Paged attention in plain torch: copy what a row reads out of the blocks, then SDPA. CPU and CUDA.

The cache is head-major, `[block, kv head, offset, dim]`. Query heads that share a KV head are folded into
the query length: `enable_gqa` is several times slower with bfloat16 on a CPU. What a query must not see is
never given to SDPA, or zeroed first: memory that was never written may hold NaN, and 0 x NaN is NaN.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
import torch.nn.functional as F

from kvtop.kernels.packed import Array, PackedStep


class GatherAttention:
    """Rows with one token together, the others one by one. Keeps nothing beyond the current step."""

    name = "gather + sdpa"

    def metadata(self, step: PackedStep) -> dict[str, Array]:
        """Where K/V goes, and the tables. Changes nothing."""
        rows = np.flatnonzero(step.counts == 1)
        return {
            "gather.blocks": step.slots // step.block_size,
            "gather.offsets": step.slots % step.block_size,
            "gather.tables": step.tables.astype(np.int64),
            "gather.decoding": rows,
            "gather.decode_tokens": step.starts[rows],
            "gather.decode_lengths": step.lengths[rows].astype(np.int64),
        }

    def begin(self, step: PackedStep, uploaded: Mapping[str, torch.Tensor]) -> None:
        """Prepare for the layers of `step`; masks are made when first needed."""
        self._step = step
        self._masks: dict[tuple[int, int], torch.Tensor] = {}
        self._blocks, self._offsets = uploaded["gather.blocks"], uploaded["gather.offsets"]
        self._tables = uploaded["gather.tables"]
        self._device = self._tables.device
        counts = step.counts
        decoding = counts == 1
        self._chunks = [int(row) for row in np.flatnonzero(~decoding)]
        self._decode_tokens = uploaded["gather.decode_tokens"]
        if decoding.any():
            blocks = -(-int(step.lengths[decoding].max()) // step.block_size)
            self._decode_tables = self._tables[uploaded["gather.decoding"], :blocks]
            self._decode_lengths = uploaded["gather.decode_lengths"]

    def __call__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        scale: float,
        window: int,
    ) -> torch.Tensor:
        """Write this layer's K/V, then attend. Changes the caches.

        query: `[query heads, T, dim]`; key, value: `[kv heads, T, dim]`; caches: `[blocks, kv heads,
        block size, dim]`. window: a query sees its last `window` tokens only; 0 means all. Returns
        `[T, query heads, dim]`.
        """
        key_cache[self._blocks, :, self._offsets] = key.transpose(0, 1).to(key_cache.dtype)
        value_cache[self._blocks, :, self._offsets] = value.transpose(0, 1).to(value_cache.dtype)
        heads, tokens, dim = query.shape
        out = query.new_empty(tokens, heads, dim)
        if len(self._decode_tokens):
            self._decode(out, query, key_cache, value_cache, scale, window)
        for row in self._chunks:
            self.attend_chunk(row, out, query, key_cache, value_cache, scale, window)
        return out

    def _decode(
        self,
        out: torch.Tensor,
        query: torch.Tensor,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        scale: float,
        window: int,
    ) -> None:
        rows, blocks = self._decode_tables.shape
        _, kv_heads, block_size, dim = key_cache.shape
        # [rows, blocks, kv heads, block size, dim] -> [rows, kv heads, tokens, dim]
        keys = key_cache[self._decode_tables].transpose(1, 2).reshape(rows, kv_heads, -1, dim)
        values = value_cache[self._decode_tables].transpose(1, 2).reshape(rows, kv_heads, -1, dim)
        seen = self._decode_mask(window, blocks * block_size)
        hidden = ~seen[:, None, :, None]
        keys, values = keys.masked_fill(hidden, 0.0), values.masked_fill(hidden, 0.0)
        folded = query[:, self._decode_tokens].transpose(0, 1).reshape(rows, kv_heads, -1, dim)
        result = F.scaled_dot_product_attention(
            folded.to(keys.dtype), keys, values, attn_mask=seen[:, None, None], scale=scale
        )
        out[self._decode_tokens] = result.reshape(rows, -1, dim).to(out.dtype)

    def _decode_mask(self, window: int, width: int) -> torch.Tensor:
        """`[rows, width]`: which tokens each one-token row attends to."""
        mask = self._masks.get((-1, window))
        if mask is None:
            position = torch.arange(width, device=self._device)
            mask = position < self._decode_lengths[:, None]
            if window:
                mask &= position >= self._decode_lengths[:, None] - window
            self._masks[-1, window] = mask
        return mask

    def attend_chunk(
        self,
        row: int,
        out: torch.Tensor,
        query: torch.Tensor,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        scale: float,
        window: int,
    ) -> None:
        """Attend for all queries of one row, whose K/V is written. Changes `out` at the row's tokens."""
        step = self._step
        begin, end = int(step.starts[row]), int(step.starts[row + 1])
        length, count = int(step.lengths[row]), end - begin
        _, kv_heads, block_size, dim = key_cache.shape
        # The first query sees the furthest back; blocks before its window are not read at all.
        first = max(0, length - count - window + 1) // block_size if window else 0
        last = -(-length // block_size)
        ids = self._tables[row, first:last]
        span = slice(0, length - first * block_size)
        keys = key_cache[ids].transpose(0, 1).reshape(kv_heads, -1, dim)[None, :, span]
        values = value_cache[ids].transpose(0, 1).reshape(kv_heads, -1, dim)[None, :, span]
        group = query.shape[0] // kv_heads
        folded = query[:, begin:end].reshape(1, kv_heads, group * count, dim)
        mask = self._chunk_mask(row, window, length, count, first * block_size, group, keys.dtype)
        result = F.scaled_dot_product_attention(
            folded.to(keys.dtype), keys, values, attn_mask=mask, scale=scale
        )
        out[begin:end] = result.view(kv_heads * group, count, dim).transpose(0, 1)

    def _chunk_mask(
        self, row: int, window: int, length: int, count: int, first: int, group: int, dtype: torch.dtype
    ) -> torch.Tensor:
        """`[group * count, length - first]`, added to the scores: 0 where a query sees a token, else -inf."""
        mask = self._masks.get((row, window))
        if mask is None:
            asking = torch.arange(length - count, length, device=self._device)[:, None]
            position = torch.arange(first, length, device=self._device)
            seen = position <= asking
            if window:
                seen &= position > asking - window
            mask = torch.zeros(seen.shape, dtype=dtype, device=self._device)
            mask = mask.masked_fill_(~seen, float("-inf")).repeat(group, 1)
            self._masks[row, window] = mask
        return mask
