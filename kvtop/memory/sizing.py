"""How large a block is, and how many fit."""

from __future__ import annotations


def bytes_per_token(layers: int, kv_heads: int, head_dim: int, dtype_bytes: int) -> int:
    """K and V of one token over all layers, in bytes (SOSP'23, section 3: 2 x hidden x layers x width)."""
    return 2 * layers * kv_heads * head_dim * dtype_bytes


def blocks_for_budget(budget_bytes: int, bytes_per_block: int) -> int:
    """How many whole blocks fit into a budget. Raises ValueError when not a single one does."""
    blocks = budget_bytes // bytes_per_block
    if blocks < 1:
        raise ValueError(f"{budget_bytes} bytes do not hold one block of {bytes_per_block} bytes")
    return blocks


def blocks_for_tokens(tokens: int, block_size: int) -> int:
    """How many blocks `tokens` fill: the last one perhaps in part."""
    return -(-tokens // block_size)
