"""How the dashboard looks, whole. After a wanted change: pytest tests/ui/test_look.py --snapshot-update."""

from __future__ import annotations

import pytest

from kvtop.ui.app.app import KvtopApp


@pytest.mark.parametrize(
    "size", [(60, 18), (80, 24), (120, 36), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}"
)
def test_overview(snap_compare, session, size) -> None:
    app = KvtopApp(session, fps=1 / 3600, probe=False)
    assert snap_compare(app, terminal_size=size)


def test_selected_sequence_and_block(snap_compare, session) -> None:
    app = KvtopApp(session, fps=1 / 3600, probe=False)
    assert snap_compare(app, press=["down", "down", "enter", "right"], terminal_size=(120, 36))


def test_loading(snap_compare, make_session) -> None:
    app = KvtopApp(make_session(), title="inside-3m", fps=1 / 3600, probe=False)
    assert snap_compare(app, terminal_size=(80, 24))
