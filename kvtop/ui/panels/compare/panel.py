"""Paging beside contiguous reservation: the same requests, the same pool, two strips to one scale."""

from __future__ import annotations

from dataclasses import dataclass

from kvtop.analysis.reservations import Reservation, Scheme, contiguous, demands, paged
from kvtop.timeline.snapshot import Snapshot
from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.draw.text import count, first_fit, percent, size
from kvtop.ui.frame.view import View
from kvtop.ui.panels.compare.strip import Fill, Part, look, strip_lines
from kvtop.ui.parts.panel import Legend, PanelBody

SCHEMES = (Scheme.MAX, Scheme.POW2, Scheme.ORACLE)
"""Left to right: from the one that wastes most."""
MEANINGS = {
    Scheme.MAX: "every region is as long as the model goes",
    Scheme.POW2: "the next power of two of prompt and longest answer",
    Scheme.ORACLE: "prompt and longest answer exactly",
}
MOST_ROWS = 20
"""Rows of a strip at most."""
HEADS = ("IN", "MORE FIT", "USED", "LATER", "NEVER", "USED %")
CELLS, NARROW = (10, 10, 9, 9, 9, 8), (9, 9, 7, 7, 7, 8)
"""Cells of the columns, and where there are fewer than ROOMY."""
ROOMY = 66
NAME = 8
CAPTION = 20
BYTES = 12
"""Cells for what is taken in bytes, where there is room."""
NOTES = (
    "Between regions: external fragmentation, which is not simulated. Contiguous figures are upper bounds.",
    "External fragmentation is not simulated: contiguous is at its best here.",
    "External fragmentation: not simulated.",
)


@dataclass(frozen=True, slots=True)
class CompareState:
    """What a person has made of the panel."""

    chosen: Scheme = Scheme.MAX
    """The contiguous scheme that is drawn."""


