"""What is shown where the dashboard does not fit."""

from __future__ import annotations

from kvtop.ui.draw.lines import Line, LineBuilder
from kvtop.ui.draw.text import first_fit
from kvtop.ui.frame.view import View
from kvtop.ui.parts.lines import LineWidget


class TooSmall(LineWidget):
    """One line with the current size and the one that is needed."""

    def __init__(self, needed: tuple[int, int], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.needed = needed

    def lines(self, view: View, width: int, height: int) -> list[Line]:
        now, need = f"{width}x{height}", "{}x{}".format(*self.needed)
        texts = [
            f"kvtop needs {need} cells, this is {now}. q quits.",
            f"{now}, needs {need}, q quits",
            f"{now} < {need}",
        ]
        return [LineBuilder().put(first_fit(texts, width), view.palette.style("warning")).line()]
