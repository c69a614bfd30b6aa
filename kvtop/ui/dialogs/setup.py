"""F2: a person's settings, with a preview, and saved only when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from pathlib import Path

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from kvtop.config import SaveError, Settings, save_settings
from kvtop.ui.commands.actions import Action
from kvtop.ui.dialogs.setup_rows import (
    Row,
    changed,
    column_rows,
    differences,
    key_rows,
    moved,
    setting_rows,
    toggled,
)
from kvtop.ui.draw.palette import Palette
from kvtop.ui.draw.text import fit, visible

PAGES = ("Settings", "Columns", "Keys")
HINTS = (
    "↑↓ ←→ change · Tab page · s saves · Esc leaves",
    "Space on/off · [ ] order · Tab page · s saves · Esc",
    "↑↓ scroll · Tab page · Esc leaves",
)
WIDTHS = ((19, 18), (14, 12), (18, 16))
"""Widths of a row's label and value on each page, in cells."""

Preview = Callable[[Settings], Palette]
"""Shows the screen with other settings, as far as they take effect at once, and gives the colours that it has
then. Called with the old settings when the dialog is left without saving."""


class Setup(ModalScreen[Settings | None]):
    """Pages of settings, columns and keys. Closes with the new settings once they are saved, with None when
    nothing is to change.

    `themes` are name, file and error of those that there are, as `kvtop.ui.draw.themes.themes` lists them;
    `problems` is what is wrong with the file at `path`, and
    `check` finds what of settings cannot be used. A file with a mistake is never written.
    """

    BINDINGS = [
        ("escape,q,f2", "leave", "Leave"),
        ("s,S,f10,ctrl+s", "save", "Save"),
        ("up", "move(-1)", "Up"),
        ("down", "move(1)", "Down"),
        ("pageup", "page(-1)", "Page up"),
        ("pagedown", "page(1)", "Page down"),
        ("home", "edge(-1)", "First"),
        ("end", "edge(1)", "Last"),
        ("left,minus", "change(-1)", "Previous value"),
        ("right,enter,space,plus", "change(1)", "Next value"),
        ("shift+up,ctrl+up,left_square_bracket", "shift(-1)", "Column back"),
        ("shift+down,ctrl+down,right_square_bracket", "shift(1)", "Column further"),
        ("tab", "turn(1)", "Next page"),
        ("shift+tab", "turn(-1)", "Previous page"),
    ]
    AUTO_FOCUS = ""

    def __init__(
        self,
        settings: Settings,
        themes: Sequence[tuple[str, Path, str | None]],
        path: Path,
        palette: Palette,
        *,
        preview: Preview,
        actions: Iterable[Action],
        problems: Sequence[str] = (),
        check: Callable[[Settings], list[str]] = lambda settings: [],
    ) -> None:
        super().__init__()
        self.before = self.settings = settings
        self.path = path
        self.palette = palette
        self.page = 0
        self.places = [0] * len(PAGES)
        """The cursor's row on every page."""
        self._message = f"Cannot be saved: {problems[0]}" if problems else ""
        self._names = [name for name, _, error in themes if error is None]
        self._broken = [error.splitlines()[0] for _, _, error in themes if error is not None]
        self._preview = preview
        self._check = check
        self._actions = tuple(actions)
        self._lines: list[int | None] = []
        """Which row stands on every line of the list."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide setup"):
            yield Static(id="setup-tabs", markup=False)
            with VerticalScroll(id="setup-scroll", can_focus=False):
                yield Static(id="setup-list", markup=False)
            yield Static(id="setup-help", markup=False)
            yield Static(id="setup-swatch", markup=False)
            yield Static(id="setup-message", markup=False)

    def on_mount(self) -> None:
        self.query_one(".dialog").border_title = "Setup"
        self._show()

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    # -- drawing ------------------------------------------------------------------------------------------

    @property
    def rows(self) -> list[Row]:
        """The rows of the page that is shown."""
        if self.page == 0:
            return setting_rows(self.settings, self._names)
        return column_rows(self.settings) if self.page == 1 else key_rows(self._actions)

    @property
    def place(self) -> int:
        """The cursor's row."""
        return self.places[self.page]

    @place.setter
    def place(self, place: int) -> None:
        self.places[self.page] = max(0, min(place, len(self.rows) - 1))

    def _show(self) -> None:
        tabs = Text()
        for number, title in enumerate(PAGES):
            here = number == self.page
            ink = self._ink("primary" if here else "muted")
            tabs.append(title, Style(color=ink, bold=here, underline=here)).append("   ")
        self.query_one("#setup-tabs", Static).update(tabs)
        scroll = self.query_one("#setup-scroll")
        self.query_one("#setup-list", Static).update(self._list(max(40, scroll.size.width - 1)))
        helped = self.rows[self.place].help if self.rows else ""
        self.query_one("#setup-help", Static).update(Text(helped, Style(color=self._ink("text"))))
        self.query_one("#setup-swatch", Static).update(self._swatch())
        self.query_one("#setup-message", Static).update(self._note())
        self.query_one(".dialog").border_subtitle = HINTS[self.page]
        line = self._lines.index(self.place) if self.place in self._lines else 0
        top, height = round(scroll.scroll_y), max(1, scroll.size.height)
        if line < top + 1 or line >= top + height:
            scroll.scroll_to(y=max(0, line - 1 if line < top + 1 else line - height + 1), animate=False)

    def _ink(self, key: str) -> str:
        return str(getattr(self.palette, key))

    def _list(self, width: int) -> Text:
        """The rows under the names of their sections."""
        text, self._lines = Text(no_wrap=True), []
        for place, row in enumerate(self.rows):
            if row.section:
                text.append(f"{row.section}\n", Style(color=self._ink("primary"), bold=True))
                self._lines.append(None)
            here = place == self.place
            ground = self._ink("row" if here else "raised")
            self._row(text, row, here, ground, width)
            self._lines.append(place)
        text.rstrip()
        return text

    def _row(self, text: Text, row: Row, here: bool, ground: str, width: int) -> None:
        """Append one row: label, value, and what it means."""
        label, value = WIDTHS[self.page]
        plain = Style(color=self._ink("text"), bgcolor=ground)
        muted = Style(color=self._ink("muted"), bgcolor=ground)
        strong = Style(color=self._ink("text" if row.on is False else "primary"), bgcolor=ground, bold=here)
        mark = {True: "[x] ", False: "[ ] ", None: ""}[row.on]
        before, after = ("◂", "▸") if here and self.page == 0 else (" ", " ")
        text.append("  ", plain).append(mark, strong)
        text.append(fit(row.label, label - len(mark)), plain)
        text.append(f"{before} {fit(visible(row.value), value - 4)} {after}", strong)
        text.append(fit(f" {row.note}", max(0, width - label - value - 2)) + "\n", muted)

    def _swatch(self) -> Text:
        """Blocks in the colours of the theme; on the page of keys how they are set."""
        palette, text = self.palette, Text(no_wrap=True)
        if self.page == 2:
            example = 'Set below [keys] in the file: fork = ["F6", "x"]'
            return text.append(example, Style(color=palette.muted))
        muted = palette.style("muted")
        samples = (
            ("█", palette.style("used"), " used  "),
            ("3", palette.style("background", "shared"), " shared  "),
            ("·", palette.style("cached", "cached_track"), " cached  "),
            (" ", palette.style("text", "track"), " free  "),
        )
        for glyph, style, word in samples:
            text.append(" ", muted).append(glyph * 2, style).append(word, muted)
        if not palette.mono:
            for owner in palette.owners:
                text.append("██", Style(color=owner, bgcolor=palette.background))
        return text

    @property
    def message(self) -> str:
        """What went wrong, or where settings are saved."""
        changes = differences(self.before, self.settings)
        if self._message:
            return self._message.replace(f"{self.path.parent}/", "")
        if self._broken and not changes:
            return f"Not among the themes: {self._broken[0]}".replace(f"{self.path.parent}/", "")
        return (f"{len(changes)} changed, s saves to " if changes else "Settings are in ") + _short(self.path)

    def _note(self) -> Text:
        wrong = self._message or (self._broken and self.settings == self.before)
        return Text(visible(self.message), Style(color=self._ink("warning" if wrong else "muted")))

    # -- actions ------------------------------------------------------------------------------------------

    def action_move(self, rows: int) -> None:
        self.place += rows
        self._show()

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(1, self.query_one("#setup-scroll").size.height - 2))

    def action_edge(self, step: int) -> None:
        self.action_move(step * len(self.rows))

    def action_turn(self, step: int) -> None:
        """The next or the previous page."""
        self.page = (self.page + step) % len(PAGES)
        self._show()

    def action_change(self, step: int) -> None:
        """Another value for the setting under the cursor; a column shown or hidden."""
        row = self.rows[self.place]
        if self.page == 0:
            self._set(changed(self.settings, row.name, step, self._names))
        elif self.page == 1:
            self._set(toggled(self.settings, row.name))
            self._follow(row.name)

    def action_shift(self, step: int) -> None:
        """The column under the cursor further or back in the order."""
        if self.page == 1:
            row = self.rows[self.place]
            self._set(moved(self.settings, row.name, step))
            self._follow(row.name)

    def _follow(self, name: str) -> None:
        """Keep the cursor on a column that has another place."""
        self.place = next(place for place, row in enumerate(self.rows) if row.name == name)
        self._show()

    def _set(self, settings: Settings) -> None:
        self.settings, self._message = settings, ""
        self.palette = self._preview(settings)
        self._show()

    def action_save(self) -> None:
        """Write what differs, and close; a file that cannot be written keeps the dialog open."""
        changes = differences(self.before, self.settings)
        if not changes:
            self.dismiss(None)
            return
        try:
            save_settings(changes, self.path, self._check)
        except SaveError as error:
            self._message = str(error)
            self._show()
            return
        self.dismiss(self.settings)

    def action_leave(self) -> None:
        """Close, with everything as it was."""
        if self.settings != self.before:
            self._preview(self.before)
        self.dismiss(None)

    def on_click(self, event: events.Click) -> None:
        """A row, or a page's name."""
        widget, region = self.get_widget_at(event.screen_x, event.screen_y)
        x, y = event.screen_x - region.x, event.screen_y - region.y
        if widget.id == "setup-tabs":
            edges = accumulate(cell_len(title) + 3 for title in PAGES)
            self.page = next((number for number, edge in enumerate(edges) if x < edge), self.page)
            self._show()
        elif widget.id == "setup-list" and y < len(self._lines) and (place := self._lines[y]) is not None:
            again = place == self.place
            self.place = place
            if again or self.page == 1:
                self.action_change(1)
            self._show()


def _short(path: Path) -> str:
    """A path with the home folder as `~`."""
    home = str(Path.home())
    text = str(path)
    return "~" + text[len(home) :] if text.startswith(f"{home}/") else text
