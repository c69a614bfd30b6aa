"""What keys do: commands to the session, dialogs, notices, pictures."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App

from kvtop.config import Settings
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
    StepOnce,
)
from kvtop.timeline.snapshot import SequenceRow
from kvtop.ui.commands.actions import BY_ID, Action, available, remapped
from kvtop.ui.commands.intents import Intent
from kvtop.ui.dashboard.registry import PANELS
from kvtop.ui.dashboard.screen import Dashboard
from kvtop.ui.draw.palette import Palette
from kvtop.ui.draw.text import visible

if TYPE_CHECKING:
    from kvtop.ui.draw.png import Picture

SPEEDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, float("inf"))
"""Steps a second; the last is unbounded, which a session calls 0."""
NOTICE_SECONDS = 4


class CommandApp(App[None]):
    """The app's actions. What is drawn, and when, is `KvtopApp`'s."""

    def __init__(
        self, session: Session, palette: Palette, *, fps: float, folder: Path, settings: Settings
    ) -> None:
        self.palette = palette
        super().__init__()
        self.session = session
        self.fps = fps
        self.folder = folder
        self.settings = settings
        actions, problems = remapped(settings.keys, settings.places)
        self.problems: list[str] = problems
        """What is wrong with the settings, to be told at the start."""
        self.actions = available(session.supports, readonly=settings.readonly, actions=actions)
        self._by_id = {action.id: action for action in self.actions}
        self.dashboard = Dashboard(self.actions, self.perform)
        if settings.readonly:
            taken = [action for action in available(session.supports, actions=actions) if action.command]
            self.dashboard.explain_keys(taken, "app.read_only")
        self.failed = False
        self.ticks = 0
        self._notices: list[Notice] = []
        self._notice_until = 0

    @abstractmethod
    def refresh_view(self, *, force: bool = False) -> None:
        """Draw the newest snapshot, if anything differs from what is on the screen."""

    @abstractmethod
    def selected_sequence(self) -> SequenceRow | None:
        """The sequence that the cursor is on; of a group the first."""

    @abstractmethod
    def tagged_sequences(self) -> list[SequenceRow]:
        """One sequence of every request that has a tag, by request."""

    @abstractmethod
    def perform(self, intent: Intent) -> None:
        """Do what a panel asks for, before this returns."""

    # -- notices ------------------------------------------------------------------------------------------

    def tell(self, text: str, *, warning: bool = False) -> None:
        """Show a line to the person at the keyboard."""
        self._notices.append(Notice(text, warning))
        self._show_notice()

    @property
    def notice_shown(self) -> bool:
        """Whether a notice covers the key bar."""
        return self.ticks < self._notice_until

    def take_notices(self) -> None:
        """Show the newest of the session's answers; take it away when it has been read."""
        new = self.session.notices()
        self._notices += new
        if new or self.ticks >= self._notice_until:
            self._show_notice()

    def _show_notice(self) -> None:
        """Show the newest notice, or none when it has been read."""
        if self._notices:
            self.dashboard.tell(self._notices[-1])
            self._notices.clear()
            self._notice_until = self.ticks + max(1, round(self.fps * NOTICE_SECONDS))
        elif self.dashboard.key_bar.notice is not None and self.ticks >= self._notice_until:
            self.dashboard.tell(None)

    # -- actions ------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A key whose command the session does not take is not bound; a screen too small only quits."""
        if action not in BY_ID:
            return True
        if self.dashboard.too_small and action not in ("quit", "suspend_process"):
            return False
        return action in self._by_id

    def action_of(self, name: str) -> Action:
        """An action by its id. Raises KeyError for one that this session does not have."""
        return self._by_id[name]

    async def action_quit(self) -> None:
        """Leave. 1 when the session failed."""
        self.exit(return_code=1 if self.failed else 0)

    # Dialogs and the widgets that they need are imported when they are opened: the first frame comes sooner.

    def action_help(self) -> None:
        from kvtop.ui.commands.help import pages
        from kvtop.ui.dialogs.help import Help

        words = tuple(entry for spec in PANELS for entry in spec.help)
        self.push_screen(Help(pages(self.actions, words), self.palette))

    def action_palette(self) -> None:
        """Textual's command palette over the table of actions."""
        from kvtop.ui.dialogs.finder import Finder

        if not any(isinstance(screen, Finder) for screen in self.screen_stack):
            self.push_screen(Finder(self.actions, self.do))

    async def do(self, action: Action) -> None:
        """Do what the key of an action does, on the dashboard."""
        await self.run_action(action.binding, self.dashboard)

    def action_read_only(self, name: str) -> None:
        """Say why a key does nothing."""
        self.tell(f"Read only: {name} would change the generator", warning=True)

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
        now = speed or SPEEDS[-1]
        further = [value for value in SPEEDS if (value > now if step > 0 else value < now)]
        if further:
            chosen = further[0] if step > 0 else further[-1]
            self.session.send(SetSpeed(0.0 if chosen == SPEEDS[-1] else chosen))

    def action_add(self) -> None:
        from kvtop.ui.dialogs.add_request import AddRequestForm

        def added(request: AddRequest | None) -> None:
            if request is not None:
                self.session.send(request)

        self.push_screen(AddRequestForm(), added)

    def action_burst(self) -> None:
        self.session.send(AddBurst())

    def _selected(self, what: str) -> SequenceRow | None:
        """The selected sequence, or None after saying that there is none."""
        sequence = self.selected_sequence()
        if sequence is None:
            self.tell(f"Select a sequence to {what}: Tab to the table, then the arrows", warning=True)
        return sequence

    def _send_on_selected(self, what: str, make: Callable[[int], Command]) -> None:
        """Send a command on the selected sequence."""
        if (sequence := self._selected(what)) is not None:
            self.session.send(make(sequence.id))

    def action_fork(self) -> None:
        self._send_on_selected("fork", Fork)

    def action_preempt(self) -> None:
        self._send_on_selected("preempt", partial(Preempt, mode=PreemptionMode.RECOMPUTE))

    def action_swap(self) -> None:
        self._send_on_selected("swap out", partial(Preempt, mode=PreemptionMode.SWAP))

    def action_abort(self) -> None:
        """Ask, by id, and act on these ids, whatever the cursor is on by then: the requests of all tagged
        rows, or without a tag that of the selected one."""
        from kvtop.ui.dialogs.confirm import Confirm

        sequences = self.tagged_sequences()
        if not sequences:
            sequence = self._selected("abort")
            if sequence is None:
                return
            sequences = [sequence]

        def answered(yes: bool | None) -> None:
            for sequence in sequences if yes else ():
                self.session.send(Abort(sequence.id))

        if not self.settings.confirm_abort:
            answered(True)
            return
        self.push_screen(Confirm("Abort", abort_question(sequences)), answered)

    def action_redraw(self) -> None:
        self.refresh_view(force=True)
        self.screen.refresh(layout=True)

    def action_screenshot(self, filename: str | None = None, path: str | None = None) -> None:
        """Save the screen as SVG and PNG, and say under which names."""
        from kvtop.ui.draw.png import Picture

        folder = Path(path) if path else self.folder
        self.run_worker(self._save(Picture.of(self), folder, filename or _unused(folder, "kvtop")))

    async def _save(self, picture: Picture, folder: Path, stem: str) -> None:
        """Draw and write both files beside the screen's thread."""
        from kvtop.ui.draw.png import PictureError

        saved = []
        try:
            for suffix, save in ((".svg", picture.save_svg), (".png", picture.save_png)):
                await asyncio.to_thread(save, folder / f"{stem}{suffix}")
                saved.append(f"{stem}{suffix}")
        except (OSError, PictureError) as error:
            self.tell(f"{' '.join([*saved, 'saved;']) if saved else 'Not saved:'} {error}", warning=True)
            return
        self.tell(f"Saved {' and '.join(saved)}")


def abort_question(sequences: Sequence[SequenceRow]) -> str:
    """What is asked before requests are aborted: all of them by their ids."""
    if len(sequences) == 1:
        label = f" ({visible(sequences[0].label)})" if sequences[0].label else ""
        return f"Abort request {sequences[0].request}{label} and free its blocks?"
    *first, last = [str(sequence.request) for sequence in sequences]
    return f"Abort requests {', '.join(first)} and {last} and free their blocks?"


def _unused(folder: Path, stem: str) -> str:
    """`stem`, with a number when a picture of that name exists."""
    candidate, number = stem, 1
    while any((folder / f"{candidate}{suffix}").exists() for suffix in (".svg", ".png")):
        number += 1
        candidate = f"{stem}-{number}"
    return candidate
