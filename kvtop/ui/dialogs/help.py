"""The help: pages of keys and words, searched by typing."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from kvtop.ui.commands.help import Page, found
from kvtop.ui.draw.palette import Palette
from kvtop.ui.draw.text import visible, wrap

TERM = 16
"""Width of the terms, in cells."""


class Help(ModalScreen[None]):
    """Pages side by side; a search shows what matches on all of them."""

    BINDINGS = [
        ("escape", "leave", "Close"),
        ("q,f1,question_mark,h,f10,enter", "dismiss", "Close"),
        ("slash,f3", "search", "Search"),
        ("left,shift+tab", "turn(-1)", "Page"),
        ("right,tab", "turn(1)", "Page"),
        ("up", "scroll(-1)", "Up"),
        ("down", "scroll(1)", "Down"),
        ("pageup", "page(-1)", "Page up"),
        ("pagedown,space", "page(1)", "Page down"),
        ("home", "edge(-1)", "Top"),
        ("end", "edge(1)", "Bottom"),
    ]
    AUTO_FOCUS = ""

    def __init__(self, pages: tuple[Page, ...], palette: Palette) -> None:
        super().__init__()
        self.palette = palette
        self.pages = pages
        self.number = 0
        self.words = ""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide help"):
            yield Static(id="help-tabs", markup=False)
            with VerticalScroll(id="help-scroll", can_focus=False):
                yield Static(id="help-text", markup=False)
            yield Input(placeholder="search all pages", id="help-search", compact=True)

    def on_mount(self) -> None:
        self.query_one("#help-search").display = False
        dialog = self.query_one(".dialog")
        dialog.border_title = "Help"
        dialog.border_subtitle = "←→ page · ↑↓ PgUp PgDn scroll · / search · Esc closes"
        self._show()

    @property
    def page(self) -> Page:
        """What is shown: a page, or what the search found."""
        return found(self.pages, self.words) if self.words else self.pages[self.number]

    @property
    def _width(self) -> int:
        """Cells of a line of the page; one column is the scrollbar's."""
        return max(30, self.query_one("#help-scroll").container_size.width - 1)

    def on_resize(self) -> None:
        """Lines are broken anew."""
        self.call_after_refresh(self._show)

    def _show(self) -> None:
        tabs = Text()
        for number, page in enumerate(self.pages):
            here = number == self.number and not self.words
            style = (
                Style(color=self.palette.primary, bold=True, underline=True)
                if here
                else Style(color=self.palette.muted)
            )
            tabs.append(page.title, style).append("   ")
        if self.words:
            tabs.append(f"search: {visible(self.words)}", Style(color=self.palette.primary, bold=True))
        self.query_one("#help-tabs", Static).update(tabs)
        self.query_one("#help-text", Static).update(page_text(self.page, self.palette, self._width))
        self.query_one("#help-scroll").scroll_home(animate=False)

    # -- actions ------------------------------------------------------------------------------------------

    def action_turn(self, step: int) -> None:
        """The next or the previous page."""
        self.words = ""
        self.number = (self.number + step) % len(self.pages)
        self._show()

    def action_scroll(self, lines: int) -> None:
        self.query_one("#help-scroll").scroll_relative(y=lines, animate=False)

    def action_page(self, step: int) -> None:
        scroll = self.query_one("#help-scroll")
        scroll.scroll_relative(y=step * max(1, scroll.size.height - 1), animate=False)

    def action_edge(self, step: int) -> None:
        scroll = self.query_one("#help-scroll")
        scroll.scroll_to(y=0 if step < 0 else scroll.max_scroll_y, animate=False)

    def action_search(self) -> None:
        """Give the keys to the search line."""
        line = self.query_one("#help-search", Input)
        line.display = True
        line.focus()

    def action_leave(self) -> None:
        """Leave the search, then the help."""
        if not self.query_one("#help-search").display:
            self.dismiss()
            return
        self._close_search()
        self.words = ""
        self._show()

    def _close_search(self) -> None:
        line = self.query_one("#help-search", Input)
        line.display = False
        line.value = ""
        self.set_focus(None)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search as one types."""
        if event.value != self.words and self.query_one("#help-search").display:
            self.words = event.value.strip()
            self._show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep what was found, and give the keys back."""
        words = self.words
        self._close_search()
        self.words = words
        self._show()


def page_text(page: Page, palette: Palette, width: int) -> Text:
    """A page as lines of terms and meanings of at most `width` cells."""
    text = Text()
    for name, entries in page.sections:
        text.append(f"{name}\n", Style(color=palette.primary, bold=True))
        for entry in entries:
            ground = getattr(palette, entry.ground) if entry.ground else None
            text.append("  ")
            text.append(entry.term, Style(color=getattr(palette, entry.ink), bgcolor=ground, bold=not ground))
            text.append(" " * max(1, TERM - len(entry.term)))
            lines = wrap(entry.text, max(10, width - TERM - 2))
            text.append(f"\n{'':{TERM + 2}}".join(lines) + "\n", Style(color=palette.muted))
    if not page.sections:
        text.append("Nothing matches. Esc shows all pages again.", Style(color=palette.muted))
    text.rstrip()
    return text
