"""The form that adds a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label, Static

from kvtop.session.session import AddRequest


@dataclass(frozen=True, slots=True)
class Entry:
    """One field of the form."""

    name: str
    """The field of `AddRequest` that it sets."""
    label: str
    value: str
    kind: Callable[[str], Any]
    least: float = 0
    most: float = 1 << 31
    hint: str = ""


ENTRIES = (
    Entry("prompt", "Prompt", "", str, hint="empty: the workload's own text"),
    Entry("prompt_tokens", "Prompt tokens", "128", int, 1, 1 << 20, "when the prompt is empty"),
    Entry("max_new_tokens", "New tokens", "128", int, 1, 1 << 20, "at most, for each sample"),
    Entry("n", "Samples (n)", "1", int, 1, 64, "share the prompt's blocks"),
    Entry("beam_width", "Beam width", "1", int, 1, 64, "1 is no beam search"),
    Entry("temperature", "Temperature", "0.7", float, 0, 10, "0 is greedy"),
    Entry("seed", "Seed", "", int, 0, (1 << 63) - 1, "empty draws one"),
)


class FormError(ValueError):
    """A field that cannot be used; `field` names it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def read_form(values: dict[str, str]) -> AddRequest:
    """The request that the fields' texts describe. Raises FormError naming the first that is wrong."""
    read: dict[str, Any] = {}
    for entry in ENTRIES:
        text = values[entry.name]
        if entry.kind is str:
            read[entry.name] = text or None
        elif not text.strip() and entry.name == "seed":
            read["seed"] = None
        else:
            read[entry.name] = _number(entry, text.strip())
    if read["n"] > 1 and read["beam_width"] > 1:
        raise FormError("beam_width", "Samples and beams exclude each other: set one of them to 1")
    return AddRequest(**read)


def _number(entry: Entry, text: str) -> int | float:
    """One field's number within its bounds."""
    kind = "a whole number" if entry.kind is int else "a number"
    try:
        number: int | float = entry.kind(text)
    except ValueError:
        raise FormError(entry.name, f"{entry.label}: {text!r} is not {kind}") from None
    if not entry.least <= number <= entry.most:
        raise FormError(entry.name, f"{entry.label}: must be from {entry.least:g} to {entry.most:g}")
    return number


class AddRequestForm(ModalScreen[AddRequest | None]):
    """Enter adds the request, Esc leaves without one."""

    BINDINGS = [
        ("escape", "leave", "Cancel"),
        ("down", "app.focus_next", "Next field"),
        ("up", "app.focus_previous", "Previous field"),
    ]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog form") as dialog:
            dialog.border_title = "Add a request"
            dialog.border_subtitle = "Enter adds · ↑↓ Tab move · Esc leaves"
            for entry in ENTRIES:
                with Horizontal(classes="field"):
                    yield Label(entry.label)
                    yield Input(
                        entry.value, placeholder=entry.hint, id=entry.name, compact=True, select_on_focus=True
                    )
                    if entry.value:
                        yield Label(entry.hint, classes="hint")
            yield Static("", id="form-error", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Read the form; a wrong field gets the keys and the reason."""
        try:
            request = read_form(
                {entry.name: self.query_one(f"#{entry.name}", Input).value for entry in ENTRIES}
            )
        except FormError as error:
            self.query_one("#form-error", Static).update(str(error))
            self.query_one(f"#{error.field}", Input).focus()
            return
        self.dismiss(request)

    def action_leave(self) -> None:
        """Close without a request."""
        self.dismiss(None)
