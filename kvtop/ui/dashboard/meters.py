"""Bars and figures: how full the pool is, what is wasted, host memory, memory, and rates."""

from __future__ import annotations

from rich.cells import cell_len

from kvtop.timeline.snapshot import Counters, Snapshot
from kvtop.ui.draw.bars import bar
from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.draw.text import count, duration, first_fit, percent, rate, size
from kvtop.ui.frame.view import View
from kvtop.ui.parts.lines import LineWidget

LABEL = 8
WIDE = 110
"""Columns from which on there is a column of counters at the right."""
STATS, WIDE_STATS = 38, 52
"""Its width in cells; the second where there is plenty of room."""
GAP = 2
"""Cells kept free before it."""


class Meters(LineWidget):
    """Four lines, five where there is room."""

    DEFAULT_CSS = "Meters { height: 5; } .-low Meters { height: 4; }"

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        snapshot = view.snapshot
        wide = width >= WIDE
        stats = (WIDE_STATS if width >= 160 else STATS) if wide else 0
        left = width - stats - GAP if wide else width
        length = max(18, min(width * 28 // 100, 72))
        counters = snapshot.counters if snapshot is not None else None
        rows = [
            self._pool(view, counters, length, left),
            self._slots(view, counters, length, left),
            self._host(view, counters, length, left, with_memory=height < 5),
        ]
        if height >= 5:
            rows.append(self._memory(view, left))
        if wide and snapshot is not None:
            for row, (label, figure) in zip(rows, _stats(snapshot), strict=False):
                row.space_to(width - stats, view.palette.style("text"))
                row.cell(label, 11, view.palette.style("muted"))
                row.put(first_fit(figure, width - row.width), view.palette.style("text"))
        rows.append(self._rates(view, width))
        return [row.line() for row in rows]

    def _label(self, view: View, text: str) -> LineBuilder:
        return LineBuilder().cell(f" {text}", LABEL, view.palette.style("primary"))

    def _figures(self, view: View, line: LineBuilder, candidates: list[str], width: int) -> None:
        """Append the longest text that fits: figures bright, words muted."""
        text = first_fit(candidates, max(0, width - line.width - 2))
        _words(view, line.put("  ", view.palette.style("text")), text)

    def _pool(self, view: View, counters: Counters | None, length: int, width: int) -> LineBuilder:
        line, ink = self._label(view, "Pool"), view.palette.style
        if counters is None:
            bar(line, [], 0, length, view.palette)
            return line
        c = counters
        parts = [
            (c.shared_blocks, "▓", ink("shared", "used")),
            (c.used_blocks - c.shared_blocks, "█", ink("used")),
            (c.cached_blocks, "·", ink("cached", "cached_track")),
        ]
        bar(line, parts, c.total_blocks, length, view.palette)
        used, shared = count(c.used_blocks), count(c.shared_blocks)
        cached, free, total = count(c.cached_blocks), count(c.free_blocks), count(c.total_blocks)
        texts = [
            f"{used} used ({shared} shared)  {cached} cached  {free} free  of {total} blocks",
            f"{used} used ({shared} shared)  {cached} cached  {free} free",
            f"{used} used ({shared} shared) {cached} cached {free} free",
            f"{used} used ({shared} sh) {cached} cached {free} free",
            f"{used} used {cached} cached {free} free",
            f"{used} / {total}",
        ]
        self._figures(view, line, texts, width)
        return line

    def _slots(self, view: View, counters: Counters | None, length: int, width: int) -> LineBuilder:
        line, ink = self._label(view, "Slots"), view.palette.style
        if counters is None:
            bar(line, [], 0, length, view.palette)
            return line
        c = counters
        waste = c.slots - c.stored_tokens
        bar(
            line,
            [(c.stored_tokens, "█", ink("good")), (waste, "░", ink("warning"))],
            c.slots,
            length,
            view.palette,
        )
        share = percent(waste, c.slots)
        wasted = f"waste {count(waste)} ({share})" if share is not None else "nothing stored"
        stored, slots = count(c.stored_tokens), count(c.slots)
        short = f"{stored} / {slots}  waste {share}" if share is not None else "empty"
        self._figures(
            view,
            line,
            [
                f"{stored} of {slots} token slots  {wasted}",
                f"{stored} of {slots}  {wasted}",
                short,
                f"{stored} / {slots}",
            ],
            width,
        )
        return line

    def _host(
        self, view: View, counters: Counters | None, length: int, width: int, *, with_memory: bool
    ) -> LineBuilder:
        line, ink = self._label(view, "Host"), view.palette.style
        c = counters
        if c is None or not c.host_total_blocks:
            bar(line, [], 0, length, view.palette)
            texts = ["no host blocks"] if c is not None else [""]
        else:
            bar(line, [(c.host_used_blocks, "█", ink("warning"))], c.host_total_blocks, length, view.palette)
            texts = [f"{count(c.host_used_blocks)} of {count(c.host_total_blocks)} blocks"]
        if with_memory:
            extra = [*_counts(c), *_memory(view)] if c is not None else []
            texts = ["  ".join([texts[0], *extra[:number]]) for number in range(len(extra), -1, -1)]
        self._figures(view, line, texts, width)
        return line

    def _memory(self, view: View, width: int) -> LineBuilder:
        line = self._label(view, "Memory")
        parts = _memory(view)
        texts = ["   ".join(parts[:number]) for number in range(len(parts), 0, -1)] or [""]
        _words(view, line, first_fit(texts, width - LABEL))
        return line

    def _rates(self, view: View, width: int) -> LineBuilder:
        ink = view.palette.style
        line = LineBuilder().put(" ", ink("text"))
        snapshot = view.snapshot
        if snapshot is None:
            return line
        c = snapshot.counters
        states = [
            ("running", c.running, "good"),
            ("waiting", c.waiting, "text"),
            ("swapped", c.swapped, "warning"),
        ]
        for word, number, colour in states:
            line.put(f"{word} ", ink("muted")).put(
                count(number), ink(colour if number else "faint", bold=number > 0)
            )
            line.put("  ", ink("text"))
        if width >= 76:
            line.put("done ", ink("muted")).put(count(c.finished), ink("text")).put("  ", ink("text"))
        figures = snapshot.figures
        if figures is None:
            return line
        if figures.tokens_per_second is not None:
            speed = f"{rate(figures.tokens_per_second)} tok/s "
            if line.width + cell_len(speed) <= width:
                line.put(" ", ink("text")).cell(speed, max(12, cell_len(speed)), ink("text", bold=True), ">")
            room = width - line.width
            sparks = 2 if width >= 100 else 1
            length = max(0, min(room // sparks - 9, 40)) if room > 12 else 0
            spark = view.history.spark("tokens_per_second", length, glyphs=view.glyphs)
            line.cell(spark, length, ink("primary"), ">")
            if sparks == 2:
                line.put("   pool ", ink("muted"))
                spark = view.history.spark("used_percent", length, 100, view.glyphs)
                line.cell(spark, length, ink("used"), ">")
        return line


def _counts(c: Counters) -> list[str]:
    """What happened since the start, where there is no column for it."""
    preempted = c.preempted_recompute + c.preempted_swap
    return [f"preempted {count(preempted)}", f"evicted {count(c.evictions)}", f"copied {count(c.cow_copies)}"]


def _words(view: View, line: LineBuilder, text: str) -> None:
    """Append text: figures bright, words muted."""
    for number, word in enumerate(text.split(" ")):
        figure = word.lstrip("(")[:1].isdigit()
        line.put(" " + word if number else word, view.palette.style("text" if figure else "muted"))


def _memory(view: View) -> list[str]:
    """Memory in words, the most telling first; only what is known."""
    snapshot, memory = view.snapshot, view.memory
    parts = []
    if snapshot is not None:
        source, c = snapshot.source, snapshot.counters
        if source.bytes_per_block is not None:
            parts.append(f"KV {size(source.bytes_per_block * c.total_blocks)}")
        if source.weight_bytes is not None:
            parts.append(f"weights {size(source.weight_bytes)}")
    if memory.gpu_used is not None and memory.gpu_total is not None:
        parts.append(f"GPU {size(memory.gpu_used)} of {size(memory.gpu_total)}")
    if memory.process is not None:
        parts.append(f"process {size(memory.process)}")
    if memory.available is not None:
        parts.append(f"available {size(memory.available)}")
    return parts


def _step_time(total: float, model: float) -> str:
    """How long the newest step took, and the model's share of it."""
    return f"{duration(total)}, model {100 * model / total:.0f} %" if total > 0 else "no time yet"


def _stats(snapshot: Snapshot) -> list[tuple[str, list[str]]]:
    """The counters at the right, one for each line, in all their words and in fewer."""
    c = snapshot.counters
    preempted = c.preempted_recompute + c.preempted_swap
    again, swap = count(c.preempted_recompute), count(c.preempted_swap)
    number = count(preempted)
    how = [f"{number} ({again} recompute {swap} swap)", f"{number} ({again} again {swap} swap)", number]
    hits = percent(c.prefix_hits, c.prefix_queries)
    lines = [
        ("preempted", how if preempted else [number]),
        ("evicted", [f"{count(c.evictions)}   copied {count(c.cow_copies)}", count(c.evictions)]),
        (
            "hits",
            [f"{hits} of {count(c.prefix_queries)} tokens", hits]
            if hits is not None
            else ["no prompt looked up yet"],
        ),
    ]
    figures = snapshot.figures
    if figures is not None:
        total = figures.schedule_seconds + figures.run_seconds + figures.update_seconds
        lines.append(("step", [_step_time(total, figures.run_seconds)]))
    return lines
