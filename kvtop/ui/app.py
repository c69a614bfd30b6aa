"""The dashboard's app: polls a session, draws what changed, and turns keys into commands."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from textual.app import App

from kvtop.memory.events import PreemptionMode
from kvtop.session.session import (
    Abort,
    AddBurst,
    AddRequest,
    Command,
    Fork,
    Notice,
    Pause,
    Phase,
    Preempt,
    Resume,
    Session,
    SetSpeed,
    Status,
    StepOnce,
)
from kvtop.timeline.snapshot import SequenceRow, Snapshot
from kvtop.ui.actions import BY_ID, available
from kvtop.ui.palette import Palette, load_palette
from kvtop.ui.rows import RowKey, TableRow, table_rows
from kvtop.ui.screens.add_request import AddRequestForm
from kvtop.ui.screens.dialogs import Confirm, Failure
from kvtop.ui.screens.help import Help
from kvtop.ui.screens.overview import Overview
from kvtop.ui.system import SystemMemory, SystemProbe
from kvtop.ui.terminal import Guard
from kvtop.ui.text import visible
from kvtop.ui.view import History, Selection, View

SPEEDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 0.0)
"""Steps a second; 0 is unbounded."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
TEXTS_PER_SECOND = 5
"""How often figures change on the screen while the generator runs: faster than that nobody reads them."""
NOTICE_SECONDS = 4


