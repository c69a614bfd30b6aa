"""Plots of figures over time."""

from __future__ import annotations

import dataclasses

import pytest

from kvtop.ui.draw.glyphs import ASCII, BRAILLE


async def run(driven, samples: int, *, preempted_at: int = -1) -> None:
    """Let time pass: a sample every half second, with growing evictions."""
    session = driven.session
    session.select = lambda **_: None
    for number in range(1, samples + 1):
        snapshot = session.published
        counters = dataclasses.replace(
            snapshot.counters,
            evictions=snapshot.counters.evictions + number,
            preempted_swap=snapshot.counters.preempted_swap + (number == preempted_at),
        )
        session.published = dataclasses.replace(snapshot, step=snapshot.step + 1, counters=counters)
        session.current = dataclasses.replace(session.current, elapsed_seconds=number / 2)
        driven.app.refresh_view(force=True)
    await driven.pilot.pause()


def line_of(driven, name: str) -> str:
    return next(line for line in driven.lines if name in line)


async def test_a_plot_names_its_newest_value_and_its_range(drive, session) -> None:
    c = session.published.counters
    async with drive(session, (100, 40)) as driven:
        await driven.press("6")
        await run(driven, 12)
        used = round(100 * c.used_blocks / c.total_blocks)
        assert f"{used} % " in line_of(driven, "pool used")
        line = line_of(driven, "evicted/s")
        assert " 24 " in line
        assert "4.0 - 24" in line or "24 max" in line
        assert line_of(driven, "│ running").split()[2] == str(c.running)
        assert "last 6 s" in driven.text
        assert "6 s ago" in line_of(driven, "now")


async def test_preemptions_are_marked_on_the_axis(drive, session) -> None:
    async with drive(session, (100, 40)) as driven:
        await driven.press("6")
        await run(driven, 12, preempted_at=10)
        axis = line_of(driven, "now")
        assert axis.count("▲") == 1
        # Two samples came after it.
        assert axis.index("▲") == axis.index("now") - 2 - 2


async def test_what_is_not_published_is_said_and_comes_last(drive, session) -> None:
    figures = dataclasses.replace(session.published.figures, tokens_per_second=None, kv_bytes_read=None)
    session.published = dataclasses.replace(session.published, figures=figures)
    session.select = lambda **_: None
    async with drive(session, (100, 40)) as driven:
        await driven.press("6")
        await run(driven, 4)
        names = [line.split()[1] for line in driven.lines if "max" in line or " - " in line]
        assert "not published" in line_of(driven, "tokens/s")
        assert names.index("pool") == 0


async def test_left_shows_a_longer_time(drive, session) -> None:
    async with drive(session, (80, 40)) as driven:
        await driven.press("6", "tab")
        await run(driven, 100)
        assert "last 20 s" in driven.text
        await driven.press("left")
        longer = int(driven.text.partition("last ")[2].split()[0])
        assert 38 <= longer <= 41
        await driven.press("right", "right")
        assert "last 20 s" in driven.text


@pytest.mark.parametrize(("size", "glyphs"), [((60, 18), ASCII), ((80, 24), BRAILLE), ((300, 90), ASCII)])
async def test_plots_keep_their_columns_at_every_size(drive, session, size, glyphs) -> None:
    async with drive(session, size, glyphs=glyphs) as driven:
        await driven.press("6", "tab", "o")
        await run(driven, 30, preempted_at=20)
        body = driven.app.dashboard.bodies["rates"]
        lines = [strip.text for strip in body.strips]
        assert all(len(line) == body.extent.width for line in lines)
        values = [line.index("now") for line in lines if "now" in line]
        assert values == [body.extent.width - 14] or size[0] > 160
        assert any("preempted/s" in line for line in lines)
        if glyphs is ASCII:
            assert driven.text.isascii()


async def test_the_first_figures_are_waited_for(drive, make_session) -> None:
    async with drive(make_session(), (100, 40)) as driven:
        await driven.press("6")
        assert "no figures yet" in driven.text
