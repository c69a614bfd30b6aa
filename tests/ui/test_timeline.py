"""The panel of all events, and the filter of the log."""

from __future__ import annotations

import dataclasses

import pytest

from kvtop.memory import events as ev
from kvtop.memory.events import sequence_id
from kvtop.ui.frame.row import RowKey
from kvtop.ui.frame.view import Selection

SIZE = (100, 40)


def publish(session, *events: ev.AnyEvent) -> None:
    """Show these events, whatever is selected later."""
    session.select = lambda **_: None
    session.published = dataclasses.replace(session.published, trace=events, events=events)


def evictions(first: int, end: int) -> list[ev.AnyEvent]:
    return [ev.Evicted(step, 0, (step,)) for step in range(first, end)]


def shown_steps(driven) -> list[int]:
    """Steps of the lines in sight, from the top."""
    lines = [line for line in driven.lines if "Evicted" in line and ".0 " in line]
    return [int(line.split(".0 ")[0].strip("│ ").replace(",", "")) for line in lines]


async def test_every_event_has_a_line_with_its_moment(drive, session) -> None:
    a = sequence_id(3)
    publish(
        session,
        ev.Cached(1284, 30, (9, 10), a, 4, (1, 2), (0, 1)),
        ev.StepEnded(1284, 31, 40, 20, 0.0, 0.012, 0.0),
    )
    async with drive(session, SIZE) as driven:
        await driven.press("6")
        assert "1,284.30" in driven.text
        line = next(line for line in driven.lines if "1,284.30" in line)
        assert "▌ Cached      3[4-5]: 9-10" in line
        assert "1,284.31   Step ended  40 tokens, 20 of them prefill in 12.0 ms, model 100 %" in driven.text
        assert "2 events" in driven.text


async def test_it_follows_the_newest_until_the_cursor_moves(drive, session) -> None:
    publish(session, *evictions(0, 100))
    async with drive(session, SIZE) as driven:
        await driven.press("6")
        timeline = driven.app.dashboard.bodies["trace"]
        assert shown_steps(driven)[-1] == 99
        publish(session, *evictions(1, 105))
        await driven.settle()
        assert shown_steps(driven)[-1] == 104
        await driven.press("up")
        assert timeline.state.at == (104, 0)
        before = shown_steps(driven)
        publish(session, *evictions(90, 200))
        await driven.settle()
        assert shown_steps(driven) == before
        assert "held at step 104, End follows" in driven.text
        await driven.press("home")
        assert shown_steps(driven)[0] == 1
        await driven.press("pagedown", "up")
        assert shown_steps(driven)[0] == 1
        await driven.press("end")
        assert timeline.state.at is None
        assert shown_steps(driven)[-1] == 199


async def test_down_from_the_last_event_follows_again(drive, session) -> None:
    publish(session, *evictions(0, 9))
    async with drive(session, SIZE) as driven:
        await driven.press("6", "up", "up", "down")
        assert driven.app.dashboard.bodies["trace"].state.at == (8, 0)
        await driven.press("down")
        assert driven.app.dashboard.bodies["trace"].state.at is None


async def test_what_was_held_is_let_go_when_the_run_begins_anew(drive, session) -> None:
    publish(session, *evictions(50, 99))
    async with drive(session, SIZE) as driven:
        await driven.press("6", "up")
        publish(session, *evictions(0, 5))
        await driven.settle()
        assert shown_steps(driven) == [0, 1, 2, 3, 4]


async def test_a_filter_is_typed_and_told_and_taken_away(drive, session) -> None:
    trace = sorted([*evictions(0, 1200), ev.Resumed(700, 1, 8)], key=lambda event: (event.step, event.order))
    publish(session, *trace[-1024:])
    async with drive(session, SIZE) as driven:
        await driven.press("6", "backslash", *"resumed", "enter")
        assert "Events: “resumed”" in driven.text
        assert "1 of newest 1,024" in driven.text
        assert "700.1" in driven.text
        assert shown_steps(driven) == []
        await driven.press("f4", *"x")
        assert "nothing fits “x”" in driven.text
        await driven.press("escape")
        assert shown_steps(driven)[-1] == 1199
        assert "newest 1,024" in driven.text


