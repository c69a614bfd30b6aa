"""The registry of panels: one line each. One that no preset has shown yet is not even imported: the first
frame comes sooner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module

from kvtop.ui.commands.help import Entry
from kvtop.ui.commands.intents import Perform
from kvtop.ui.parts.panel import PanelBody


@dataclass(frozen=True, slots=True)
class PanelSpec:
    """What there is to know of a panel before it is made. Two ids of one kind are two panels."""

    id: str
    """Its name in presets, intents and scenes."""
    kind: str
    """Its folder below `kvtop.ui.panels`, with the module in it where that is not `panel`."""
    class_name: str
    wants: frozenset[str] = frozenset()
    """What it shows that is not in every snapshot: `prefixes`."""
    actions: tuple[str, ...] = ()
    """Ids of the actions that it does itself, as `do_<id>`."""
    help: tuple[Entry, ...] = ()
    """What the help says of its words."""

    @property
    def module(self) -> str:
        """Where its class is."""
        return f"kvtop.ui.panels.{self.kind if '.' in self.kind else self.kind + '.panel'}"


SEARCH = ("search", "previous_match")
TAGS = ("tag", "untag")
FOLDS = ("expand", "collapse")
PANELS: tuple[PanelSpec, ...] = (
    PanelSpec("map", "map", "BlockMap", actions=FOLDS),
    PanelSpec(
        "sequences",
        "sequences",
        "SequenceTable",
        actions=(*SEARCH, *TAGS, *FOLDS, "filter", "tree", "sort", "invert", "follow"),
    ),
    PanelSpec(
        "log",
        "events.log",
        "EventLog",
        actions=("filter",),
        help=(Entry("filter", "events: evicted, block 131, sequence 42, any words; a | b shows both"),),
    ),
    PanelSpec("inspector", "inspector", "Inspector"),
    PanelSpec("tables", "tables", "BlockTables", actions=TAGS),
    PanelSpec(
        "prefixes",
        "prefixes",
        "PrefixTree",
        wants=frozenset({"prefixes"}),
        actions=(*SEARCH, *FOLDS, "sort"),
        help=(
            Entry("REF", "prefixes: reference count of the chain's blocks"),
            Entry("EQUAL", "prefixes: further blocks with the same content, which the cache does not merge"),
            Entry("HITS", "prefixes: how often a sequence found the chain's blocks in the cache"),
            Entry("IDLE", "prefixes: steps since a chain that nobody holds was last used"),
        ),
    ),
    PanelSpec(
        "compare",
        "compare",
        "Compare",
        actions=("sort",),
        help=(
            Entry("IN", "compare: requests that the pool's memory admits under a scheme"),
            Entry("LATER", "compare: slots reserved for tokens that are still to come"),
            Entry("NEVER", "compare: slots reserved for tokens that never come"),
        ),
    ),
    PanelSpec("rates", "rates", "Rates"),
    PanelSpec("trace", "events.trace", "EventTrace", actions=(*SEARCH, "filter")),
    PanelSpec(
        "kernel",
        "kernel",
        "KernelReads",
        actions=("sort",),
        help=(
            Entry("RUNS", "kernel: stretches of neighbouring blocks in a table; MEAN: their mean length"),
            Entry(
                "ADJ %", "kernel: of the blocks that follow each other in the text, those that do in memory"
            ),
            Entry("SPAN", "kernel: blocks from the first to the last one of a table, as they lie in memory"),
        ),
    ),
)
BY_ID = {spec.id: spec for spec in PANELS}


def make_panel(panel: str, perform: Perform) -> PanelBody:
    """A new panel, which asks `perform` for what it does not do itself. Raises KeyError for an id that there
    is not."""
    spec = BY_ID[panel]
    body = getattr(import_module(spec.module), spec.class_name)(id=panel)
    assert isinstance(body, PanelBody)
    body.perform = perform
    return body


def wanted_by(panels: Iterable[str]) -> frozenset[str]:
    """What some panels show that is not in every snapshot. Raises KeyError for an id that there is not."""
    return frozenset().union(*(BY_ID[panel].wants for panel in panels))