class KvtopApp(App[None]):
    """One session on the screen.

    `fps` frames a second are polled. A frame in which nothing changed draws nothing, and one that the
    terminal has not yet taken is not followed by another. `folder` is where screenshots go.
    """

    CSS_PATH = "kvtop.tcss"
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
    ) -> None:
        self.palette = palette if palette is not None else load_palette()
        super().__init__()
        self.session = session
        self.title = title or "kvtop"
        self.fps = fps
        self.folder = folder if folder is not None else Path()
        self.guard: Guard | None = None
        self.selection = Selection()
        self.actions = available(session.supports)
        self.overview = Overview(self.actions)
        self._subject = title
        self._probe_wanted = probe
        self._probe: SystemProbe | None = None
        self._memory = SystemMemory()
        self._rates, self._used = History(), History()
        self._snapshot: Snapshot | None = None
        self._rows: list[TableRow] = []
        self._drawn: tuple[Any, ...] = ()
        self._texts_pending = False
        self._ticks = 0
        self._texts_tick = 0
        self._notices: list[Notice] = []
        self._notice_until = 0
        self._failed = False

    # -- life ---------------------------------------------------------------------------------------------

    def on_load(self) -> None:
        """Signals leave through the front door: the terminal is put back before the process ends."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            try:
                loop.add_signal_handler(number, self._signalled, int(number))
            except (NotImplementedError, RuntimeError, ValueError):
                return  # no signals here: another platform, or not the main thread

    def _signalled(self, number: int) -> None:
        """Leave because of a signal."""
        if self.guard is not None:
            self.guard.arm(number)
        self.exit(return_code=128 + number)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The palette's colours that the style sheet names, before the theme is registered too."""
        return self.palette.textual_theme().variables

    def get_default_screen(self) -> Overview:
        """The overview is the only screen below the dialogs."""
        return self.overview

    def on_mount(self) -> None:
        """Draw the skeleton, then let the session begin: the first frame waits for no model."""
        self.register_theme(self.palette.textual_theme())
        self.theme = f"kvtop-{self.palette.name}"
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        """Draw the first frame and start the session and the clock."""
        self.refresh_view(force=True)
        self.session.start()
        self.set_interval(1 / self.fps, self._tick)

    def _tick(self) -> None:
        """Poll the session once."""
        self._ticks += 1
        if self._terminal_lost():
            self.exit(return_code=128 + signal.SIGHUP)
        elif not self._terminal_busy():
            self.refresh_view()

    def _terminal_busy(self) -> bool:
        """Whether the last frame is still on its way to the terminal. Textual blocks when 30 are queued."""
        writer = getattr(self._driver, "_writer_thread", None)
        return writer is not None and not writer._queue.empty()

    def _terminal_lost(self) -> bool:
        """Whether the thread that writes to the terminal has died, as it does when the terminal is closed."""
        writer = getattr(self._driver, "_writer_thread", None)
        return writer is not None and not writer.is_alive()

    # -- drawing ------------------------------------------------------------------------------------------

    def refresh_view(self, *, force: bool = False) -> None:
        """Take the newest snapshot and draw it, if anything differs from what is on the screen."""
        status, snapshot = self.session.status, self.session.snapshot()
        self._take_notices()
        self._sample(snapshot)
        if status.phase is Phase.FAILED and not self._failed:
            self._failed = True
            self.push_screen(Failure(visible_lines(status.message or "The session failed without a word.")))
        drawn = (snapshot, self.selection, self._memory, _without_fractions(status))
        same = len(self._drawn) == len(drawn) and self._drawn[0] is snapshot and self._drawn[1:] == drawn[1:]
        if same and not force and not self._texts_pending:
            return
        texts = force or self._texts_due(status, drawn)
        self._texts_pending = not texts
        self._drawn, self._snapshot = drawn, snapshot
        if texts:
            self._texts_tick = self._ticks
            self._rows = table_rows(snapshot) if snapshot is not None else []
            self._check_selection()
        self.overview.draw(self.view(status), texts=texts)

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
            rates=self._rates,
            used=self._used,
        )

    def _decode(self, token_ids: Sequence[int]) -> str:
        return visible(self.session.text(token_ids))

    def _texts_due(self, status: Status, drawn: tuple[Any, ...]) -> bool:
        """Whether figures are drawn in this frame: at once after a change of state or selection."""
        if status.phase is not Phase.RUNNING or not self._drawn or self._drawn[1:] != drawn[1:]:
            return True
        return self._ticks - self._texts_tick >= self.fps / TEXTS_PER_SECOND

    def _sample(self, snapshot: Snapshot | None) -> None:
        """Twice a second the sparklines' figures, once a second the memory's."""
        if snapshot is not None and self._ticks % max(1, round(self.fps / 2)) == 0:
            if self._snapshot is not snapshot or not self._drawn:
                figures = snapshot.figures
                if figures is not None and figures.tokens_per_second is not None:
                    self._rates.add(figures.tokens_per_second)
                self._used.add(snapshot.counters.used_blocks)
        if self._probe_wanted and self._ticks % max(1, round(self.fps)) == 1:
            if self._probe is None:
                device = snapshot.source.device if snapshot is not None else None
                if device is None:
                    return
                self._probe = SystemProbe(gpu=device.startswith("cuda"))
            self._memory = self._probe.read()

    def _check_selection(self) -> None:
        """Let go of a row that has left; a group that shrank to one sequence becomes that sequence."""
        key = self.selection.row
        if key is None or any(row.key == key for row in self._rows):
            return
        left = [row.key for row in self._rows if row.key.request == key.request]
        if key.branch is None and len(left) == 1:
            self.select(Selection(left[0], self.selection.block), draw=False)
            return
        name = key.request if not key.branch else f"{key.request}.{key.branch}"
        if self._ticks >= self._notice_until:  # the answer to a command is not covered by its consequence
            self.tell(f"{name} has left")
        self.select(Selection(None, self.selection.block), draw=False)

    def select(self, selection: Selection, *, draw: bool = True) -> None:
        """Select a row and a block, and ask the session for their details."""
        self.selection = selection
        row = self._sequence_of(selection.row)
        self.session.select(block=selection.block, sequence=row.id if row is not None else None)
        if draw:
            self.refresh_view()

    def _sequence_of(self, key: RowKey | None) -> SequenceRow | None:
        """The sequence of a row; for a group its first."""
        row = next((row for row in self._rows if row.key == key), None)
        return row.sequences[0] if row is not None else None

    # -- notices ------------------------------------------------------------------------------------------

    def tell(self, text: str, *, warning: bool = False) -> None:
        """Show a line to the person at the keyboard."""
        self._notices.append(Notice(text, warning))
        self._show_notice()

    def _take_notices(self) -> None:
        """Show the session's answers one after the other."""
        new = self.session.notices()
        self._notices += new
        if new or self._ticks >= self._notice_until:
            self._show_notice()

    def _show_notice(self) -> None:
        """Show the newest notice, or none when it has been read."""
        if self._notices:
            self.overview.tell(self._notices[-1])
            self._notices.clear()
            self._notice_until = self._ticks + round(self.fps * NOTICE_SECONDS)
        elif self.overview.key_bar.notice is not None and self._ticks >= self._notice_until:
            self.overview.tell(None)

    # -- actions ------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A key whose command the session does not take is not bound; a screen too small only quits."""
        known = BY_ID.get(action)
        if known is None:
            return True
        if self.overview.too_small and action not in ("quit", "suspend_process"):
            return False
        return known in self.actions

    async def action_quit(self) -> None:
        """Leave. 1 when the session failed."""
        self.exit(return_code=1 if self._failed else 0)

    def action_help(self) -> None:
        self.push_screen(Help(self.actions, self.palette))

    def action_pause(self) -> None:
        paused = self.session.status.phase is Phase.PAUSED
        self.session.send(Resume() if paused else Pause())

    def action_step(self) -> None:
        self.session.send(StepOnce())

    def action_slower(self) -> None:
        self._change_speed(-1)

    def action_faster(self) -> None:
        self._change_speed(1)

    def _change_speed(self, step: int) -> None:
        """The next speed of the ladder; one that is not on it goes to its neighbour."""
        speed = self.session.status.speed
        if speed is None:
            return
        ladder = [*SPEEDS[:-1], float("inf")]
        now = speed or float("inf")
        above = [place for place, value in enumerate(ladder) if (value > now if step > 0 else value < now)]
        if above:
            chosen = ladder[above[0] if step > 0 else above[-1]]
            self.session.send(SetSpeed(0.0 if chosen == float("inf") else chosen))

    def action_add(self) -> None:
        def added(request: AddRequest | None) -> None:
            if request is not None:
                self.session.send(request)

        self.push_screen(AddRequestForm(), added)

    def action_burst(self) -> None:
        self.session.send(AddBurst())

    def _selected(self, what: str) -> SequenceRow | None:
        """The selected sequence, or None after saying that there is none."""
        sequence = self._sequence_of(self.selection.row)
        if sequence is None:
            self.tell(f"Select a sequence to {what}: Tab to the table, then the arrows", warning=True)
        return sequence

    def _send_on_selected(self, what: str, make: Any) -> None:
        """Send a command on the selected sequence."""
        if (sequence := self._selected(what)) is not None:
            command: Command = make(sequence.id)
            self.session.send(command)

    def action_fork(self) -> None:
        self._send_on_selected("fork", Fork)

    def action_preempt(self) -> None:
        self._send_on_selected("preempt", partial(Preempt, mode=PreemptionMode.RECOMPUTE))

    def action_swap(self) -> None:
        self._send_on_selected("swap out", partial(Preempt, mode=PreemptionMode.SWAP))

    def action_abort(self) -> None:
        """Ask, by id, and act on that id, whatever the cursor is on by then."""
        sequence = self._selected("abort")
        if sequence is None:
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self.session.send(Abort(sequence.id))

        label = f" ({visible(sequence.label)})" if sequence.label else ""
        self.push_screen(Confirm("Abort", f"Abort request {sequence.request}{label} and free its blocks?"), answered)

    def action_redraw(self) -> None:
        self.refresh_view(force=True)
        self.screen.refresh(layout=True)

    async def action_screenshot(self, filename: str | None = None, path: str | None = None) -> None:
        """Save the screen as SVG and PNG, and say under which names."""
        from kvtop.ui.png import Picture, PictureError

        step = self._snapshot.step if self._snapshot is not None else 0
        base = Path(path) if path else self.folder
        stem = filename or _unused(base, f"kvtop-step{step}")
        picture = Picture.of(self)
        saved = []
        try:
            for suffix, save in ((".svg", picture.save_svg), (".png", picture.save_png)):
                await asyncio.to_thread(save, base / f"{stem}{suffix}")
                saved.append(f"{stem}{suffix}")
        except (OSError, PictureError) as error:
            self.tell(f"{' '.join([*saved, 'saved;']) if saved else 'Not saved:'} {error}", warning=True)
            return
        self.tell(f"Saved {' and '.join(saved)}")


