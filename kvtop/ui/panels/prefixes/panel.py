"""The tree of prefixes: which blocks can be found by their content, and what follows what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events

from kvtop.timeline.snapshot import PrefixNode, Snapshot
from kvtop.ui.commands.intents import LineAction, Select
from kvtop.ui.draw.glyphs import FOLDED, FOUND, UNFOLDED
from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.draw.text import count, first_fit, fit, head
from kvtop.ui.frame.narration import ranges
from kvtop.ui.frame.ordering import Pattern, next_place
from kvtop.ui.frame.row import RowKey
from kvtop.ui.frame.rows import row_for
from kvtop.ui.frame.view import Selection, View
from kvtop.ui.panels.prefixes.rows import PrefixRow, PrefixRows, found
from kvtop.ui.parts.panel import Legend, PanelBody

TOKENS, NUMBER, REF, EQUAL, HITS, IDLE = 11, 4, 4, 6, 5, 6
"""Cells of the columns of figures, each with a blank before it."""
WITH_EQUAL = 70
"""Cells from which on there is a column for equal blocks."""
EQUALS = 4
"""Ids of equal blocks that stand before a block's text."""
NAME_LEAST, TEXT_LEAST = 12, 10
WHEEL = 3
MOST_TEXTS = 8192
"""Texts of blocks that are kept."""
BLOCKS_IN_A_LINE = 12
"""A folded chain's text is made of so many blocks at most."""


@dataclass(frozen=True, slots=True)
class PrefixesState:
    """What a person has made of the panel."""

    top: int = 0
    """The first row shown."""
    by_hits: bool = False
    """Whether siblings stand by hits."""
    search: str = ""
    opened: frozenset[int] = frozenset()
    """Hashes of the first blocks of chains that are shown block by block."""


