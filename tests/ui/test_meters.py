"""The meters keep their columns apart, whatever the figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

CROWDED = {"used_blocks": 123_456, "shared_blocks": 12_345, "cached_blocks": 1_234, "free_blocks": 1_234}


@pytest.mark.parametrize("figures", [{}, CROWDED], ids=["few", "many"])
@pytest.mark.parametrize("width", [110, 113, 116, 120, 124, 130, 160])
async def test_counters_never_touch_what_stands_before_them(
    session, drive, monkeypatch, width, figures
) -> None:
    snapshot = session.snapshot()
    shown = replace(snapshot, counters=replace(snapshot.counters, **figures))
    monkeypatch.setattr(session, "snapshot", lambda: shown)
    async with drive(session, (width, 36)) as driven:
        lines = driven.lines[:6]
    for label in ("preempted ", "evicted ", "hits "):
        (line,) = (line for line in lines if label in line)
        assert line[: line.index(label)].endswith("  "), line
