"""New settings for a running dashboard: what takes effect at once, and the dialog to choose them."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from kvtop.config import Settings, config_file, load
from kvtop.ui.actions import remapped
from kvtop.ui.glyphs import choose_glyphs
from kvtop.ui.palette import Palette, ThemeError, load_palette
from kvtop.ui.themes import ThemeWatcher, theme_problems, themes

if TYPE_CHECKING:
    from kvtop.ui.app import KvtopApp


def apply_settings(app: KvtopApp, settings: Settings) -> Palette:
    """Go on with these settings, as far as they take effect before the next start: theme, characters,
    flashes, columns, and whether an abort asks. Returns the colours that are drawn then.

    A theme that cannot be used is told, and the colours stay as they are.
    """
    before, app.settings = app.settings, settings
    app.dashboard.table.columns = settings.columns
    app.glyphs = choose_glyphs(settings.glyphs, os.environ)
    if settings.theme != before.theme and not app.no_color:
        app.watcher = ThemeWatcher(settings.theme)
        try:
            app.set_palette(load_palette(settings.theme))
        except ThemeError as error:
            app.tell(str(error).splitlines()[0], warning=True)
    app.refresh_view(force=True)
    if settings.glyphs != before.glyphs:  # the lines are the same, what becomes of them is not
        for screen in app.screen_stack:
            screen.refresh(layout=True)
    return app.palette


def file_problems(settings: Settings) -> list[str]:
    """What is wrong with a file of settings beyond what reading it finds: a theme that cannot be used,
    actions and keys that there are not. `settings` are those of the file alone."""
    return theme_problems(settings) + remapped(settings.keys, settings.places)[1]


def open_setup(app: KvtopApp) -> None:
    """Let the person change settings; what is saved is told, with the file."""
    from kvtop.ui.screens.setup import Setup  # seldom used, and the first frame waits for imports

    path = config_file(os.environ)

    def closed(settings: Settings | None) -> None:
        if settings is not None:
            app.tell(f"Saved in {path}")

    file, problems = load(os.environ, path)
    app.push_screen(
        Setup(
            app.settings,
            themes(),
            path,
            app.palette,
            preview=partial(apply_settings, app),
            actions=app.actions,
            problems=[*problems, *file_problems(file)],
        ),
        closed,
    )
