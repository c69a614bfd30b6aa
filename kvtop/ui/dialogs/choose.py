"""A list to choose one of, beside a panel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events
from textual.app import ComposeResult
from textual.geometry import Region, Size
from textual.message import Message

from kvtop.ui.commands.intents import AskChoice, Option
from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.frame.view import View
from kvtop.ui.parts.lines import LineWidget
from kvtop.ui.parts.overlay import Overlay

FAR = 1 << 30


class Choices(LineWidget, can_focus=True):
    """The list in its frame, with a cursor, and a mark at what is chosen now."""

    class Picked(Message):
        """One was chosen; None when the list is left without a choice."""

        def __init__(self, id: str | None) -> None:
            super().__init__()
            self.id_picked = id

    BINDINGS = [
        ("up", "move(-1)", "Up"),
        ("down", "move(1)", "Down"),
        ("pageup", "page(-1)", "Page up"),
        ("pagedown", "page(1)", "Page down"),
        ("home", f"move({-FAR})", "First"),
        ("end", f"move({FAR})", "Last"),
        ("enter,space", "pick", "Choose"),
        ("escape,q,f10,f6", "leave", "Leave"),
    ]

    def __init__(self, title: str, options: Sequence[Option], current: str) -> None:
        super().__init__(id="choices")
        self.heading = title
        self.options = tuple(options)
        self.current = current
        self.place = next((i for i, option in enumerate(self.options) if option.id == current), 0)
        self._top = 0
        self._label = max(len(option.label) for option in self.options)
        self.wanted = Size(
            max(self._label + 5 + max(len(option.text) for option in self.options), 26) + 2,
            len(self.options) + 2,
        )
        """The size at which nothing is cut."""

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        style = view.palette.style
        edge = style("focus")
        room = height - 2
        self._top = max(0, min(self._top, self.place, len(self.options) - room), self.place - room + 1)
        top = LineBuilder().put("╭─", edge).put(f" {self.heading} ", style("focus", bold=True))
        lines = [top.put("─" * (width - top.width - 1), edge).put("╮", edge).line()]
        for index in range(self._top, self._top + room):
            here = index == self.place
            ground = "row" if here else "background"
            line = LineBuilder().put("│", edge)
            if index < len(self.options):
                option = self.options[index]
                chosen = option.id == self.current
                line.put(" ✓ " if chosen else "   ", style("good", ground, bold=True))
                line.cell(
                    option.label, self._label, style("primary" if chosen else "text", ground, bold=here)
                )
                line.cell(f"  {option.text}", width - line.width - 1, style("muted", ground))
            line.space_to(width - 1, style("text", ground)).put("│", edge)
            lines.append(line.line())
        foot = LineBuilder().put("╰─", edge).put(" Enter takes · Esc leaves ", style("muted"))
        lines.append(foot.put("─" * (width - foot.width - 1), edge).put("╯", edge).line())
        return lines

    # -- cursor -------------------------------------------------------------------------------------------

    def action_move(self, rows: int) -> None:
        self.place = max(0, min(self.place + rows, len(self.options) - 1))
        self.again()

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(1, self.extent.height - 3))

    def action_pick(self) -> None:
        self.post_message(self.Picked(self.options[self.place].id))

    def action_leave(self) -> None:
        self.post_message(self.Picked(None))

    def on_key(self, event: events.Key) -> None:
        """A letter goes to the next label that begins with it."""
        letter = (event.character or "").casefold()
        order = [*range(self.place + 1, len(self.options)), *range(self.place + 1)]
        if letter.isalnum() and event.key not in ("q",):
            for place in order:
                if self.options[place].label.casefold().startswith(letter):
                    event.stop()
                    self.action_move(place - self.place)
                    return

    def on_click(self, event: events.Click) -> None:
        """Choose what is under the mouse."""
        event.stop()
        place = self._top + event.y - 1
        if 0 < event.y < self.extent.height - 1 and place < len(self.options):
            self.place = place
            self.action_pick()

    def on_mouse_scroll_down(self) -> None:
        self.action_move(1)

    def on_mouse_scroll_up(self) -> None:
        self.action_move(-1)


class Choose(Overlay[str | None]):
    """Enter or a click takes one of the options and gives its id; Esc or a click beside the list gives None.

    `beside` gives the region of the panel that the choice is about: the list stands at the left of it where
    there is room, else over its left part.
    """

    def __init__(
        self,
        ask: AskChoice,
        view: View,
        beside: Callable[[], Region],
    ) -> None:
        super().__init__()
        self.choices = Choices(ask.title, ask.options, ask.current)
        self.choices.view = view
        self._beside = beside

    def compose(self) -> ComposeResult:
        yield self.choices

    def on_resize(self, event: events.Resize) -> None:
        """Find the list's place."""
        self.covered = place_list(self.choices.wanted, self._beside(), event.size)
        styles = self.choices.styles
        styles.offset = self.covered.x, self.covered.y
        styles.width, styles.height = self.covered.size

    def on_choices_picked(self, message: Choices.Picked) -> None:
        self.dismiss(message.id_picked)

    def on_click(self) -> None:
        """Beside the list: no choice."""
        self.dismiss(None)


def place_list(wanted: Size, panel: Region, screen: Size) -> Region:
    """Where a list stands: at the left of a panel, or over it; above the last row and within the screen."""
    width, height = min(wanted.width, screen.width), min(wanted.height, screen.height - 1)
    x = panel.x - width if panel.x >= width else min(panel.x, screen.width - width)
    y = max(0, min(panel.y, screen.height - 1 - height))
    return Region(x, y, width, height)
