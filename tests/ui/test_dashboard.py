"""What the dashboard shows."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from rich.cells import cell_len

from kvtop.session import session as ses
from kvtop.ui.dialogs.confirm import Failure
from tests.ui.fake_session import row_of

NORMAL = (120, 36)


# -- phases -----------------------------------------------------------------------------------------------


async def test_the_first_frame_comes_before_the_model(drive, make_session) -> None:
    async with drive(make_session(), NORMAL, title="inside-3m") as driven:
        assert driven.session.started
        assert "inside-3m" in driven.lines[0]
        assert "LOADING" in driven.lines[0]
        assert "Loading inside-3m" in driven.text
        assert " 40 %" in driven.text
        assert "STATE PROMPT" in driven.text


async def test_loading_without_a_known_end_still_moves(drive, make_session) -> None:
    session = make_session()
    session.current = ses.Status(ses.Phase.LOADING, "starting")
    async with drive(session, NORMAL, fps=1.0) as driven:
        before = driven.text
        driven.app.ticks += 3
        await driven.settle()
        assert driven.text != before
        assert "%" not in driven.text.replace("HIT%", "")


async def test_a_failure_is_shown_in_full_and_q_leaves_with_1(drive, make_session) -> None:
    session = make_session()
    message = "no model [red]inside[/red]\nsecond line\x1b[0m\n" + "\n".join(f"line {n}" for n in range(5))
    session.phase(ses.Phase.FAILED, message)
    async with drive(session, NORMAL) as driven:
        assert isinstance(driven.app.screen, Failure)
        assert "no model [red]inside[/red]" in driven.text
        assert "second line␛[0m" in driven.text
        assert "line 4" in driven.text
        await driven.pilot.press("q")
        await driven.pilot.pause()
    assert driven.app.return_code == 1


async def test_the_last_picture_stays_when_the_workload_is_done(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        rows = [line for line in driven.lines if "RUN" in line]
        session.phase(ses.Phase.ENDED, "the workload is done")
        await driven.settle()
        assert "ENDED" in driven.lines[0]
        assert "the workload is done" in driven.lines[-1]
        assert [line for line in driven.lines if " RUN " in line] == [
            line for line in rows if " RUN " in line
        ]


# -- figures ----------------------------------------------------------------------------------------------


async def test_meters_name_pool_slots_host_and_counters(drive, session) -> None:
    c = session.published.counters
    async with drive(session, (160, 40)) as driven:
        text = driven.text
        assert f"{c.used_blocks} used ({c.shared_blocks} shared)  {c.cached_blocks} cached" in text
        assert f"{c.stored_tokens:,} of {c.slots:,} token slots  waste {c.slots - c.stored_tokens}" in text
        assert "0 of 128 blocks" in text
        assert "KV 12 MiB   weights 5.3 MiB" in text
        assert f"{c.evictions}   copied {c.cow_copies}" in text
        assert f"{c.prefix_queries:,} tokens" in text
        assert f"running {c.running}" in text


async def test_what_is_not_published_is_absent(drive, session) -> None:
    source = dataclasses.replace(
        session.published.source, bytes_per_block=None, weight_bytes=None, device=None, dtype=None, seed=None
    )
    counters = dataclasses.replace(
        session.published.counters,
        host_total_blocks=0,
        prefix_queries=0,
        prefix_hits=0,
        stored_tokens=0,
        slots=0,
    )
    session.published = dataclasses.replace(session.published, source=source, counters=counters, figures=None)
    async with drive(session, NORMAL) as driven:
        for word in ("KV ", "weights", "tok/s", "seed", "KiB", "0 %"):
            assert word not in driven.text
        assert "no host blocks" in driven.text
        assert "no prompt looked up yet" in driven.text


async def test_header_names_the_source_and_the_speed(drive, session) -> None:
    async with drive(session, (160, 40)) as driven:
        head = driven.lines[0]
        for word in (
            "inside-3m",
            "cpu bf16 numba",
            "512 blocks × 16 tokens",
            "mixed",
            "seed 7",
            "24 KiB a block",
        ):
            assert word in head
        assert "RUNNING" in head
        assert "20/s" in head
        session.current = ses.Status(ses.Phase.PAUSED, speed=0.0, elapsed_seconds=192.4)
        await driven.settle()
        assert "PAUSED  unbounded  00:03:12" in driven.lines[0]


async def test_the_header_says_why_the_kernels_are_not_the_first_choice(drive, session) -> None:
    source = session.published.source
    note = "numba is not installed"
    source = dataclasses.replace(source, kernels="torch", kernels_note=note)
    session.published = dataclasses.replace(session.published, source=source)
    async with drive(session, (160, 40)) as driven:
        assert f"inside-3m · cpu bf16 torch · {note} · 512 blocks" in driven.lines[0]


async def test_the_table_has_its_columns_and_dashes(drive, make_session) -> None:
    session = make_session(60).run(40)
    async with drive(session, NORMAL) as driven:
        head = next(line for line in driven.lines if "PROMPT" in line)
        words = ["ID", "STATE", "PROMPT", "GEN", "BLK", "SHR", "WASTE", "HIT%", "PRE", "TEXT"]
        assert [word for word in head.split() if word in words] == words
        waiting = next(row for row in session.published.sequences if row.state == "waiting")
        line = row_of(driven.lines, waiting.name)
        assert " - " in line
        assert waiting.wait_reason[:6] in line


async def test_the_log_tells_what_happened(drive, session) -> None:
    async with drive(session, (120, 90)) as driven:
        assert "Evicted" in driven.text
        assert "Admitted" in driven.text
        assert "Finished" in driven.text


# -- nothing changed, nothing drawn -----------------------------------------------------------------------


async def test_a_snapshot_that_did_not_change_draws_nothing(drive, session, monkeypatch) -> None:
    async with drive(session, NORMAL) as driven:
        drawn = []
        monkeypatch.setattr(driven.app.dashboard, "draw", lambda *a, **k: drawn.append(1))
        driven.app.refresh_view()
        assert drawn == []
        session.advance()
        driven.app.refresh_view()
        assert drawn == [1]


async def test_only_rows_that_differ_are_made_again(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        table, block_map = driven.app.dashboard.body("sequences"), driven.app.dashboard.body("map")
        view = driven.app.view(session.status)
        assert table.show(view) == []
        assert block_map.show(view) == []
        fill = session.published.blocks.fill.copy()
        used = np.flatnonzero(session.published.blocks.state == 2)[0]
        fill[used] = 1
        blocks = dataclasses.replace(session.published.blocks, fill=fill)
        changed = dataclasses.replace(session.published, blocks=blocks)
        geometry = block_map.geometry
        assert block_map.show(dataclasses.replace(view, snapshot=changed)) == [used // geometry.columns]


async def test_a_terminal_that_has_not_taken_the_last_frame_gets_no_other(
    drive, session, monkeypatch
) -> None:
    async with drive(session, NORMAL) as driven:
        asked = []
        monkeypatch.setattr(driven.app, "refresh_view", lambda **k: asked.append(1))
        monkeypatch.setattr(type(driven.app), "terminal_busy", True)
        driven.app._tick()
        assert asked == []
        monkeypatch.setattr(type(driven.app), "terminal_busy", False)
        driven.app._tick()
        assert asked == [1]


async def test_notices_cover_the_key_bar_for_a_while(drive, session) -> None:
    async with drive(session, NORMAL, fps=1.0) as driven:
        session.pending = [ses.Notice("added request 42\x1b[0m [red]")]
        await driven.settle()
        assert "✓  added request 42␛[0m [red]" in driven.lines[-1]
        driven.app.ticks += 10
        await driven.settle()
        assert "Help" in driven.lines[-1]


# -- sizes and hostile text -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "size", [(60, 18), (70, 22), (80, 24), (109, 30), (110, 24), (120, 36), (200, 50), (300, 90)]
)
async def test_every_size_shows_meters_and_map_in_full_lines(drive, session, size) -> None:
    async with drive(session, size) as driven:
        assert all(cell_len(line) == size[0] for line in driven.lines)
        assert len(driven.lines) == size[1]
        assert "Pool" in driven.text
        assert "Blocks (512)" in driven.text
        assert ("Sequences (" in driven.text) == (size[0] >= 70)
        assert ("Events" in driven.text) == (size[0] >= 110 and size[1] >= 30)
        assert "F10" in driven.lines[-1]


@pytest.mark.parametrize("size", [(59, 18), (60, 17), (20, 5), (8, 2)])
async def test_below_the_minimum_a_line_says_so_and_q_works(drive, session, size) -> None:
    async with drive(session, size) as driven:
        assert f"{size[0]}x{size[1]}" in driven.lines[0]
        assert "".join(driven.lines[1:]).strip() == ""
        await driven.press("n", "a")
        assert session.sent == []
        await driven.pilot.press("q")
        await driven.pilot.pause()
    assert driven.app.return_code == 0


async def test_one_panel_at_a_time_where_there_is_little_room(drive, session) -> None:
    async with drive(session, (60, 18)) as driven:
        assert "Blocks (" in driven.text
        await driven.press("tab")
        assert "Sequences (" in driven.text
        assert "Blocks (" not in driven.text
        await driven.press("tab")
        assert "Events" in driven.text
        await driven.press("tab")
        assert "Step 300" in driven.text
        await driven.press("tab", "right")
        assert "Blocks (" in driven.text
        assert "Selected: block 0" in driven.text


async def test_growing_and_shrinking_the_terminal_keeps_the_picture_whole(drive, session) -> None:
    async with drive(session, NORMAL) as driven:
        for size in ((80, 24), (50, 10), (60, 18), (200, 50), (120, 36)):
            await driven.pilot.resize_terminal(*size)
            await driven.settle()
            assert all(cell_len(line) == size[0] for line in driven.lines)
            assert ("Pool" in driven.text) == (size[0] >= 60)
        assert "Events" in driven.text


async def test_more_blocks_than_cells_are_summed_up_and_said(drive, make_session) -> None:
    async with drive(make_session(50_000).run(30), NORMAL) as driven:
        each = driven.app.dashboard.body("map").geometry.each
        assert each > 1
        assert f"1 half cell = {each} blocks" in driven.text


async def test_without_colours_glyphs_tell_the_states(drive, make_session, monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with drive(make_session(50_000).run(30), NORMAL) as driven:
        assert not driven.app.dashboard.body("map").geometry.half
        assert "▀" not in "".join(strip.text for strip in driven.app.dashboard.body("map").strips)


@pytest.mark.parametrize(
    "text",
    [
        "[red]x",
        "\x1b[31mred\x1b[0m",
        "a\tb\r\n",
        "漢字かな混じり文",
        "👍🏽👨‍👩‍👧🇺🇸",
        "e\u0301" * 9,
        "\u202eabc",
        "\ud800",
        "[/]",
    ],
)
async def test_hostile_text_is_shown_and_columns_stay(drive, session, text) -> None:
    session.vocabulary = dict.fromkeys(range(10_000), text)
    for sequence in session.sequences:
        sequence.label = text
    session.publish()
    async with drive(session, NORMAL) as driven:
        await driven.press("down")
        assert all(cell_len(line) == 120 for line in driven.lines)
        assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for line in driven.lines for c in line)
        edges = {line.rindex("│") for line in driven.lines if " RUN " in line and line.isascii()}
        assert len(edges) <= 1
        await driven.press("k")
        assert "Abort request" in driven.text
