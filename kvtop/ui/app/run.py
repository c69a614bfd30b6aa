"""A session on the screen, from its first frame until the person leaves."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from kvtop.config import Settings, load_state, save_state
from kvtop.session.session import Session
from kvtop.ui.app.app import KvtopApp
from kvtop.ui.draw.glyphs import BLOCK, Glyphs
from kvtop.ui.draw.palette import Palette
from kvtop.ui.draw.themes import ThemeWatcher
from kvtop.ui.frame.columns import column_problems
from kvtop.ui.terminal.guard import Guard
from kvtop.ui.terminal.paste import install


def run_app(
    session: Session,
    *,
    title: str = "",
    fps: float = 20,
    palette: Palette | None = None,
    folder: Path | None = None,
    mouse: bool = True,
    glyphs: Glyphs = BLOCK,
    settings: Settings | None = None,
    problems: Sequence[str] = (),
    keep_state: bool = False,
) -> int:
    """Show a session until the person leaves; the session is closed afterwards.

    `title` names the model before the first snapshot does. `problems` are what is wrong with the settings'
    file; `keep_state` brings preset, borders and order from one start to the next. Returns the exit code: 0
    left, 1 the session failed, 128 + n after signal n.
    """
    install()
    wanted = settings if settings is not None else Settings()
    state = load_state(os.environ) if keep_state else None
    app = KvtopApp(
        session,
        title=title,
        fps=fps,
        palette=palette,
        folder=folder,
        settings=wanted,
        state=state,
        glyphs=glyphs,
    )
    app.problems += [*problems, *column_problems(wanted)]
    if not app.no_color:
        app.watcher = ThemeWatcher(wanted.theme)
    with Guard() as guard:
        app.guard = guard
        try:
            app.run(mouse=mouse)
        finally:
            session.close()
    if keep_state and app.state_changed and (problem := save_state(app.state, os.environ)):
        print(f"kvtop: {problem}", file=sys.stderr)
    return app.return_code or 0
