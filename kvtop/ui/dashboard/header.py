"""The first line: what is being looked at, and where it stands."""

from __future__ import annotations

from rich.cells import cell_len

from kvtop.session.session import Phase, Status
from kvtop.timeline.snapshot import Source
from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.draw.text import clock, count, first_fit, rate, size, visible
from kvtop.ui.frame.view import View
from kvtop.ui.parts.lines import LineWidget

PHASES = {
    Phase.LOADING: "primary",
    Phase.RUNNING: "good",
    Phase.PAUSED: "warning",
    Phase.ENDED: "primary",
    Phase.FAILED: "error",
}


def speed(status: Status) -> str:
    """The speed asked for, in steps a second; empty when it does not apply."""
    if status.speed is None:
        return ""
    return "unbounded" if status.speed == 0 else f"{status.speed:g}/s"


def source_parts(source: Source, blocks: int) -> list[str]:
    """What is being looked at, in the order of importance for a narrow screen's sake."""
    device = " ".join(part for part in (source.device, source.dtype, source.kernels) if part)
    parts = [visible(source.model), device, visible(source.kernels_note or "")]
    parts += [f"{count(blocks)} blocks × {source.block_size} tokens", visible(source.workload)]
    if source.seed is not None:
        parts.append(f"seed {source.seed}")
    if source.bytes_per_block is not None:
        parts.append(f"{size(source.bytes_per_block)} a block")
    return [part for part in parts if part]


class Header(LineWidget):
    """One line over everything."""

    DEFAULT_CSS = "Header { height: 1; }"

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        ink = view.palette.style
        plain, muted = ink("text", "raised"), ink("muted", "raised")
        status = view.status
        right = LineBuilder()
        snapshot = view.snapshot
        if snapshot is not None:
            right.put("step ", muted).put(count(snapshot.step), ink("text", "raised", bold=True)).put(
                "  ", plain
            )
        right.put(f" {status.phase.value.upper()} ", ink("background", PHASES[status.phase], bold=True))
        pace = speed(status)
        if pace and status.phase in (Phase.RUNNING, Phase.PAUSED):
            right.put(f" {pace}", plain)
        elif snapshot is not None and snapshot.figures and (actual := snapshot.figures.steps_per_second):
            right.put(f" {rate(actual)}/s", plain)
        if width >= 76:
            right.put(f"  {clock(status.elapsed_seconds)}", muted)
        right.put(" ", plain)

        left = LineBuilder().put(" kvtop ", ink("background", "primary", bold=True)).put(" ", plain)
        room = width - left.width - right.width - 2
        if snapshot is not None:
            parts = source_parts(snapshot.source, snapshot.counters.total_blocks)
        else:
            parts = [visible(view.title)] if view.title else []
        kept = [" · ".join(parts[:number]) for number in range(len(parts), 0, -1)]
        text = first_fit(kept, max(room, 0)) if kept else ""
        name = parts[0] if parts and text.startswith(parts[0]) else ""
        left.put(name, ink("text", "raised", bold=True)).put(text[len(name) :], muted)
        left.space_to(width - right.width, plain)
        assert cell_len(text) <= max(room, 0)
        return [left.line() + right.line()]
