"""Small pools and tables for the tests of the map."""

from __future__ import annotations

import numpy as np

from kvtop.timeline.snapshot import BlockColumns, BlockState, SequenceRow
from kvtop.ui.draw.palette import load_palette
from kvtop.ui.panels.map.looks import DIM, MapTables

TABLES = MapTables(load_palette())
LETTERS = MapTables(load_palette("mono"))
BLOCK_SIZE = 16
INKS = np.array([5, DIM], np.uint8)


def columns(state: list[int], ref: list[int] | None = None, fill: list[int] | None = None) -> BlockColumns:
    """Columns of a few blocks, all owned by row 0."""
    states = np.array(state, np.uint8)
    number = len(states)
    refs = np.array(ref if ref is not None else np.maximum(states.astype(int) - 1, 0), np.int32)
    fills = np.array(fill if fill is not None else [BLOCK_SIZE] * number, np.int32)
    owner = np.where(states >= BlockState.USED, 0, -1).astype(np.int32)
    return BlockColumns(states, refs, owner, fills, states == 1, np.zeros(number, np.int32))


def glyphs(found: np.ndarray, tables: MapTables = TABLES) -> str:
    return "".join(tables.tiles.glyphs[code] for code in found.tolist())


def row(request: int, table: list[int], *, branch: int = 0, on_host: bool = False) -> SequenceRow:
    name = f"{request}.{branch}" if branch else str(request)
    return SequenceRow(
        id=request << 16 | branch, name=name, request=request, branch=branch, label="", state="running",
        wait_reason="", prompt_tokens=1, generated_tokens=0, stored_tokens=0, max_new_tokens=1, n=1,
        beam_width=1, blocks=len(table), on_host=on_host, shared_blocks=0, waste_slots=0,
        prefix_hit_tokens=0, preemptions=0, table=np.array(table, np.int32), tail=(),
    )  # fmt: skip
