"""What the map says in words: its mapping, what is under the mouse, and its legend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len
from rich.style import Style

from kvtop.timeline.snapshot import BlockState, Snapshot
from kvtop.ui.draw.palette import FLASHES
from kvtop.ui.draw.text import count
from kvtop.ui.panels.map.geometry import Geometry, Scale
from kvtop.ui.panels.map.looks import (
    CACHED,
    CACHED_COLOUR,
    DIM,
    FREE,
    FREE_COLOUR,
    FULL,
    LEVEL,
    PART,
    SHARED,
    STRONG,
    USED,
    MapTables,
    code_of,
    colour_of,
)

EXAMPLE = 1
"""The ink of the legend's swatches."""

Swatch = tuple[str, Style]


# -- the heading ------------------------------------------------------------------------------------------


def scale_words(scale: Scale, *, short: bool = False) -> str:
    """How much a cell stands for: `1 half cell = 64 blocks`, or in `short` `½ cell = 64 blocks`."""
    half = "½ cell" if short else "1 half cell"
    unit = {0: half, 1: "1 cell"}.get(scale.tile, f"{scale.tile} cells")
    return f"{unit} = {count(scale.each)} block{'s' if scale.each > 1 else ''}"


def heading(geometry: Geometry, room: int) -> tuple[str, str]:
    """Title and mapping, as long as `room` cells for both allow. The title is shortened first."""
    total, scale = count(geometry.blocks), geometry.scale
    long, short = scale_words(scale), scale_words(scale, short=True)
    if geometry.whole:
        titles = [f"Blocks ({total})", "Blocks"]
    else:
        shown = f"{count(geometry.first)}-{count(geometry.last - 1)}"
        titles = [f"Blocks {shown} of {total}", f"{shown} of {total}", shown, count(geometry.first)]
    choices = [*((title, long) for title in titles), *((title, short) for title in titles)]
    return next((pair for pair in choices if len(pair[0]) + len(pair[1]) <= room), choices[-1])


# -- under the mouse --------------------------------------------------------------------------------------


def describe(snapshot: Snapshot, geometry: Geometry, items: Sequence[int], room: int) -> str:
    """The items at a cell in one line of at most `room` cells; of two half cells both, where they fit."""
    parts = [_item(snapshot, geometry, item) for item in items]
    if len(parts) == 1:
        return parts[0][:room]
    both = f"▀ {parts[0]}   ▄ {parts[1]}"
    return both if len(both) <= room else parts[0][:room]


def _item(snapshot: Snapshot, geometry: Geometry, item: int) -> str:
    """One item: a block with state, owner and fill, or what many blocks are."""
    blocks = geometry.blocks_of(item)
    return _many(snapshot, blocks) if geometry.each > 1 else _block(snapshot, blocks.start)


def _block(snapshot: Snapshot, block: int) -> str:
    """`block 131 · shared 3 · 41[2] · full`."""
    columns, size = snapshot.blocks, snapshot.source.block_size
    state, name = BlockState(int(columns.state[block])), f"block {count(block)}"
    if state is BlockState.FREE:
        return f"{name} · free"
    if state is BlockState.CACHED:
        return f"{name} · cached, idle since step {count(int(columns.touched[block]))}"
    parts = [name, f"shared {columns.ref_count[block]}" if state is BlockState.SHARED else "used"]
    owner = int(columns.owner[block])
    if 0 <= owner < len(snapshot.sequences):
        row = snapshot.sequences[owner]
        place = np.flatnonzero(row.table == block)
        parts.append(f"{row.name}[{place[0]}]" if len(place) else row.name)
    fill = int(columns.fill[block])
    return " · ".join([*parts, "full" if fill >= size else f"{fill} of {size} slots"])


def _many(snapshot: Snapshot, blocks: range) -> str:
    """`blocks 4,096-4,159: 51 used (12 shared), 9 cached · most by 41`."""
    part = slice(blocks.start, blocks.stop)
    state = snapshot.blocks.state[part]
    number = np.bincount(state, minlength=4).tolist()
    used, shared = number[BlockState.USED] + number[BlockState.SHARED], number[BlockState.SHARED]
    words = [
        f"{count(used)} used" + (f" ({count(shared)} shared)" if shared else "") if used else "",
        f"{count(number[BlockState.CACHED])} cached" if number[BlockState.CACHED] else "",
        f"{count(number[BlockState.FREE])} free" if number[BlockState.FREE] else "",
    ]
    text = f"blocks {count(blocks.start)}-{count(blocks.stop - 1)}: {', '.join(filter(None, words))}"
    owner = snapshot.blocks.owner[part]
    owner = owner[owner >= 0]
    if len(owner) and used:
        most = int(np.bincount(owner).argmax())
        if most < len(snapshot.sequences):
            text += f" · most by {snapshot.sequences[most].name}"
    return text


# -- the legend -------------------------------------------------------------------------------------------


def legend(
    tables: MapTables,
    geometry: Geometry,
    muted: Style,
    room: int,
    *,
    flashing: bool = True,
    lit: bool = False,
) -> tuple[Swatch, ...]:
    """Swatches from the tables that the map is drawn from, with as many words as fit in `room` cells.

    What flashes is named before anything that explains itself: a hint, what is free, what is in use. With
    `lit` the blocks of some sequences stand out, and the legend says how the others look.
    """
    if geometry.each > 1:
        choices = _letter_choices(tables) if tables.letters else _aggregate_choices(tables, geometry)
    elif geometry.half:
        choices = _half_choices(tables)
    else:
        choices = _tile_choices(tables)
    if lit:
        others: Choice = [(_others(tables, geometry), "others")]
        choices = [
            *([*choice[:1], *others, *choice[1:]] for choice in choices),
            [*others, *choices[-1][-1:]],
        ]
    hint = "Enter zooms in" if geometry.each > 1 else "" if geometry.whole else "Esc zooms out"
    hints: Choice = [(("", muted), hint)] if hint else []
    found = [[*choices[0], *hints], *choices]
    if flashing:
        swatches = _flash_swatches(tables, geometry)
        long: Choice = list(zip(swatches, FLASHES, strict=True))
        short: Choice = list(zip(swatches, ("copy", "evict", "preempt"), strict=True))
        found = [[*choice, *flashes] for choice in choices for flashes in (long, short)] + found
        found.insert(0, [*choices[0], *long, *hints])
    for choice in found:
        for gap in ("  ", " "):
            parts = _spaced(choice, muted, gap)
            if sum(cell_len(text) for text, _ in parts) <= room:
                return parts
    return ()


