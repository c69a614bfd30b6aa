"""New settings for a running dashboard: what takes effect at once, and the dialog to choose them."""

from __future__ import annotations

import os

from kvtop.config import Settings, config_file, load
from kvtop.ui.app.terminal_app import TerminalApp
from kvtop.ui.commands.actions import remapped
from kvtop.ui.draw.glyphs import choose_glyphs
from kvtop.ui.draw.palette import Palette, ThemeError, load_palette
from kvtop.ui.draw.themes import ThemeWatcher, theme_problems, themes
from kvtop.ui.frame.columns import column_problems


class SettingsApp(TerminalApp):
    """An app whose settings can be changed while it runs."""

    def apply_settings(self, settings: Settings) -> Palette:
        """Go on with these settings, as far as they take effect before the next start: theme, characters,
        flashes, columns, and whether an abort asks. Returns the colours that are drawn then.

        A theme that cannot be used is told, and the colours stay as they are.
        """
        before, self.settings = self.settings, settings
        self.glyphs = choose_glyphs(settings.glyphs, os.environ)
        if settings.theme != before.theme and not self.no_color:
            self.watcher = ThemeWatcher(settings.theme)
            try:
                self.set_palette(load_palette(settings.theme))
            except ThemeError as error:
                self.tell(str(error).splitlines()[0], warning=True)
        self.refresh_view(force=True)
        if settings.glyphs != before.glyphs:  # the lines are the same, what becomes of them is not
            for screen in self.screen_stack:
                screen.refresh(layout=True)
        return self.palette

    def action_setup(self) -> None:
        """Let the person change settings; what is saved is told, with the file."""
        from kvtop.ui.dialogs.setup import Setup  # seldom used, and the first frame waits for imports

        path = config_file(os.environ)

        def closed(settings: Settings | None) -> None:
            if settings is not None:
                self.tell(f"Saved in {path}")

        file, problems = load(os.environ, path)
        self.push_screen(
            Setup(
                self.settings,
                themes(),
                path,
                self.palette,
                preview=self.apply_settings,
                actions=self.actions,
                problems=[*problems, *file_problems(file)],
                check=file_problems,
            ),
            closed,
        )


def file_problems(settings: Settings) -> list[str]:
    """What is wrong with a file of settings beyond what reading it finds: a theme that cannot be used,
    columns, actions and keys that there are not. `settings` are those of the file alone."""
    return theme_problems(settings) + column_problems(settings) + remapped(settings.keys, settings.places)[1]
