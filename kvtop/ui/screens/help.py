"""The keys on one page, made from the table of actions."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from kvtop.ui.actions import Action, key_label
from kvtop.ui.palette import Palette

READING = (
    ("█", "used", "a used block, coloured by its owner; lower when partly filled"),
    ("3", "shared", "a shared block, bright, with its reference count"),
    ("·", "cached", "cached: reference count 0, can still be found by its hash"),
    (" ", "track", "free"),
)


class Help(ModalScreen[None]):
    """Any of its keys closes it."""

    BINDINGS = [("escape,q,f1,question_mark,h,f10,enter", "dismiss", "Close")]

    def __init__(self, actions: tuple[Action, ...], palette: Palette) -> None:
        super().__init__()
        self.actions = actions
        self.palette = palette

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog wide") as dialog:
            dialog.border_title = "Keys"
            dialog.border_subtitle = "Esc closes"
            yield Static(self.text())

    def text(self) -> Text:
        """The page."""
        palette = self.palette
        page = Text()
        for section in dict.fromkeys(action.section for action in self.actions):
            page.append(f"{section}\n", Style(color=palette.primary, bold=True))
            for action in self.actions:
                if action.section == section:
                    keys = " ".join(map(key_label, action.keys))
                    page.append(f"  {keys:<12}", Style(color=palette.text, bold=True))
                    page.append(f"{action.help}\n", Style(color=palette.muted))
        page.append("Block map\n", Style(color=palette.primary, bold=True))
        for glyph, key, meaning in READING:
            if key == "shared":
                style = Style(color=palette.background, bgcolor=palette.shared)
            else:
                ground = palette.cached_track if key == "cached" else palette.track
                style = Style(color=getattr(palette, key), bgcolor=ground)
            page.append("  ")
            page.append(glyph, style)
            page.append(f"{'':11}{meaning}\n", Style(color=palette.muted))
        page.append("  WASTE in token slots, SHR in blocks, HIT% of the prompt.", Style(color=palette.muted))
        return page