class PrefixTree(PanelBody):
    """Chains of blocks as a tree with a cursor, which is on the selected block."""

    state: PrefixesState = PrefixesState()

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._place = 0
        """The row the cursor was on last, to go on from when its block has left."""
        self._reveal = True
        self._made: tuple[object, ...] = ()
        self._tree = PrefixRows(())
        self._texts: dict[int, str] = {}
        self._matches: list[int] = []

    def heading(self, view: View) -> tuple[str, str]:
        snapshot = view.snapshot
        if snapshot is None or not snapshot.prefixes:
            return "Prefixes", ""
        nodes = snapshot.prefixes
        tokens = count(len(self._tree.nodes) * snapshot.source.block_size)
        roots = self._tree.segments.roots
        title = f"Prefixes ({count(len(nodes))} blocks, {tokens} tokens, {count(roots)} roots)"
        words = []
        if snapshot.prefixes_left_out:
            words.append(f"{count(snapshot.prefixes_left_out)} blocks left out")
        if self.state.by_hits:
            words.append("most hits first")
        if self.state.search:
            words.append(f"search “{head(self.state.search, 20)}”")
        below = len(self._tree.rows) - self.state.top - self._room()
        if below > 0:
            words.append(f"{count(below)} more below")
        room = self.extent.width - len(title) - 8
        return title, first_fit(["   ".join(words[:end]) for end in range(len(words), -1, -1)], room)

    def legend(self, view: View) -> Legend:
        ink = view.palette.style
        muted = ink("muted")
        return (
            ("3", ink("background", "shared")), (" shared ", muted),
            (view.glyphs.full, ink("used")), (" used once ", muted),
            (view.glyphs.cached, ink("cached", "cached_track")), (" cached only  ", muted),
            ("+ - unfold, fold", ink("faint")),
        )  # fmt: skip

    # -- drawing ------------------------------------------------------------------------------------------

    def _update(self, view: View) -> PrefixRows:
        """The rows of the frame's tree; made anew only where it differs."""
        nodes = (view.snapshot.prefixes if view.snapshot is not None else None) or ()
        made = (self.state.opened, self.state.by_hits, self.state.search)
        if nodes is not self._tree.segments.given or made != self._made:
            self._made = made
            self._tree = PrefixRows(nodes, self.state.opened, by_hits=self.state.by_hits)
            pattern = Pattern(self.state.search)
            self._matches = found(self._tree, pattern, lambda node: self._text(view, node))
        return self._tree

    def _text(self, view: View, node: PrefixNode) -> str:
        """A block's text. Blocks with one hash have one text."""
        text = self._texts.get(node.hash)
        if text is None:
            if len(self._texts) >= MOST_TEXTS:
                self._texts.clear()
            text = self._texts[node.hash] = view.decode(node.token_ids)
        return text

    def _room(self) -> int:
        """Rows under the head."""
        return max(0, self.extent.height - 1)

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        snapshot = view.snapshot
        if snapshot is None:
            return []
        if not snapshot.prefixes:
            words = "being looked up"
            if snapshot.prefixes is not None:
                words = "nothing is cached yet: a block is, once it is full"
            return [LineBuilder().put(f" {words}", view.palette.style("faint")).line()]
        tree = self._update(view)
        cursor = self._scroll(view, tree)
        shown = tree.rows[self.state.top : self.state.top + self._room()]
        names = [self._label(tree, row) for row in shown]
        equal = EQUAL if width >= WITH_EQUAL else 0
        room = width - 3 - TOKENS - NUMBER - REF - equal - HITS - IDLE - TEXT_LEAST
        name_width = min(max([NAME_LEAST, *map(len, names)]), max(NAME_LEAST, room))
        lines = [_head(view, width, name_width)]
        for number, (row, name) in enumerate(zip(shown, names, strict=True)):
            selected = self.state.top + number == cursor
            lines.append(self._line(view, snapshot, tree, row, name, name_width, width, selected=selected))
        return lines

    def _label(self, tree: PrefixRows, row: PrefixRow) -> str:
        """The tree's lines, the fold's sign, and the blocks."""
        sign = (FOLDED if row.folded else UNFOLDED) if tree.foldable(row) else " "
        if not row.folded and row.first != tree.segments.starts[row.segment]:
            sign = " "
        blocks, more, _ = ranges([node.block for node in tree.nodes[row.first : row.last]], 2).partition(
            " and "
        )
        return f"{tree.guide(row)}{sign} {blocks}{' …' if more else ''}"

    def _line(
        self,
        view: View,
        snapshot: Snapshot,
        tree: PrefixRows,
        row: PrefixRow,
        name: str,
        name_width: int,
        width: int,
        *,
        selected: bool,
    ) -> Line:
        """A block, or a folded chain of them."""
        nodes = tree.nodes[row.first : row.last]
        first = nodes[0]
        ground = "row" if selected else "background"
        ink, references = view.palette.style, first.ref_count
        matches = [place for place in self._matches if row.first <= place < row.last]
        line = LineBuilder()
        line.put(FOUND if matches else " ", ink("match", ground, bold=True))
        if references > 1:
            line.put(str(references) if references < 10 else "+", ink("background", "shared"))
        elif references:
            line.put(view.glyphs.full, ink("used", ground))
        else:
            line.put(view.glyphs.cached, ink("cached", "cached_track"))
        plain = view.palette.reference(references, ground, bold=references > 1)
        named = plain if references else ink("muted", ground)
        guide = len(tree.guide(row))
        line.put(" ", ink("text", ground)).put(name[:guide], ink("faint", ground)).cell(
            name[guide:], name_width - guide, named
        )
        begin, end = first.depth, first.depth + len(nodes)
        size = snapshot.source.block_size
        text = ink("text" if references else "muted", ground)
        tokens = f" {count(begin * size)}-{count(end * size - 1)}"
        number = len(nodes) if row.folded else ""
        line.put(f"{tokens:>{TOKENS}}{number:>{NUMBER}}", text)
        line.put(f"{references:>{REF}}", plain if references else ink("faint", ground))
        equal = tree.equal(row)
        if width >= WITH_EQUAL:
            line.put(f"{len(equal) or '':>{EQUAL}}", ink("muted", ground))
        hits = _span([node.hits for node in nodes])
        line.put(f"{hits:>{HITS}}", ink("faint" if hits == "0" else "good", ground))
        idle = "" if references else count(snapshot.step - max([node.touched for node in nodes]))
        line.put(f"{idle:>{IDLE}}  ", ink("muted", ground))
        if equal and not row.folded:
            line.put(f"= {ranges([node.block for node in equal], most=EQUALS)}  ", ink("faint", ground))
        room = max(0, width - line.width)
        shown = tree.nodes[matches[0] : row.last] if matches else nodes
        return line.put(fit(self._words(view, shown, room), room), ink("muted", ground)).line()

    def _words(self, view: View, nodes: Sequence[PrefixNode], room: int) -> str:
        """As much of the blocks' text as fits."""
        words = ""
        for node in nodes[:BLOCKS_IN_A_LINE]:
            words += self._text(view, node)
            if len(words) > room:
                break
        return words

    # -- cursor and scrolling -----------------------------------------------------------------------------

    def _scroll(self, view: View, tree: PrefixRows) -> int | None:
        """Keep the last page full and the cursor in sight after a move. The cursor's row; None without."""
        block = view.selection.block
        cursor = tree.place_of(block) if block is not None else None
        room = self._room()
        if cursor is not None:
            self._place = cursor
            if self._reveal:
                self.put(top=max(min(self.state.top, cursor), cursor - room + 1))
        self._reveal = False
        self.put(top=max(0, min(self.state.top, len(tree.rows) - room)))
        return cursor

    def _cursor(self) -> tuple[View, PrefixRows, int | None] | None:
        """The newest frame, its tree, and the cursor's row; None before there is a tree."""
        view = self.view
        if view is None or not (tree := self._update(view)).rows:
            return None
        block = view.selection.block
        return view, tree, tree.place_of(block) if block is not None else None

    def move(self, dx: int, dy: int) -> None:
        """Move the cursor by rows; right unfolds a chain, left folds it."""
        now = self._cursor()
        if now is None:
            return
        if dx:
            (self.do_expand if dx > 0 else self.do_collapse)()
        elif dy:
            _, tree, place = now
            first = place is None and abs(dy) < len(tree.rows)
            self.go_to(self._place if first else (place or 0) + dy)

    def go_to(self, place: int) -> None:
        """Put the cursor on a row, as near as there is one, and so select its first block."""
        now = self._cursor()
        if now is not None:
            _, tree, _ = now
            self._place = max(0, min(place, len(tree.rows) - 1))
            self._select(tree.nodes[tree.rows[self._place].first].block)

    def _select(self, block: int) -> None:
        self._reveal = True
        row = self.view.selection.row if self.view is not None else None
        self.perform(Select(Selection(row, block)))
        self.redraw()

    def do_expand(self) -> None:
        """Show the chain under the cursor block by block."""
        self._fold(fold=False)

    def do_collapse(self) -> None:
        """Show the chain that the cursor is in as one row."""
        self._fold(fold=True)

    def _fold(self, *, fold: bool) -> None:
        now = self._cursor()
        place = now[2] if now is not None else None
        if now is None or place is None:
            self.tell("The arrows put the cursor on a chain", warning=True)
            return
        tree = now[1]
        row = tree.rows[place]
        if not tree.foldable(row):
            self.tell("Only a chain of three blocks or more is folded", warning=True)
            return
        first = tree.nodes[tree.segments.starts[row.segment]]
        self.put(opened=self.state.opened - {first.hash} if fold else self.state.opened | {first.hash})
        self._select(first.block)

    def take_inspect(self) -> bool:
        """Enter unfolds a chain; on a block it selects who holds it."""
        now = self._cursor()
        place = now[2] if now is not None else None
        if now is None or place is None:
            return True
        view, tree, _ = now
        detail = view.snapshot.block_detail if view.snapshot is not None else None
        if tree.rows[place].folded:
            self.do_expand()
        elif detail is not None and detail.block == view.selection.block and detail.owners:
            owner = detail.owners[0].sequence
            row = row_for(view.rows, RowKey.of(owner))
            self.perform(Select(Selection(row.key if row is not None else None, detail.block)))
        else:
            self.tell("No sequence holds this block: it is cached only")
        return True

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the row under the mouse; on the fold's sign or twice, fold or unfold."""
        now = self._cursor()
        place = self.state.top + event.y - 1
        if now is None or event.y < 1 or place >= len(now[1].rows):
            return
        tree = now[1]
        row = tree.rows[place]
        self.go_to(place)
        if tree.foldable(row) and (event.chain == 2 or event.x == 3 + len(tree.guide(row))):
            self._fold(fold=not row.folded)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll without moving the cursor."""
        self._wheel(WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll without moving the cursor."""
        self._wheel(-WHEEL)

    def _wheel(self, rows: int) -> None:
        self.put(top=max(0, self.state.top + rows))
        self.redraw()

    # -- order and search ---------------------------------------------------------------------------------

    def do_sort(self) -> None:
        """Siblings by hits, or as they stand."""
        self.put(by_hits=not self.state.by_hits)
        self._reveal = True
        self.redraw()

    def do_search(self) -> None:
        """Go to the first block in whose text a text begins, as it is typed; again goes to the next one."""
        if self.state.search:
            self._next_match()
        origin = self._place

        def changed(text: str) -> None:
            self.put(search=text)
            if text:
                self._go_to_match(origin, 1)
            self.redraw()

        keys = (
            LineAction("search", "Next", self._next_match),
            LineAction("previous_match", "Previous", self.do_previous_match),
        )
        self.ask_line("Search", self.state.search, changed, self._word, keys)

    def _found_rows(self) -> list[int]:
        """Rows with a match."""
        now = self._cursor()
        return sorted({now[1].row_of(node) for node in self._matches}) if now is not None else []

    def _go_to_match(self, start: int, step: int) -> None:
        place = next_place(self._found_rows(), start, step)
        if place is not None:
            self.go_to(place)

    def _next_match(self) -> None:
        self._go_to_match(self._place + 1, 1)

    def do_previous_match(self) -> None:
        """The row before that the search has found."""
        self._go_to_match(self._place - 1, -1)

    def _word(self) -> tuple[str, bool]:
        if not self.state.search:
            return "", False
        rows = self._found_rows()
        if not rows:
            return "no match", True
        where = f"{rows.index(self._place) + 1} of " if self._place in rows else ""
        return f"{where}{count(len(rows))}", False

    def take_back(self) -> bool:
        """Esc ends a search first."""
        if not self.state.search:
            return False
        self.put(search="")
        self.redraw()
        return True


def _head(view: View, width: int, name_width: int) -> Line:
    """The columns' heads."""
    ink = view.palette.style("muted", "raised", bold=True)
    line = LineBuilder().put("   ", ink).cell("  BLOCKS", name_width, ink)
    line.cell("TOKENS", TOKENS, ink, ">").cell("BLK", NUMBER, ink, ">").cell("REF", REF, ink, ">")
    line.cell("EQUAL", EQUAL if width >= WITH_EQUAL else 0, ink, ">")
    line.cell("HITS", HITS, ink, ">").cell("IDLE", IDLE, ink, ">")
    return line.put("  ", ink).cell("TEXT", max(0, width - line.width), ink).line()


def _span(values: Sequence[int]) -> str:
    """One value, or the lowest and the highest."""
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}-{high}"
