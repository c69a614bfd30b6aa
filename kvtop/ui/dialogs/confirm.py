"""Small dialogs: a question, and a failure in full."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static


class Confirm(ModalScreen[bool]):
    """Asks one question: y or Enter is yes, anything that leaves is no."""

    BINDINGS = [("y,enter", "answer(True)", "Yes"), ("n,escape,q,f10", "answer(False)", "No")]

    def __init__(self, title: str, question: str) -> None:
        super().__init__()
        self.heading = title
        self.question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = self.heading
            dialog.border_subtitle = "y Enter yes · n Esc no"
            yield Static(self.question, markup=False)

    def action_answer(self, answer: bool) -> None:
        """Close with an answer."""
        self.dismiss(answer)


class Failure(ModalScreen[None]):
    """Shows why the session failed, in full. There is nothing to do but quit."""

    BINDINGS = [("q,f10,escape,ctrl+c,enter", "app.quit", "Quit")]

    def __init__(self, message: str) -> None:
        super().__init__()
        self.message = message

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog wide failure") as dialog:
            dialog.border_title = "Failed"
            dialog.border_subtitle = "q quits"
            yield Static(self.message, markup=False)
