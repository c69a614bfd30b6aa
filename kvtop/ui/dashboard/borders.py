"""Borders between panels that a person moves, with keys or with the mouse."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from textual import events
from textual.geometry import Region, Size
from textual.screen import Screen

from kvtop.ui.dashboard.arrangement import Split, border_at, border_of, borders
from kvtop.ui.dashboard.presets import Placed

NUDGE = 0.04
"""How far a key moves a border: a share of the room that it divides."""


class MovableBorders(Screen[None]):
    """A screen whose panels stand in a tree of splits."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.shares: dict[str, float] = {}
        """Where a person has moved the borders; see `arrangement.Shares`."""
        self._dragged: tuple[Split, Region] | None = None

    @property
    @abstractmethod
    def panel(self) -> str:
        """The panel that has the keys."""

    @abstractmethod
    def placed(self, size: Size) -> Placed:
        """Where the parts stand now."""

    @abstractmethod
    def arrange_again(self) -> None:
        """Have the parts placed anew."""

    def set_shares(self, shares: Mapping[str, float]) -> None:
        """Put the borders where they were."""
        self.shares = dict(shares)

    def action_split(self, direction: str) -> None:
        """Move the nearest border of the panel that has the keys: left, right, up or down."""
        self._nudge(
            across=direction in ("left", "right"), step=NUDGE if direction in ("right", "down") else -NUDGE
        )

    def _nudge(self, *, across: bool, step: float) -> None:
        """Move the nearest border of the panel that has the keys."""
        placed = self.placed(self.app.size)
        split = border_of(placed.tree, self.panel, across=across) if placed.tree is not None else None
        if split is None or placed.tree is None:
            return
        whole = next(
            region for other, region in borders(placed.tree, placed.body, self.shares) if other is split
        )
        room = whole.width if across else whole.height
        cells = max(1, round(abs(step) * room))
        self._move_border(split, room, split.cut(room, self.shares) + (cells if step > 0 else -cells))

    def _move_border(self, split: Split, room: int, cells: int) -> None:
        """Give a split's first part so many cells, as far as both keep their least."""
        self.shares[split.name] = max(0.05, min(cells / room, 0.95))
        self.shares[split.name] = split.cut(room, self.shares) / room
        self.arrange_again()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Take hold of a border."""
        placed = self.placed(self.app.size)
        if placed.tree is None or event.button != 1:
            return
        x, y = event.screen_x, event.screen_y
        self._dragged = border_at(placed.tree, placed.body, self.shares, x, y)
        if self._dragged is not None:
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Drag the border."""
        if self._dragged is not None:
            split, whole = self._dragged
            room = whole.width if split.across else whole.height
            cells = event.screen_x - whole.x if split.across else event.screen_y - whole.y
            self._move_border(split, room, cells + 1)

    def on_mouse_up(self) -> None:
        """Let go of the border."""
        if self._dragged is not None:
            self._dragged = None
            self.release_mouse()
