"""The dashboard's app: polls a session, draws what changed, and turns keys into commands."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any

from textual.geometry import NULL_REGION, Region

from kvtop.config import LAST, Settings, UiState, config_folder
from kvtop.session.session import Phase, Session, Status
from kvtop.timeline.snapshot import SequenceRow, Snapshot
from kvtop.ui.app.live_settings import SettingsApp
from kvtop.ui.app.probe import MachineProbe
from kvtop.ui.commands.intents import (
    AskChoice,
    AskLine,
    Do,
    Focus,
    Intent,
    Redraw,
    Select,
    SetOrder,
    SetTags,
    Tell,
    Watch,
)
from kvtop.ui.dashboard.screen import Dashboard
from kvtop.ui.draw.glyphs import BLOCK, Glyphs
from kvtop.ui.draw.palette import Palette, load_palette
from kvtop.ui.draw.text import visible
from kvtop.ui.frame.columns import BY_ID as SORTS
from kvtop.ui.frame.columns import usable_columns
from kvtop.ui.frame.history import History
from kvtop.ui.frame.machine import MachineMemory
from kvtop.ui.frame.row import ARRIVAL, RowKey, TableOrder, TableRow
from kvtop.ui.frame.rows import living, matching, row_for, table_rows
from kvtop.ui.frame.screen_state import ScreenState
from kvtop.ui.frame.view import NO_ROWS, Selection, View

TAILS = 2048
"""How many sequences' newest texts are kept, for filter and search: a tokenizer takes long over hundreds."""
TEXTS_PER_SECOND = 4
"""How often figures change on the screen while the generator runs: faster than that nobody reads them."""


