"""Everything of the screen that a person has made of it, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvtop.ui.frame.row import RowKey, TableOrder
from kvtop.ui.frame.view import Selection


@dataclass(frozen=True, slots=True)
class ScreenState:
    """What a scene stores and brings back; neither the snapshot nor a setting.

    Brought back over the same snapshot it gives the same picture. Of it `state.toml` keeps preset, borders
    and order; see `kvtop.config.state`.
    """

    preset: str = "overview"
    zoomed: bool = False
    """Whether the panel that has the keys is at full size."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Where borders were moved: name of a split -> share of its first part."""
    focused: Mapping[str, str] = field(default_factory=dict)
    """Preset -> the panel that has the keys in it."""
    selection: Selection = field(default_factory=Selection)
    order: TableOrder = field(default_factory=TableOrder)
    tags: frozenset[RowKey] = frozenset()
    panels: Mapping[str, Any] = field(default_factory=dict)
    """Panel -> its own state, a frozen dataclass; see `PanelBody.state`."""
