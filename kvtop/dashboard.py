"""Puts a dashboard together: settings, colours and characters for the terminal, and a session."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kvtop.options import RunOptions, UsageError

if TYPE_CHECKING:
    from kvtop.config import Settings
    from kvtop.ui.draw.palette import Palette
    from kvtop.workload.scenario import Scenario

DEFAULT_SPEED = 20.0


def run_dashboard(
    options: RunOptions, scenario: Scenario, *, speed: float | None, flags: Mapping[str, Any]
) -> int:
    """Show a live run until the person leaves; the exit code. `flags` are the settings that the command line
    has, None where it is silent. Raises UsageError without a terminal, or for a setting that cannot be used.
    """
    if lacking := _lacking_terminal():
        raise UsageError(f"the dashboard needs a terminal: {lacking}")
    from kvtop.config import SettingsError, load, resolve
    from kvtop.session.live import LiveSession
    from kvtop.ui.app.run import run_app
    from kvtop.ui.draw.glyphs import choose_glyphs
    from kvtop.ui.draw.themes import theme_problems
    from kvtop.ui.frame.columns import column_problems

    file, problems = load(os.environ)
    try:
        settings = resolve(file, os.environ, flags)
    except SettingsError as error:
        raise UsageError(str(error)) from error
    problems += theme_problems(file)
    if "columns" in settings.given and (wrong := column_problems(settings)):
        raise UsageError(f"KVTOP_COLUMNS: {wrong[0]}")
    _check_model(options.model)
    palette = choose_palette(settings, asked="theme" in settings.given, environ=os.environ)

    def build(progress: Any) -> Any:
        from kvtop.assembly import assemble  # on the engine's thread: the first frame does not wait for it

        return assemble(options, scenario, progress)

    session = LiveSession(build, speed=DEFAULT_SPEED if speed is None else speed)
    code = run_app(
        session,
        fps=settings.fps,
        palette=palette,
        mouse=settings.mouse,
        glyphs=choose_glyphs(settings.glyphs, os.environ),
        settings=settings,
        problems=problems,
        keep_state=True,
    )
    if code == 1 and session.failure is not None:
        code = _tell_failure(session.failure)
    if session.working:
        # It is loading a model or in the middle of a step: waiting for that would hold the shell up.
        sys.stdout.flush()
        os._exit(code)
    return code


def _check_model(model: str) -> None:
    """Find a model that is named as a file or folder before the screen opens. Raises ModelError."""
    if model in ("inside", "smollm2", "none"):
        return
    from kvtop.engine.hf.sources import find, looks_local

    if looks_local(model):
        find(model)


def _tell_failure(failure: Exception) -> int:
    """Say in the shell, too, why the session failed. 2 when the reason is the user's to mend, else 1."""
    from kvtop.errors import describe
    from kvtop.ui.draw.text import visible

    message = describe(failure)
    if message is None:
        traceback.print_exception(failure)
        return 1
    print(f"kvtop: {' '.join(visible(message).split())}", file=sys.stderr)
    return 2


def _lacking_terminal() -> str:
    """Why there is no terminal to draw on, and the remedy; empty when there is one. Textual draws on standard
    error; all three streams have to be it."""
    streams = {"standard input": sys.stdin, "standard output": sys.stdout, "standard error": sys.stderr}
    other = [name for name, stream in streams.items() if stream is None or not stream.isatty()]
    if other:
        *first, last = other
        names = f"{', '.join(first)} and {last} are" if first else f"{last} is"
        return f"{names} none; without one use `kvtop run --batch`"
    term = os.environ.get("TERM", "")
    if term in ("", "dumb"):
        said = 'TERM is "dumb"' if term else "TERM is not set"
        return f"{said}; set it to what yours is, as TERM=xterm-256color, or use `kvtop run --batch`"
    return ""


def choose_palette(settings: Settings, *, asked: bool, environ: Mapping[str, str]) -> Palette:
    """The colours that the settings name.

    A theme that cannot be used gives the default one when the file names it, whose mistake it is; when a flag
    or the environment `asked` for it, UsageError is raised. NO_COLOR is drawn from greys whatever the theme,
    unless it has none but greys itself.
    """
    from kvtop.ui.draw.palette import ThemeError, load_palette

    try:
        palette = load_palette(settings.theme)
    except ThemeError as error:
        lines = str(error).splitlines()
        if asked:
            more = f" ({len(lines) - 1} more)" if len(lines) > 1 else ""
            raise UsageError(f"{lines[0]}{more}") from error
        palette = load_palette()
    if environ.get("NO_COLOR") and not palette.mono:
        palette = load_palette("mono")
    return palette
