"""What one frame is drawn from: the snapshot, the session's status, what is selected, and the colours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kvtop.config import Settings
from kvtop.session.session import Phase, Status
from kvtop.timeline.snapshot import Snapshot
from kvtop.ui.draw.glyphs import BLOCK, Glyphs
from kvtop.ui.draw.palette import Palette
from kvtop.ui.frame.history import History
from kvtop.ui.frame.machine import MachineMemory
from kvtop.ui.frame.row import RowKey, TableOrder, TableRow


@dataclass(frozen=True, slots=True)
class Selection:
    """What the cursors are on; None where nothing is selected."""

    row: RowKey | None = None
    block: int | None = None


NO_ROWS: frozenset[RowKey] = frozenset()


@dataclass(frozen=True, slots=True)
class View:
    """One frame's content. Widgets read it and keep nothing of it but what they draw."""

    status: Status
    palette: Palette
    decode: Callable[[Sequence[int]], str]
    """Text of token ids, made visible."""
    snapshot: Snapshot | None = None
    rows: list[TableRow] = field(default_factory=list)
    selection: Selection = Selection()
    title: str = ""
    memory: MachineMemory = field(default_factory=MachineMemory)
    history: History = field(default_factory=lambda: History(1))
    """Figures over time."""
    beat: int = 0
    """Moves while loading."""
    order: TableOrder = field(default_factory=TableOrder)
    """How the table's rows are sorted, filtered and folded; `rows` are in this order already."""
    tags: frozenset[RowKey] = NO_ROWS
    """Rows that a person has tagged."""
    matches: frozenset[RowKey] = NO_ROWS
    """Rows that the search has found."""
    columns: tuple[str, ...] = Settings.columns
    """Names of the sequences' columns between ID and TEXT (`columns.BY_ID`)."""
    lit: frozenset[RowKey] = NO_ROWS
    """Rows whose blocks stay bright while all others are dimmed: the selected one, the tagged ones, those
    that a search matches. Empty when nothing is dimmed."""
    clock: float = 0.0
    """Seconds, for what fades; only differences mean something."""
    glyphs: Glyphs = BLOCK
    """The characters that maps, bars and plots are drawn with."""
    flashing: bool = True
    """Whether copies, evictions and preemptions flash in the map."""
    no_color: bool = False
    """Whether NO_COLOR is set: greys only, whatever the palette."""

    @property
    def lettered(self) -> bool:
        """Whether owners and states are told apart by letters and signs, since there are no hues."""
        return self.no_color or self.palette.mono

    @property
    def loading(self) -> bool:
        """Whether there is nothing to show yet because the model loads."""
        return self.snapshot is None or self.status.phase is Phase.LOADING
