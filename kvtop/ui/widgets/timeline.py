"""Timeline."""

from __future__ import annotations

from kvtop.ui.view import View
from kvtop.ui.widgets.panel import PanelBody


class Timeline(PanelBody):
    """Timeline."""

    def heading(self, view: View) -> tuple[str, str]:
        return "Timeline", ""

    def lines(self, view: View, width: int, height: int) -> list[tuple[()]]:  # type: ignore[override]
        return []
