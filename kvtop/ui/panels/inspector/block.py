"""The page of a block: who holds it, what is in it, how it is found, and what happened to it."""

from __future__ import annotations

from rich.cells import cell_len

from kvtop.memory.events import branch_of, request_of
from kvtop.timeline.snapshot import BlockDetail, BlockState, Owner
from kvtop.ui.draw.lines import Line
from kvtop.ui.draw.palette import ink_index
from kvtop.ui.draw.text import count, first_fit, fit, head, visible
from kvtop.ui.frame.view import View
from kvtop.ui.panels.inspector.sections import (
    LABEL,
    Section,
    Words,
    figures,
    items,
    newest,
    page,
    text_lines,
    wrapped,
)

NAMES = {
    BlockState.FREE: "free",
    BlockState.CACHED: "cached",
    BlockState.USED: "used",
    BlockState.SHARED: "shared",
}
INKS = {
    BlockState.FREE: "faint",
    BlockState.CACHED: "cached",
    BlockState.USED: "used",
    BlockState.SHARED: "primary",
}
SHORT = 8
"""Digits of a hash where there is little room."""


def block_page(view: View, detail: BlockDetail, step: int, width: int, height: int | None) -> list[Line]:
    """A block in full, in at most `height` lines of `width` cells; None leaves nothing out. `step` is that
    of the snapshot."""
    room = max(1, width - LABEL - 1)
    sections = [
        _state(view, detail, step, room),
        _owners(view, detail, room),
        *_tokens(view, detail, room),
        *_hashes(view, detail, room),
        _life(view, detail, room),
        *_slots(view, detail, room),
    ]
    return page(sections, height, view.palette)


def _state(view: View, detail: BlockDetail, step: int, room: int) -> Section:
    """What it is, how often it is referenced, how full it is, and how long a cached one has been idle."""
    style = view.palette.style
    name = ((NAMES[detail.state], style(INKS[detail.state], bold=True)), (" · ", style("faint")))
    idle = count(max(0, step - detail.touched))
    filled = f"{detail.fill} of {detail.block_size}"
    full = detail.fill == detail.block_size
    match detail.state:
        case BlockState.CACHED:
            words = [
                f"idle {idle} steps · ref count 0 · may be evicted",
                f"idle {idle} steps · ref count 0",
                f"idle {idle} steps",
            ]
        case BlockState.FREE:
            since = f" · idle {idle} steps" if detail.touched else " · never used"
            words = [f"ref count 0 · holds nothing{since}", "ref count 0 · holds nothing"]
        case _:
            ref = f"ref count {detail.ref_count}"
            words = (
                [f"{ref} · full, {filled} slots", f"{ref} · full"]
                if full
                else [f"{ref} · {filled} slots filled", f"{ref} · {filled}"]
            )
    left = room - sum(len(text) for text, _ in name)
    words.append(words[-1].replace("ref count", "ref"))
    return Section("state", 1, lambda _: [name + figures(view, first_fit(words, left))], 0)


def _owners(view: View, detail: BlockDetail, room: int) -> Section:
    """Every table entry that points at it."""
    if not detail.owners:
        return text_lines("owners", "none", view.palette.style("faint"), room, 1)
    return items("owners", [_owner(view, owner) for owner in detail.owners], room, 1, view)


def _owner(view: View, owner: Owner) -> Words:
    """A sequence in the colour of its blocks, and which of its blocks this is."""
    request, branch = request_of(owner.sequence), branch_of(owner.sequence)
    return (
        (visible(owner.name), view.palette.chip(ink_index(request, branch))),
        (f"[{owner.logical}]", view.palette.style("muted")),
    )


def _tokens(view: View, detail: BlockDetail, room: int) -> list[Section]:
    """The positions whose K/V it holds, and their text."""
    style = view.palette.style
    if detail.token_ids is None and detail.fill:
        return [text_lines("tokens", "not published", style("faint"), room, 2)]
    if not detail.token_ids:
        return []
    text = f"“{view.decode(detail.token_ids)}”"
    if detail.first_position is not None:
        last = detail.first_position + len(detail.token_ids) - 1
        text = f"{count(detail.first_position)}-{count(last)} {text}"
    return [text_lines("tokens", text, style("text"), room, 2)]


def _hashes(view: View, detail: BlockDetail, room: int) -> list[Section]:
    """The hash that it is found by, and that of the chain before it."""
    style = view.palette.style
    if detail.hash is None:
        why = "none: it is not full yet" if detail.fill < detail.block_size else "none"
        words = f"{why}, so nobody can find it" if room >= len(why) + 25 else why
        return [text_lines("hash", words, style("faint"), room, 4)]
    own, parent = hex_of(detail.hash), detail.parent_hash
    if parent is None:
        before = ["first block of its prompt", "first block"]
        shorts = [f"{own[:SHORT]}…, {words}" for words in before]
    else:
        where = "not cached" if detail.parent_block is None else f"block {detail.parent_block}"
        before = [f"after {hex_of(parent)}, {where}", f"after {where}"]
        shorts = [f"{own[:SHORT]}… after {hex_of(parent)[:SHORT]}…, {where}", f"{own[:SHORT]}… {before[1]}"]
    whole = f"{own}{' ' if parent else ', '}{before[0]}"
    if len(whole) <= room:
        return [text_lines("hash", whole, style("text"), room, 4)]
    short: Words = ((first_fit(shorts, room), style("text")),)
    both: list[Words] = [((head(own, room), style("text")),), ((first_fit(before, room), style("muted")),)]
    return [Section("hash", 2, lambda number: both if number > 1 else [short], 4)]


def _life(view: View, detail: BlockDetail, room: int) -> Section:
    """What happened to it, oldest first; the newest where there is little room."""
    style = view.palette.style
    if not detail.life:
        return text_lines("life", "nothing happened to it yet", style("faint"), room, 3)
    told = [line.partition(" ") for line in map(visible, detail.life)]
    pad = max(len(count_of(step)) for step, _, _ in told) + 1
    entries = []
    for step, _, words in told:
        when = f"{count_of(step):>{pad - 1}} "
        lines: list[Words] = []
        for part in wrapped(words, max(8, room - pad)):
            lines.append(((" " * pad if lines else when, style("faint")), (part, style("text"))))
        entries.append(lines)
    return newest("life", entries, 3)


def count_of(step: str) -> str:
    """A step's number with thousands separated."""
    return count(int(step)) if step.isdecimal() else step


def _slots(view: View, detail: BlockDetail, room: int) -> list[Section]:
    """Every token by itself: position, text and id."""
    if not detail.token_ids or detail.first_position is None:
        return []
    style, first = view.palette.style, detail.first_position
    places = [count(first + offset) for offset in range(len(detail.token_ids))]
    texts = [f"“{view.decode((token,))}”" for token in detail.token_ids]
    ids = [f"#{token}" for token in detail.token_ids]
    widths = [min(room, max(map(cell_len, column))) for column in (places, texts, ids)]
    parts: list[Words] = [
        (
            (fit(place, widths[0], ">") + " ", style("faint")),
            (fit(text, widths[1]) + " ", style("text")),
            (fit(id_, widths[2]), style("muted")),
        )
        for place, text, id_ in zip(places, texts, ids, strict=True)
    ]
    return [items("slots", parts, room, 9, view, least=0)]


def hex_of(value: int) -> str:
    """A 64-bit hash as sixteen hexadecimal digits."""
    return f"{value & 0xFFFF_FFFF_FFFF_FFFF:016x}"
