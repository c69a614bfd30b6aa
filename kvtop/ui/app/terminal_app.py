"""The app and its terminal: signals, suspending, a terminal that is slow or gone, colours and characters."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

from textual.filter import LineFilter

from kvtop.config import Settings
from kvtop.session.session import Session
from kvtop.ui.app.effects import CommandApp
from kvtop.ui.draw.filters import line_filters, without_greys
from kvtop.ui.draw.glyphs import BLOCK, Glyphs
from kvtop.ui.draw.palette import Palette
from kvtop.ui.draw.themes import ThemeWatcher
from kvtop.ui.terminal.guard import Guard

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class TerminalApp(CommandApp):
    """What the app does for its terminal, whatever it shows."""

    def __init__(
        self, session: Session, palette: Palette, *, fps: float, folder: Path, settings: Settings
    ) -> None:
        self.glyphs: Glyphs = BLOCK
        super().__init__(session, palette, fps=fps, folder=folder, settings=settings)
        self.guard: Guard | None = None
        self.watcher: ThemeWatcher | None = None
        """Looks at the theme's file, where it may change."""

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

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What is done to every strip: ours for NO_COLOR and for ASCII, in the place of Textual's."""
        own = line_filters(self.glyphs, self.no_color, self.palette.background)
        return [*without_greys(super().get_line_filters()), *own]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The palette's colours that the style sheet names, before the theme is registered too."""
        return self.palette.textual_theme().variables

    def resumed(self, _: object) -> None:
        """Draw everything on the terminal that a shell has used meanwhile."""
        self.action_redraw()

    def use_theme(self) -> None:
        """Have Textual's own widgets drawn in the palette's colours."""
        theme = self.palette.textual_theme()
        self.register_theme(theme)
        if self.theme == theme.name:  # read again: the name has not changed
            self._watch_theme(theme.name)
        self.theme = theme.name

    def set_palette(self, palette: Palette) -> None:
        """Draw everything in these colours from now on."""
        self.palette = palette
        self.use_theme()
        self.refresh_view(force=True)

    def reread_theme(self) -> None:
        """Follow a change of the theme's file; what cannot be used is told, and the colours stay."""
        news = self.watcher.poll() if self.watcher is not None else None
        if isinstance(news, str):
            self.tell(f"Theme not changed: {news.splitlines()[0]}", warning=True)
        elif news is not None:
            self.set_palette(news)

    @property
    def terminal_busy(self) -> bool:
        """Whether the last frame is still on its way to the terminal. Textual blocks when 30 are queued."""
        writer = getattr(self._driver, "_writer_thread", None)
        return writer is not None and not writer._queue.empty()

    @property
    def terminal_lost(self) -> bool:
        """Whether the thread that writes to the terminal has died, as it does when the terminal is closed."""
        writer = getattr(self._driver, "_writer_thread", None)
        return writer is not None and not writer.is_alive()

    def _fatal_error(self) -> None:
        """A bug's traceback in full, without the values of a thousand blocks in every frame of it."""
        from rich.segment import Segments
        from rich.traceback import Traceback

        traceback = Traceback(show_locals=False, width=None)
        self._exit_renderables.append(Segments(self.console.render(traceback, self.console.options)))
        self._close_messages_no_wait()