class Compare(PanelBody):
    """Two strips and a table of all schemes. Left and right choose the contiguous one that is drawn."""

    state: CompareState = CompareState()

    def heading(self, view: View) -> tuple[str, str]:
        if view.snapshot is None:
            return "Compare", ""
        source, c = view.snapshot.source, view.snapshot.counters
        slots = c.total_blocks * source.block_size
        title = f"Compare (a pool of {count(slots)} token slots)"
        scheme = self.scheme(view.snapshot)
        room = self.extent.width - len(title) - 8
        meaning = f"{scheme.value}: {MEANINGS[scheme]}"
        return title, first_fit([f"{meaning}   ← →", meaning, f"← {scheme.value} →", ""], room)

    def legend(self, view: View) -> Legend:
        muted = view.palette.style("muted")
        parts: list[tuple[str, Fill]] = [
            (" used  ", Fill.USED),
            (" reserved for later  ", Fill.LATER),
            (" never used  ", Fill.NEVER),
            (" cached ", Fill.CACHED),
        ]
        return tuple(piece for word, fill in parts for piece in (look(view, Part(1, fill)), (word, muted)))

    def scheme(self, snapshot: Snapshot) -> Scheme:
        """The contiguous scheme that is drawn: the chosen one, if the source says enough for it."""
        known = snapshot.source.max_positions is not None
        return self.state.chosen if known or self.state.chosen is not Scheme.MAX else Scheme.POW2

    # -- drawing ------------------------------------------------------------------------------------------

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        snapshot = view.snapshot
        if snapshot is None:
            return []
        held = _reservations(snapshot)
        now = held["paged"]
        if now is None or not now.requests:
            words = "no request is running or waiting: there is nothing to compare"
            return [LineBuilder().put(f" {words}", view.palette.style("faint")).line()]
        scheme = self.scheme(snapshot)
        other = held[scheme.value]
        assert other is not None
        note = height >= 11
        room = height - 2 - len(held) - 1 - note - 2 * (height >= 18)
        rows = max(1, min(MOST_ROWS, room // 2))
        left = height - 2 - len(held) - 1 - note - 2 * rows
        lines = [self._caption(view, "Paged", now, width), *strip_lines(view, now, width, rows)]
        lines += [()] * (left >= 1)
        lines.append(self._caption(view, f"Contiguous, {scheme.value}", other, width))
        lines += [*strip_lines(view, other, width, rows), *([()] * (left >= 2))]
        lines += self._table(view, snapshot, held, scheme, width)
        if note:
            words = first_fit(NOTES, width - 2)
            lines.append(LineBuilder().put(f" {words}", view.palette.style("faint")).line())
        return lines

    def _caption(self, view: View, name: str, held: Reservation, width: int) -> Line:
        """What a strip shows, in the words that matter."""
        ink = view.palette.style
        line = LineBuilder().cell(f" {name}", CAPTION, ink("text", bold=True))
        share = percent(held.used, held.reserved)
        words = [" of what they take is used", " used"]
        line.put(f"{held.admitted} of {held.requests}", ink("text", bold=True))
        line.put(" requests in" if width >= 50 else " in", ink("muted"))
        if share is not None:
            line.put("   ", ink("muted")).put(share, ink(_tone(held), bold=True))
            line.put(first_fit(words, width - line.width), ink("muted"))
        return line.line()

    def _table(
        self,
        view: View,
        snapshot: Snapshot,
        held: dict[str, Reservation | None],
        scheme: Scheme,
        width: int,
    ) -> list[Line]:
        """All schemes in figures."""
        ink = view.palette.style
        head = ink("muted", "raised", bold=True)
        bytes_per_slot = None
        if snapshot.source.bytes_per_block is not None:
            bytes_per_slot = snapshot.source.bytes_per_block / snapshot.source.block_size
        columns = CELLS if width >= ROOMY else NARROW
        wide = bytes_per_slot is not None and width >= NAME + sum(columns) + BYTES + 1
        line = LineBuilder().cell(" SCHEME", NAME, head)
        for word, cells in zip(HEADS, columns, strict=True):
            line.cell(word, cells, head, ">")
        line.cell("TAKES", BYTES if wide else 0, head, ">")
        lines = [line.space_to(width, head).line()]
        for name, one in held.items():
            ground = "row" if name == scheme.value else "background"
            line = LineBuilder().cell(f" {name}", NAME, ink("text", ground, bold=name == "paged"))
            if one is None:
                line.put(" not published: how many positions the model has", ink("faint", ground))
            else:
                more = "-" if one.more is None else count(one.more)
                figures = (f"{one.admitted} of {one.requests}", more, *map(count, (one.used, one.later)))
                for text, cells in zip(figures, columns, strict=False):
                    line.cell(text, cells, ink("faint" if text == "0" else "text", ground), ">")
                wasted = "warning" if one.never else "faint"
                line.cell(count(one.never), columns[4], ink(wasted, ground), ">")
                share = percent(one.used, one.reserved) or "-"
                line.cell(share, columns[5], ink(_tone(one), ground, bold=True), ">")
                if wide and bytes_per_slot is not None:
                    line.cell(size(one.reserved * bytes_per_slot), BYTES, ink("muted", ground), ">")
            meaning = "   a block at a time" if name == "paged" else f"   {MEANINGS[Scheme(name)]}"
            if line.width + len(meaning) < width:
                line.put(meaning, ink("faint", ground))
            lines.append(line.space_to(width, ink("text", ground)).line())
        return lines

    # -- which scheme -------------------------------------------------------------------------------------

    def move(self, dx: int, dy: int) -> None:
        """Left and right, or up and down, choose another scheme."""
        if self.view is None or self.view.snapshot is None:
            return
        schemes = [scheme for scheme in SCHEMES if self._known(scheme)]
        place = schemes.index(self.scheme(self.view.snapshot)) + max(-1, min(dx - dy, 1))
        self._choose(schemes[max(0, min(place, len(schemes) - 1))])

    def do_sort(self) -> None:
        """The next scheme, round and round."""
        if self.view is not None and self.view.snapshot is not None:
            schemes = [scheme for scheme in SCHEMES if self._known(scheme)]
            place = schemes.index(self.scheme(self.view.snapshot)) + 1
            self._choose(schemes[place % len(schemes)])

    def _known(self, scheme: Scheme) -> bool:
        """Whether the source says enough for a scheme."""
        snapshot = self.view.snapshot if self.view is not None else None
        known = snapshot is not None and snapshot.source.max_positions is not None
        return known or scheme is not Scheme.MAX

    def _choose(self, scheme: Scheme) -> None:
        self.put(chosen=scheme)
        self.redraw()


def _reservations(snapshot: Snapshot) -> dict[str, Reservation | None]:
    """What the live requests take: paged, then the contiguous schemes from the best to the worst; None where
    the source does not say enough."""
    source, c = snapshot.source, snapshot.counters
    live = demands(snapshot.sequences)
    held: dict[str, Reservation | None] = {
        "paged": paged(
            snapshot.sequences,
            snapshot.blocks.fill,
            block_size=source.block_size,
            total_blocks=c.total_blocks,
            used_blocks=c.used_blocks,
            cached_blocks=c.cached_blocks,
        )
    }
    for scheme in reversed(SCHEMES):
        known = scheme is not Scheme.MAX or source.max_positions is not None
        held[scheme.value] = (
            contiguous(
                scheme,
                live,
                c.total_blocks * source.block_size,
                max_positions=source.max_positions,
                max_sequences=source.max_sequences,
            )
            if known
            else None
        )
    return held


def _tone(held: Reservation) -> str:
    """The colour of the share that is used."""
    share = held.used / held.reserved if held.reserved else 0.0
    return "good" if share >= 0.9 else "warning" if share >= 0.5 else "error"
