"""What a panel asks for: it goes up as an intent, and comes back down in the next view.

Panels hold one callable, `Perform`, and know neither the app nor each other. It is called synchronously: a
cursor that moves costs no message round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvtop.ui.frame.row import RowKey, TableOrder
from kvtop.ui.frame.view import Selection


@dataclass(frozen=True, slots=True)
class Select:
    """Put the cursors on a row and a block."""

    selection: Selection


@dataclass(frozen=True, slots=True)
class SetOrder:
    """Sort, filter, search or fold the sequences anew."""

    order: TableOrder


@dataclass(frozen=True, slots=True)
class SetTags:
    """Tag these rows and no others."""

    tags: frozenset[RowKey]


@dataclass(frozen=True, slots=True)
class Tell:
    """Say a line to the person; with `unless_shown` only where that panel is not on the screen."""

    text: str
    warning: bool = False
    unless_shown: str = ""


@dataclass(frozen=True, slots=True)
class Redraw:
    """Draw the last frame anew: a panel's own state is another."""


@dataclass(frozen=True, slots=True)
class Focus:
    """Give the keys to a panel, and with them a place on the screen."""

    panel: str


@dataclass(frozen=True, slots=True)
class Do:
    """Do what an action's key does, as after a double click."""

    action: str


@dataclass(frozen=True, slots=True)
class Watch:
    """Other panels are on the screen, and want other things of a snapshot; see `PanelSpec.wants`."""

    wants: frozenset[str]


@dataclass(frozen=True, slots=True)
class LineAction:
    """An action whose keys do something while a line is open."""

    action: str
    word: str
    do: Callable[[], None]


@dataclass(frozen=True, slots=True)
class AskLine:
    """Ask for a line of text, which `changed` is given with every change; the panel gets the keys before.

    `word` gives what stands at the right of the line, and whether it is a warning. The arrows `move` the
    panel's cursor meanwhile, by `page` rows with the page keys.
    """

    panel: str
    title: str
    value: str
    changed: Callable[[str], None]
    word: Callable[[], tuple[str, bool]]
    move: Callable[[int, int], None]
    page: int
    extra: tuple[LineAction, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """One of the things to choose from."""

    id: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class AskChoice:
    """Ask for one of a list, beside the panel; `chosen` is given its id, or None."""

    panel: str
    title: str
    options: Sequence[Option]
    current: str
    chosen: Callable[[str | None], None]


Intent = Select | SetOrder | SetTags | Tell | Redraw | Focus | Do | Watch | AskLine | AskChoice
Perform = Callable[[Intent], None]
"""Does what an intent asks for, before it returns."""
