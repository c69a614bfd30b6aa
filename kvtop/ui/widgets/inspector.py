"""What is selected, in full: a block's owners, tokens and life, or a sequence's table and text."""

from __future__ import annotations

from kvtop.timeline.snapshot import BlockDetail, BlockState, SequenceDetail, Snapshot
from kvtop.ui.narrate import ranges
from kvtop.ui.rows import RowKey, TableRow
from kvtop.ui.text import count, head, tail, visible, wrap
from kvtop.ui.view import View
from kvtop.ui.widgets.lines import Line, LineBuilder
from kvtop.ui.widgets.panel import PanelBody

LABEL = 9
NAMES = {
    BlockState.FREE: "free",
    BlockState.CACHED: "cached, may be evicted",
    BlockState.USED: "used",
    BlockState.SHARED: "shared",
}
HINT = (
    "Arrows in the table: light its blocks.",
    "Tab, arrows or a click in the map: a block's",
    "owners, tokens and life.",
)


class Inspector(PanelBody):
    """Shows the selected block; without one, the selected sequence."""

    def heading(self, view: View) -> tuple[str, str]:
        selection = view.selection
        if selection.block is not None:
            return f"Selected: block {selection.block}", "Esc to let go"
        if selection.row is not None:
            return f"Selected: {_title(selection.row)}", "Esc to let go"
        return "Selected", ""

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        snapshot, selection = view.snapshot, view.selection
        if snapshot is None:
            return []
        if selection.block is not None:
            detail = snapshot.block_detail
            if detail is None or detail.block != selection.block:
                return [_faint(view, "being looked up")]
            return _block(view, detail, width, height)
        if selection.row is not None:
            row = next((row for row in view.rows if row.key == selection.row), None)
            return _sequence(view, snapshot, row, width, height) if row is not None else []
        return [_faint(view, text) for text in HINT]


def _title(key: RowKey) -> str:
    """A row in words."""
    if key.branch is None:
        return f"request {key.request}"
    return f"sequence {key.request}" + (f".{key.branch}" if key.branch else "")


def _faint(view: View, text: str) -> Line:
    return LineBuilder().put(" " + text, view.palette.style("faint")).line()


def _labelled(view: View, label: str, lines: list[str], ink: str = "text") -> list[Line]:
    """Lines with a label before the first."""
    out = []
    for index, text in enumerate(lines):
        name = label if index == 0 else ""
        line = LineBuilder().cell(f" {name}", LABEL, view.palette.style("muted"))
        out.append(line.put(text, view.palette.style(ink)).line())
    return out


def _block(view: View, detail: BlockDetail, width: int, height: int) -> list[Line]:
    """A block in full. Owners and tokens come first; life takes what room is left."""
    room = max(1, width - LABEL - 1)
    full = (
        "full" if detail.fill == detail.block_size else f"{detail.fill} of {detail.block_size} slots filled"
    )
    state = f"{NAMES[detail.state]} · ref count {detail.ref_count} · {full}"
    lines = _labelled(view, "state", [head(state, room)])
    owners = "  ".join(f"{owner.name}[{owner.logical}]" for owner in detail.owners) or "none"
    lines += _labelled(view, "owners", wrap(owners, room)[:2], "primary" if detail.owners else "faint")
    if detail.hash is not None:
        parent = "" if not detail.parent_hash else f" after {_hex(detail.parent_hash)}"
        lines += _labelled(view, "hash", [head(_hex(detail.hash) + parent, room)])
    else:
        lines += _labelled(view, "hash", ["none: it cannot be found by its content"[:room]], "faint")
    if detail.token_ids is None:
        lines += _labelled(view, "tokens", ["not published"], "faint")
    elif detail.token_ids:
        text = f"“{view.decode(detail.token_ids)}”"
        if detail.first_position is not None:
            last = detail.first_position + len(detail.token_ids) - 1
            text = f"{count(detail.first_position)}-{count(last)} {text}"
        lines += _labelled(view, "tokens", wrap(text, room)[: max(1, min(3, height - len(lines) - 1))])
    left = height - len(lines)
    life = [visible(event) for event in detail.life][-left:] if left > 0 else []
    lines += _labelled(view, "life", [head(event, room) for event in life], "muted")
    return lines


def _hex(value: int) -> str:
    """A 64-bit hash as sixteen hexadecimal digits."""
    return f"{value & 0xFFFF_FFFF_FFFF_FFFF:016x}"


def _sequence(view: View, snapshot: Snapshot, row: TableRow, width: int, height: int) -> list[Line]:
    """A sequence or group in full: figures, table, and as much of its text as fits."""
    room = max(1, width - LABEL - 1)
    first = row.sequences[0]
    stored = sum(member.stored_tokens for member in row.sequences)
    kind = (
        f"{first.n} samples · "
        if first.n > 1
        else f"{first.beam_width} beams · "
        if first.beam_width > 1
        else ""
    )
    figures = f"{kind}{count(row.prompt)} prompt + {count(row.generated)} generated · {count(stored)} stored"
    lines = _labelled(view, "tokens", [head(figures, room)])
    if first.label:
        lines += _labelled(view, "label", [head(visible(first.label), room)])
    if row.wait_reason:
        lines += _labelled(view, "waits", wrap(visible(row.wait_reason), room)[:2], "warning")
    where = "host" if row.on_host else "blocks"
    for member in row.sequences[: max(1, height - len(lines) - 1)]:
        name = where if len(row.sequences) == 1 else f".{member.branch}"
        table = ranges(member.table.tolist(), most=64) or "none"
        lines += _labelled(view, name, wrap(table, room)[: 2 if len(row.sequences) == 1 else 1], "primary")
    detail = snapshot.sequence_detail
    left = height - len(lines)
    if left > 0 and len(row.sequences) == 1 and detail is not None and detail.id == first.id:
        lines += _labelled(view, "text", _text(view, detail, room, left), "text")
    return lines[:height]


def _text(view: View, detail: SequenceDetail, room: int, height: int) -> list[str]:
    """The end of a sequence's text, as much as fits."""
    newest = (*detail.prompt_token_ids, *detail.generated_token_ids)[-(room * height) // 2 :]
    wrapped = wrap(view.decode(newest), room)
    if len(wrapped) > height:
        wrapped = wrapped[-height:]
        wrapped[0] = tail("…" + wrapped[0], room)
    return wrapped
