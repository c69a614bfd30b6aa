"""The seven presets: which panels each shows, and how they share the screen at every size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.geometry import Region, Size

from kvtop.ui.dashboard.arrangement import MINIMUM, Node, Regions, Shares, Split, panels, place

WIDE = 110
"""From this width on two panels stand side by side."""
STACKED = Size(70, 22)
"""From this size on two panels stand one above the other; below, one panel at a time."""
TALL = 30
"""From this height on the meters have their fifth line."""
METERS = 5


@dataclass(frozen=True, slots=True)
class Look:
    """What a preset's tree depends on."""

    body: Size
    """Room between meters and key bar."""
    focus: str
    """The panel that has the keys."""
    block: bool
    """Whether a block is selected."""


@dataclass(frozen=True, slots=True)
class Preset:
    """One way to look at memory. `panels` are its panels in the order of Tab."""

    id: str
    title: str
    panels: tuple[str, ...]
    tree: Callable[[Look], Node]
    meters: bool = True
    start: str = ""
    """The panel that has the keys at first; empty for the first one."""

    @property
    def first(self) -> str:
        """The panel that has the keys until another one is given them."""
        return self.start or self.panels[0]


def _overview(look: Look) -> Node:
    """Map and sequences; inspector and events where there is room, or where the focus wants them."""
    width, height = look.body
    second = look.focus if look.focus in ("log", "inspector") else "sequences"
    if look.block and look.focus == "map":
        second = "inspector"
    if width >= WIDE:
        if height < 22:
            return Split("columns", True, "map", second, 0.42, (30, 40))
        left = Split("rows", False, "map", "inspector", 0.66, (6, 9))
        right = Split("rows", False, "sequences", "log", 0.66, (6, 9))
        return Split("columns", True, left, right, 0.42, (34, 50))
    if width >= STACKED.width and height >= STACKED.height - 6:
        if height < 32:
            return Split("stack", False, "map", second, 0.5, (6, 6))
        third = "inspector" if look.block or look.focus == "inspector" else "log"
        lower = Split("rows", False, "sequences", third, 0.6, (6, 7))
        return Split("stack", False, "map", lower, 0.4, (8, 14))
    if look.focus == "map":
        return Split("stack", False, "map", "inspector", 0.5, (5, 5)) if look.block else "map"
    return second


def _beside(main: str, second: str, name: str, share: float = 0.68) -> Callable[[Look], Node]:
    """A panel that matters, and one that explains it: at the right, below, or in its place."""

    def tree(look: Look) -> Node:
        width, height = look.body
        if width >= WIDE:
            return Split(f"{name}.columns", True, main, second, share, (50, 34))
        if height >= 16 and width >= STACKED.width:
            return Split(f"{name}.rows", False, main, second, 0.6, (8, 6))
        return second if look.focus == second else main

    return tree


def _map(look: Look) -> Node:
    """The map alone, until a block is selected or somebody asks for the inspector."""
    both = look.block or look.focus == "inspector"
    return _beside("map", "inspector", "map", 0.72)(look) if both else "map"


def _compare(look: Look) -> Node:
    return "compare"


def _timeline(look: Look) -> Node:
    """Rates above events; the step at the right where it is wide."""
    width, height = look.body
    if height < 16:
        return look.focus if look.focus in ("rates", "inspector") else "trace"
    if width < WIDE:
        second = "inspector" if look.focus == "inspector" else "trace"
        return Split("timeline.rows", False, "rates", second, 0.42, (6, 6))
    lower = Split("timeline.columns", True, "trace", "inspector", 0.62, (50, 34))
    return Split("timeline.rows", False, "rates", lower, 0.42, (6, 8))


PRESETS: tuple[Preset, ...] = (
    Preset("overview", "Overview", ("map", "sequences", "log", "inspector"), _overview, start="sequences"),
    Preset("map", "Map", ("map", "inspector"), _map, meters=False),
    Preset("tables", "Tables", ("tables", "inspector"), _beside("tables", "inspector", "tables")),
    Preset("prefixes", "Prefixes", ("prefixes", "inspector"), _beside("prefixes", "inspector", "prefixes")),
    Preset("compare", "Compare", ("compare",), _compare),
    Preset("timeline", "Timeline", ("trace", "rates", "inspector"), _timeline, meters=False),
    Preset("kernel", "Kernel", ("kernel", "inspector"), _beside("kernel", "inspector", "kernel")),
)
BY_ID = {preset.id: preset for preset in PRESETS}


@dataclass(frozen=True, slots=True)
class Placed:
    """A preset on a screen of some size: the regions, and the tree whose borders can be moved."""

    regions: Regions
    body: Region
    tree: Node | None
    """None on a screen that is too small."""


def arrange(
    preset: Preset,
    size: Size,
    focus: str,
    *,
    block: bool = False,
    zoom: bool = False,
    shares: Shares = {},  # noqa: B006
) -> Placed:
    """Regions of `header`, `meters`, `ticker`, `keys` and of the panels that fit.

    The panel that has the `focus` is always among them; with `zoom` it is alone. The ticker has the newest
    event where the log has no room. Below the minimum there is only `too-small`.
    """
    width, height = size
    whole = Region(0, 0, width, height)
    if width < MINIMUM.width or height < MINIMUM.height:
        return Placed({"too-small": whole}, whole, None)
    focus = focus if focus in preset.panels else preset.first
    regions = {"header": Region(0, 0, width, 1), "keys": Region(0, height - 1, width, 1)}
    meters = METERS if height >= TALL else METERS - 1
    if zoom or not (preset.meters or height >= TALL):
        meters = 0
    if meters:
        regions["meters"] = Region(0, 1, width, meters)
    body = Region(0, 1 + meters, width, height - meters - 2)
    tree: Node = focus if zoom else preset.tree(Look(body.size, focus, block))
    if not {"log", "trace"} & set(panels(tree)) and not zoom:
        regions["ticker"] = Region(0, body.bottom - 1, width, 1)
        body = body.shrink((0, 0, 1, 0))
    return Placed(regions | place(tree, body, shares), body, tree)
