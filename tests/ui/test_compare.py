"""Paging beside contiguous reservation."""

from __future__ import annotations

import dataclasses

import pytest

from kvtop.analysis.reservations import Region, Reservation
from kvtop.ui.panels.compare.strip import Fill, Part, parts_of, runs_of
from tests.ui.fake_session import FakeSession

# -- the strip --------------------------------------------------------------------------------------------


def cells_of(parts: list[Part], slots: int, cells: int) -> list[Part]:
    return [part for part, number in runs_of(parts, slots, cells) for _ in range(number)]


def fills(parts: list[Part]) -> str:
    return "".join(".culn"[part.fill] for part in parts)


def test_a_strip_is_in_proportion() -> None:
    held = Reservation(100, (Region(1, 20, 10, 10), Region(2, 10, 0, 20)), 2, 3, 10, 0)
    parts = parts_of(held)
    assert sum(part.slots for part in parts) == 100
    assert fills(cells_of(parts, 100, 10)) == "uulnunnc.."
    assert (
        fills(cells_of(parts, 100, 100))
        == "u" * 20 + "l" * 10 + "n" * 10 + "u" * 10 + "n" * 20 + "c" * 10 + "." * 20
    )
    assert [part.request for part in cells_of(parts, 100, 10)] == [1, 1, 1, 1, 2, 2, 2, -1, -1, -1]


def test_rounding_errors_do_not_add_up() -> None:
    parts = [Part(3, Fill.USED, 1), Part(1, Fill.NEVER, 1)] * 25
    cells = cells_of(parts, 100, 40)
    assert len(cells) == 40
    assert 25 <= fills(cells).count("u") <= 35


def test_what_is_more_than_the_pool_is_cut() -> None:
    assert fills(cells_of([Part(300, Fill.USED, 1)], 100, 10)) == "u" * 10
    assert cells_of([Part(3, Fill.USED)], 0, 10) == []


# -- the panel --------------------------------------------------------------------------------------------


def body(driven) -> list[str]:
    return [strip.text for strip in driven.app.dashboard.bodies["compare"].strips]


def figures(driven, scheme: str) -> list[str]:
    return next(line for line in body(driven) if line.startswith(f" {scheme}")).split()


async def test_max_wastes_most_and_paging_least(drive, session) -> None:
    c = session.published.counters
    async with drive(session, (80, 24)) as driven:
        await driven.press("5")
        lines = body(driven)
        assert lines[0].startswith(" Paged")
        paged = figures(driven, "paged")
        # admitted `of` requests, more, used, later, never, share
        assert int(paged[5].replace(",", "")) == c.stored_tokens
        assert int(paged[7].replace(",", "")) == c.slots - c.stored_tokens
        shares = [int(figures(driven, name)[8].split(".")[0]) for name in ("paged", "oracle", "pow2", "max")]
        assert shares == sorted(shares, reverse=True)
        assert shares[0] > 90 > 30 > shares[-1]
        admitted = [int(figures(driven, name)[1]) for name in ("paged", "oracle", "pow2", "max")]
        assert admitted == sorted(admitted, reverse=True)
        assert admitted[-1] == c.total_blocks * 16 // 2048
        assert any("Contiguous, max" in line for line in lines)
        assert "not simulated" in lines[-1] or "not simulated" in lines[-2]


async def test_left_and_right_and_sort_choose_the_scheme(drive, session) -> None:
    async with drive(session, (120, 36)) as driven:
        await driven.press("5")

        def drawn() -> str:
            return next(line for line in body(driven) if "Contiguous," in line).split()[1]

        assert drawn() == "max"
        await driven.press("left")
        assert drawn() == "max"
        await driven.press("right")
        assert drawn() == "pow2"
        await driven.press("right", "right")
        assert drawn() == "oracle"
        await driven.press("f6")
        assert drawn() == "max"
        await driven.press("down")
        assert drawn() == "max"


async def test_without_positions_there_is_no_max(drive, session) -> None:
    source = dataclasses.replace(session.published.source, max_positions=None, bytes_per_block=None)
    session.published = dataclasses.replace(session.published, source=source)
    session.select = lambda **_: None
    async with drive(session, (120, 36)) as driven:
        await driven.press("5")
        assert "not published" in next(line for line in body(driven) if line.startswith(" max"))
        assert any("Contiguous, pow2" in line for line in body(driven))
        assert "TAKES" not in driven.text
        await driven.press("left", "f6", "f6")
        assert any("Contiguous, pow2" in line for line in body(driven))


@pytest.mark.parametrize("size", [(60, 18), (80, 24), (200, 50)])
async def test_both_strips_are_there_at_every_size(drive, session, size) -> None:
    async with drive(session, size) as driven:
        await driven.press("5")
        lines = body(driven)
        at = [
            place for place, line in enumerate(lines) if line.startswith((" Paged", " Contiguous", " SCHEME"))
        ]
        assert len(at) == 3
        assert abs((at[1] - at[0]) - (at[2] - at[1])) <= 1
        assert all("…" not in line for line in lines)
        assert len([line for line in lines if "░" in line]) >= 1


async def test_nothing_runs(drive) -> None:
    session = FakeSession()
    session.phase(session.current.phase.RUNNING)
    session.publish()
    async with drive(session, (80, 24)) as driven:
        await driven.press("5")
        assert "nothing to compare" in driven.text