async def test_the_cursor_goes_to_the_event_before_one_that_a_filter_hides(drive, session) -> None:
    events = [ev.Resumed(1, 0, 1), *evictions(2, 9), ev.Resumed(9, 1, 1), ev.Resumed(10, 0, 1)]
    publish(session, *events)
    async with drive(session, SIZE) as driven:
        await driven.press("6", *["up"] * 4, "backslash", *"resumed", "enter", "down")
        timeline = driven.app.dashboard.bodies["trace"]
        assert timeline.state.at == (9, 1)


async def test_a_search_goes_from_the_newest_to_older_ones_and_round(drive, session) -> None:
    events = evictions(0, 60)
    for place in (10, 30, 55):
        events[place] = ev.Resumed(place, 0, place)
    publish(session, *events)
    async with drive(session, SIZE) as driven:
        await driven.press("6", "slash", *"resumed")
        timeline = driven.app.dashboard.bodies["trace"]
        assert timeline.state.at == (55, 0)
        assert "1 of 3" in driven.text
        await driven.press("f3")
        assert timeline.state.at == (30, 0)
        await driven.press("f3", "f3")
        assert timeline.state.at == (55, 0)
        await driven.press("shift+f3")
        assert timeline.state.at == (10, 0)
        await driven.press("enter")
        assert any("»" in line and "Resumed" in line for line in driven.lines)
        await driven.press("escape")
        assert not any("»" in line for line in driven.lines)


async def test_enter_selects_block_and_sequence(drive, session) -> None:
    row = next(row for row in session.published.sequences if row.state == "running" and row.n == 1)
    block = int(row.table[2])
    publish(
        session,
        ev.Allocated(5, 0, (block, block + 1), row.id, 2),
        ev.Preempted(5, 1, row.request, ev.PreemptionMode.SWAP, "why", 1),
        ev.Preempted(5, 2, 9999, ev.PreemptionMode.SWAP, "why", 1),
        ev.StepEnded(5, 3, 1, 0, 0.0, 0.0, 0.0),
    )
    async with drive(session, SIZE) as driven:
        await driven.press("6", "up", "enter")
        assert "about no block and no sequence" in driven.text
        await driven.press("up", "enter")
        assert "9999, which has left" in driven.text
        await driven.press("up", "enter")
        assert driven.app.selection == Selection(RowKey(row.request, 0), None)
        await driven.press("up", "enter")
        assert driven.app.selection == Selection(RowKey(row.request, 0), block)


@pytest.mark.parametrize(("preset", "panel"), [("1", "log"), ("6", "trace")])
async def test_a_click_on_a_line_selects_its_block(drive, session, preset, panel) -> None:
    publish(session, *(ev.Copied(step, 0, step, step + 100, sequence_id(9999), 0) for step in range(4)))
    async with drive(session, (120, 40)) as driven:
        await driven.press(preset)
        await driven.pilot.click(f"#{panel}", offset=(30, 1))
        await driven.settle()
        assert driven.app.selection.block == 101


async def test_the_log_is_filtered_too_and_keeps_who_got_the_block(drive, session) -> None:
    publish(
        session,
        ev.Resumed(7, 0, 1),
        ev.Evicted(7, 1, (318,)),
        ev.Allocated(7, 2, (318,), sequence_id(45), 3),
        ev.Resumed(8, 0, 2),
        ev.Evicted(8, 1, (5,)),
    )
    async with drive(session, (120, 40)) as driven:
        driven.app.dashboard.set_focus(driven.app.dashboard.bodies["log"])
        await driven.press("backslash", *"evicted block 318", "enter")
        assert "Events: “evicted block 318”" in driven.text
        assert "318, now 45[3]" in driven.text
        assert "Resumed" not in driven.text


async def test_no_event_yet(drive, session) -> None:
    publish(session)
    async with drive(session, SIZE) as driven:
        await driven.press("6", "up", "enter")
        assert "no event yet" in driven.text