def _unused(folder: Path, stem: str) -> str:
    """`stem`, with a number when a picture of that name exists."""
    candidate, number = stem, 1
    while any((folder / f"{candidate}{suffix}").exists() for suffix in (".svg", ".png")):
        number += 1
        candidate = f"{stem}-{number}"
    return candidate


def _without_fractions(status: Status) -> tuple[Any, ...]:
    """What of a status is on the screen."""
    return status.phase, status.message, status.progress, status.speed, int(status.elapsed_seconds)


def visible_lines(text: str) -> str:
    """`text` with its line breaks kept and everything else made visible."""
    return "\n".join(visible(line) for line in text.splitlines())


def run_app(
    session: Session,
    *,
    title: str = "",
    fps: float = 20,
    palette: Palette | None = None,
    folder: Path | None = None,
    mouse: bool = True,
) -> int:
    """Show a session until the person leaves; the session is closed afterwards.

    `title` names the model before the first snapshot does. Returns the exit code: 0 left, 1 the session
    failed, 128 + n after signal n.
    """
    app = KvtopApp(session, title=title, fps=fps, palette=palette, folder=folder)
    with Guard() as guard:
        app.guard = guard
        try:
            app.run(mouse=mouse)
        finally:
            session.close()
    return app.return_code or 0