Choice = list[tuple[Swatch, str]]


def _spaced(choice: Choice, muted: Style, between: str) -> tuple[Swatch, ...]:
    """Swatches and words with a gap after each."""
    parts: list[Swatch] = []
    for place, (swatch, words) in enumerate(choice):
        gap = between if place < len(choice) - 1 else ""
        parts += [swatch, (f" {words}{gap}", muted)] if swatch[0] else [(f"{words}{gap}", muted)]
    return tuple(parts)


def _tile(tables: MapTables, shape: int, ink: int = EXAMPLE) -> Swatch:
    code = code_of(ink, shape)
    return tables.tiles.glyphs[code], tables.tiles.style(code)


def _half(tables: MapTables, colour: int) -> Swatch:
    code = colour * tables.colours + colour
    return tables.pairs.glyphs[code], tables.pairs.style(code)


def _others(tables: MapTables, geometry: Geometry) -> Swatch:
    """A block in use that is not lit."""
    if geometry.half:
        return _half(tables, colour_of(DIM, USED))
    many = geometry.each > 1 and not tables.letters
    return _tile(tables, LEVEL + 7 if many else FULL, DIM)


def _tile_choices(tables: MapTables) -> list[Choice]:
    used, shared = _tile(tables, FULL), _tile(tables, SHARED + 1)
    part, cached, free = _tile(tables, 2), _tile(tables, CACHED), _tile(tables, FREE)
    brief: Choice = [(used, "used"), (shared, "shared"), (part, "part"), (cached, "cached"), (free, "free")]
    choices = [brief, brief[:-1], [brief[1], brief[3]]]
    if not tables.letters:
        return choices
    words: Choice = [
        (used, "used"), (shared, "capital: shared"), (part, "digit: partly filled"), *brief[3:],
    ]  # fmt: skip
    return [words, words[:-1], *choices]


def _letter_choices(tables: MapTables) -> list[Choice]:
    """Letters for many blocks each."""
    owner, shared, half = _tile(tables, FULL), _tile(tables, SHARED), _tile(tables, 0)
    cached, free = _tile(tables, CACHED), _tile(tables, FREE)
    few: Choice = [(cached, "only cached"), (free, "free")]
    words: Choice = [(owner, "main owner"), (shared, "capital: most shared")]
    brief: Choice = [(owner, "main owner"), (shared, "shared"), (half, "half used"), (cached, "cached")]
    return [
        [*words, (half, "digit: up to half used"), *few],
        [*words, (half, "digit: half used"), (cached, "cached")],
        brief,
        brief[1:],
        [brief[1], brief[3]],
    ]


def _half_choices(tables: MapTables) -> list[Choice]:
    used, shared = (_half(tables, colour_of(EXAMPLE, level)) for level in (USED, STRONG))
    part = _half(tables, colour_of(EXAMPLE, PART))
    cached, free = _half(tables, CACHED_COLOUR), _half(tables, FREE_COLOUR)
    strong, weak = ("bright", "dark") if tables.palette.dark else ("deep", "pale")
    states: Choice = [(cached, "grey: cached"), (free, "free")]
    brief: Choice = [(used, "used"), (shared, "shared"), (part, "part"), (cached, "cached")]
    return [
        [(used, "used"), (shared, f"{strong}: shared"), (part, f"{weak}: partly filled"), *states],
        [(used, "used"), (shared, f"{strong}: shared"), (part, f"{weak}: part"), (cached, "grey: cached")],
        brief,
        [brief[1], brief[3]],
    ]


def _aggregate_choices(tables: MapTables, geometry: Geometry) -> list[Choice]:
    if geometry.half:
        full, some, few, shared = (_half(tables, colour_of(EXAMPLE, level)) for level in (4, 2, 0, STRONG))
        cached, free = _half(tables, CACHED_COLOUR), _half(tables, FREE_COLOUR)
    else:
        full, some, few = (_tile(tables, LEVEL + eighths) for eighths in (7, 3, 0))
        cached, free = _tile(tables, CACHED), _tile(tables, FREE)
        shared = ("", Style())
    use: Choice = [(full, "all in use"), (some, "half"), (few, "few")]
    brief: Choice = [(full, "all used"), (some, "half"), (few, "few"), (cached, "cached")]
    most: Choice = [(shared, "most shared")] if shared[0] else []
    rest: Choice = [(cached, "only cached"), (free, "free")]
    return [[*use, *most, *rest], [*use, *rest], brief, [brief[0], *brief[2:]], brief[2:]]


def _flash_swatches(tables: MapTables, geometry: Geometry) -> list[Swatch]:
    """What flashes, by kind, as it looks at first."""
    found = []
    for kind in range(len(FLASHES)):
        if geometry.half:
            found.append(_half(tables, int(tables.flash_colours[kind, 0])))
        else:
            code = int(tables.flashes[kind, 0, code_of(EXAMPLE, FULL)])
            found.append((tables.tiles.glyphs[code], tables.tiles.style(code)))
    return found
