"""The panels by name. One that no preset has shown yet is not even imported: the first frame comes sooner."""

from __future__ import annotations

from importlib import import_module

from kvtop.ui.widgets.panel import PanelBody

CLASSES = {
    "map": ("block_map", "BlockMap"),
    "table": ("sequence_table", "SequenceTable"),
    "log": ("event_log", "EventLog"),
    "inspector": ("inspector", "Inspector"),
    "tables": ("page_tables", "PageTables"),
    "prefixes": ("prefix_tree", "PrefixTree"),
    "compare": ("compare", "Compare"),
    "rates": ("rates", "Rates"),
    "timeline": ("timeline", "Timeline"),
    "kernel": ("kernel_reads", "KernelReads"),
}
"""Name of a panel -> its module among the widgets, and its class."""


def make_panel(name: str) -> PanelBody:
    """A new body for a panel. Raises KeyError for a name that there is not."""
    module, kind = CLASSES[name]
    body = getattr(import_module(f"kvtop.ui.widgets.{module}"), kind)(id=name)
    assert isinstance(body, PanelBody)
    return body