class KvtopApp(SettingsApp):
    """One session on the screen.

    `fps` frames a second are polled. A frame in which nothing changed draws nothing, and one that the
    terminal has not yet taken is not followed by another. `folder` is where screenshots go.
    """

    CSS_PATH = Path(__file__).with_name("kvtop.tcss")
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    NOTIFICATION_TIMEOUT = 4

    def __init__(
        self,
        session: Session,
        *,
        title: str = "",
        fps: float = 20,
        palette: Palette | None = None,
        folder: Path | None = None,
        probe: bool = True,
        settings: Settings | None = None,
        state: UiState | None = None,
        glyphs: Glyphs = BLOCK,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        no_color = bool(os.environ.get("NO_COLOR"))
        colours = palette if palette is not None else load_palette("mono" if no_color else "dark")
        where = folder if folder is not None else Path()
        wanted = settings if settings is not None else Settings()
        super().__init__(session, colours, fps=fps, folder=where, settings=wanted)
        self.no_color = no_color
        self.glyphs = glyphs
        self.title = title or "kvtop"
        self.selection = Selection()
        self.order = TableOrder()
        self.tags = self.matches = NO_ROWS
        """Rows that a search has found."""
        self._clock = clock
        self._subject = title
        self._probe_wanted = probe
        self._probe: MachineProbe | None = None
        self._memory = MachineMemory()
        self._history = History()
        self._snapshot: Snapshot | None = None
        self._rows: list[TableRow] = []
        self._tail_text = lru_cache(TAILS)(self._decode)
        self._drawn: tuple[Any, ...] = ()
        self._texts_pending = False
        self._texts_tick = 0
        self._ended = False
        self.wants: frozenset[str] = frozenset()
        """What the panels show that is not in every snapshot."""
        self._restore(state if state is not None else UiState())

    def _restore(self, state: UiState) -> None:
        """Put preset, borders and order where they were left, or where the settings want them."""
        wanted = self.settings.preset
        order = TableOrder(
            sort=state.sort if state.sort in SORTS else ARRIVAL, inverted=state.inverted, tree=state.tree
        )
        preset = state.preset if wanted == LAST else wanted
        self.show_state(ScreenState(preset=preset, shares=state.splits, order=order))
        self._restored = self.state

    @property
    def screen_state(self) -> ScreenState:
        """Everything that a person has made of the screen. Changes nothing."""
        return ScreenState(
            preset=self.dashboard.preset.id,
            zoomed=self.dashboard.zoomed,
            shares=dict(self.dashboard.shares),
            focused=self.dashboard.focused_in,
            selection=self.selection,
            order=self.order,
            tags=self.tags,
            panels=self.dashboard.panel_states,
        )

    def show_state(self, state: ScreenState) -> None:
        """Put the screen as it was. Raises KeyError for a preset that there is not."""
        self.dashboard.restore(state)
        self.order, self.tags = state.order, state.tags
        self.wants = self.dashboard.wants
        if self.is_running:
            self.refresh_view(force=True)  # the rows, from which the session is told what is selected
            self.select(state.selection)
        else:
            self.selection = state.selection

    @property
    def state(self) -> UiState:
        """What of the screen survives a restart. Changes nothing."""
        return UiState(
            preset=self.dashboard.preset.id,
            splits=dict(self.dashboard.shares),
            sort=self.order.sort,
            inverted=self.order.inverted,
            tree=self.order.tree,
        )

    @property
    def state_changed(self) -> bool:
        """Whether a person has changed what survives a restart."""
        return self.state != self._restored

    # -- life ---------------------------------------------------------------------------------------------

    def get_default_screen(self) -> Dashboard:
        """The dashboard is the only screen below the dialogs."""
        return self.dashboard

    def on_mount(self) -> None:
        """Draw the skeleton, then let the session begin: the first frame waits for no model."""
        self.use_theme()
        for line in self.problems[:1]:
            line = line.replace(f"{config_folder(os.environ)}/", "")
            more = len(self.problems) - 1
            self.tell(line + (f" ({more} more: kvtop doctor)" if more else ""), warning=True)
        self.app_resume_signal.subscribe(self, self.resumed)
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        """Draw the first frame; once it is on its way, start the session and the clock."""
        self.refresh_view(force=True)
        self.call_after_refresh(self._start)

    def _start(self) -> None:
        """Start what would compete with the first frame for the processor."""
        if self.dashboard.wants:  # more than every snapshot has
            self.set_wants(self.dashboard.wants)
        self.session.start()
        self.set_interval(1 / self.fps, self._tick)

    def _tick(self) -> None:
        """Poll the session once."""
        self.ticks += 1
        self.reread_theme()
        if self.terminal_lost:
            self.exit(return_code=128 + signal.SIGHUP)
        elif not self.terminal_busy and not self._generator_first:
            self.refresh_view()

    @property
    def _generator_first(self) -> bool:
        """Whether this frame is left out for the generator's sake. Unbounded, it and the screen take turns
        at Python's lock, and nobody can tell ten pictures a second from twenty."""
        status = self.session.status
        return status.speed == 0 and status.phase is Phase.RUNNING and self.fps > 10 and self.ticks % 2 == 1

    # -- drawing ------------------------------------------------------------------------------------------

    def refresh_view(self, *, force: bool = False) -> None:
        """Take the newest snapshot and draw it, if anything differs from what is on the screen."""
        status, snapshot = self.session.status, self.session.snapshot()
        self.take_notices()
        self._sample(status, snapshot)
        self._notice_the_end(status)
        drawn = (snapshot, self._chosen, self._memory, _shown(status), self._beat(status))
        same = len(self._drawn) == len(drawn) and self._drawn[0] is snapshot and self._drawn[1:] == drawn[1:]
        if same and not force and not self._texts_pending and not self.dashboard.animating:
            return
        texts = force or self._texts_due(status, drawn)
        self._texts_pending = not texts
        self._drawn, self._snapshot = drawn, snapshot
        if texts:
            self._texts_tick = self.ticks
            if snapshot is not None:
                self._make_rows(snapshot)
            self._drawn = (snapshot, self._chosen, *drawn[2:])
        self.dashboard.draw(self.view(status), texts=texts)

    @property
    def _chosen(self) -> tuple[Any, ...]:
        """What a person has selected, ordered and marked."""
        return self.selection, self.order, self.tags, self.matches

    def _make_rows(self, snapshot: Snapshot) -> None:
        """The table's rows in their order. Marks go on with their sequences and end with them."""
        order = self.order
        self._rows = table_rows(snapshot, order, self._tail_text)
        self.matches = matching(self._rows, order.search, self._tail_text) if order.search else NO_ROWS
        if self.tags:
            self.tags = frozenset(living(snapshot, self.tags).values())
        if order.folded:
            requests = {row.request for row in snapshot.sequences}
            self.order = replace(order, folded=order.folded & requests)
        self._check_selection(snapshot)

    def _notice_the_end(self, status: Status) -> None:
        """Say once that the session has failed or ended."""
        if status.phase is Phase.FAILED and not self.failed:
            from kvtop.ui.dialogs.confirm import Failure

            self.failed = True
            self.push_screen(Failure(visible_lines(status.message or "The session failed without a word.")))
        if status.phase is Phase.ENDED and not self._ended:
            self.tell(
                f"{visible(status.message) or 'The workload is done'}: this is the last picture, q quits"
            )
        self._ended = status.phase is Phase.ENDED

    def _beat(self, status: Status) -> int:
        """Moves a few times a second while something loads for a time that nobody knows."""
        waiting = status.phase is Phase.LOADING and status.progress is None
        return round(self.ticks * 5 / self.fps) if waiting else 0

    def view(self, status: Status) -> View:
        """What the parts are drawn from."""
        return View(
            status=status,
            palette=self.palette,
            decode=self._decode,
            snapshot=self._snapshot,
            rows=self._rows,
            selection=self.selection,
            title=self._subject,
            memory=self._memory,
            history=self._history,
            beat=self._beat(status),
            order=self.order,
            tags=self.tags,
            matches=self.matches,
            columns=usable_columns(self.settings),
            no_color=self.no_color,
            lit=self._lit(),
            clock=self._clock(),
            glyphs=self.glyphs,
            flashing=self.settings.flashes,
        )

    def _lit(self) -> frozenset[RowKey]:
        """Rows whose blocks stay bright."""
        row = self.selection.row
        return self.tags | self.matches | (frozenset((row,)) if row is not None else frozenset())

    def _decode(self, token_ids: Sequence[int]) -> str:
        return visible(self.session.text(token_ids))

    def _texts_due(self, status: Status, drawn: tuple[Any, ...]) -> bool:
        """Whether figures are drawn in this frame: at once after a change of state or selection."""
        if status.phase is not Phase.RUNNING or not self._drawn or self._drawn[1:] != drawn[1:]:
            return True
        return self.ticks - self._texts_tick >= self.fps / TEXTS_PER_SECOND

    def _sample(self, status: Status, snapshot: Snapshot | None) -> None:
        """Twice a second the history's figures, once a second the memory's."""
        due = self.ticks % max(1, round(self.fps / 2)) == 0
        if due and snapshot is not None and snapshot is not self._snapshot:
            self._history.add(snapshot, status)
        if self._probe_wanted and self.ticks % max(1, round(self.fps)) == 1:
            if self._probe is None and snapshot is not None:
                self._probe = MachineProbe(gpu=(snapshot.source.device or "").startswith("cuda"))
            if self._probe is not None:
                self._memory = self._probe.read()

    def _check_selection(self, snapshot: Snapshot) -> None:
        """Let go of a row that has left or is filtered out. A group that shrank to one sequence becomes that
        sequence, and a branch that is folded away its group."""
        key = self.selection.row
        if key is None or any(row.key == key for row in self._rows):
            return
        alive = living(snapshot, (key,)).get(key)
        row = row_for(self._rows, alive) if alive is not None else None
        self.select(Selection(row.key if row is not None else None, self.selection.block), draw=False)
        # The answer to a command is not covered by its consequence, nor what is being typed.
        if row is None and not self.notice_shown and self.screen is self.dashboard:
            self.tell(f"{key.name} has left" if alive is None else f"{key.name} is filtered out now")

    def select(self, selection: Selection, *, draw: bool = True) -> None:
        """Select a row and a block, and ask the session for their details."""
        self.selection = selection
        row = self._sequence_of(selection.row)
        self.session.select(
            block=selection.block,
            sequence=row.id if row is not None else None,
            prefixes="prefixes" in self.wants,
        )
        if draw:
            self.refresh_view()

    def set_order(self, order: TableOrder) -> None:
        """Sort, filter or fold the table anew."""
        self.order = order
        self.refresh_view(force=True)

    def set_tags(self, tags: frozenset[RowKey]) -> None:
        """Tag these rows and no others."""
        self.tags = tags
        self.refresh_view(force=True)

    def set_wants(self, wants: frozenset[str]) -> None:
        """Ask the session for what the panels show from now on."""
        self.wants = wants
        self.select(self.selection)

    def perform(self, intent: Intent) -> None:
        """Do what a panel asks for, before this returns."""
        match intent:
            case Select(selection=selection):
                self.select(selection)
            case Redraw():
                self.dashboard.draw_again()
            case SetOrder(order=order):
                self.set_order(order)
            case SetTags(tags=tags):
                self.set_tags(tags)
            case Tell(text=text, warning=warning, unless_shown=panel):
                if panel not in self.dashboard.regions(self.size):
                    self.tell(text, warning=warning)
            case Focus(panel=panel):
                self.dashboard.focus_panel(panel)
            case Do(action=action):
                self.call_next(self.do, self.action_of(action))
            case Watch(wants=wants):
                self.set_wants(wants)
            case AskLine() | AskChoice():
                self._ask(intent)

    def _ask(self, ask: AskLine | AskChoice) -> None:
        """Open a line of input or a list for a panel, which has the keys from then on."""
        self.dashboard.focus_panel(ask.panel)
        if isinstance(ask, AskLine):
            from kvtop.ui.dialogs.line_input import LineInput, LineKey

            keys = tuple(LineKey.of(self.action_of(key.action), key.word, key.do) for key in ask.extra)
            self.push_screen(LineInput(ask, self.palette, keys))
        elif (view := self.dashboard.view) is not None:
            from kvtop.ui.dialogs.choose import Choose

            def beside() -> Region:
                return self.dashboard.regions(self.size).get(ask.panel, NULL_REGION)

            self.push_screen(Choose(ask, view, beside), ask.chosen)

    def selected_sequence(self) -> SequenceRow | None:
        """The sequence that the cursor is on; of a group the first."""
        return self._sequence_of(self.selection.row)

    def tagged_sequences(self) -> list[SequenceRow]:
        """One sequence of every request that has a tag, by request; also of rows that a filter hides."""
        tagged = {key.request for key in self.tags}
        rows = self._snapshot.sequences if self._snapshot is not None else ()
        found = {row.request: row for row in rows if row.request in tagged}
        return [found[request] for request in sorted(found)]

    def _sequence_of(self, key: RowKey | None) -> SequenceRow | None:
        """The sequence of a row; for a group its first."""
        row = next((row for row in self._rows if row.key == key), None)
        return row.sequences[0] if row is not None else None


def _shown(status: Status) -> tuple[Any, ...]:
    """What of a status is on the screen."""
    return status.phase, status.message, status.progress, status.speed, int(status.elapsed_seconds)


def visible_lines(text: str) -> str:
    """`text` with its line breaks kept and everything else made visible."""
    return "\n".join(visible(line) for line in text.splitlines())
