"""What attention read."""

from __future__ import annotations

import dataclasses

import numpy as np

from kvtop.memory.events import sequence_id, sequence_name
from kvtop.timeline.snapshot import Read
from kvtop.ui.draw.glyphs import ASCII
from kvtop.ui.frame.row import RowKey

SIZE = (120, 40)


def read(request: int, *blocks: int, tokens: int | None = None, branch: int = 0) -> Read:
    sequence = sequence_id(request, branch)
    table = np.array(blocks, np.int32)
    return Read(sequence, sequence_name(sequence), tokens or 16 * len(blocks), table)


READS = (
    read(901, 0, 1, 2, 3, 9, 10, tokens=90),
    read(902, 0, 1, 2, 40, 30, 20),
    read(903, 0, 511, tokens=20),
)


def publish(session, reads=READS, **changes) -> None:
    """Show these reads, whatever is selected later."""
    session.published = dataclasses.replace(session.published, reads=reads, **changes)
    session.select = lambda **_: None


def body(driven) -> list[str]:
    return [strip.text for strip in driven.app.dashboard.bodies["kernel"].strips]


def row_of(driven, name: str) -> list[str]:
    line = next(line for line in body(driven) if line[2:].startswith(f"{name} "))
    return line[1:].split()


async def test_the_step_in_figures(drive, session) -> None:
    figures = dataclasses.replace(session.published.figures, kv_bytes_read=3 << 20)
    publish(session, figures=figures)
    async with drive(session, SIZE) as driven:
        await driven.press("7")
        assert "Kernel: numba paged decode" in driven.text
        assert "gathered  3 MiB" in driven.text
        assert "206 tokens" in driven.text
        assert "3 sequences" in driven.text
        # 0-3, 9, 10, 20, 30, 40, 511; shared: 0 three times, 1 and 2 twice
        assert "10 read, 14 with repeats" in driven.text
        # 2 + 4 + 2 runs
        assert "8 runs" in driven.text
        # 14 blocks follow each other 11 times, 6 times side by side
        assert "55 % of the blocks that follow each other" in driven.text


async def test_a_row_a_sequence(drive, session) -> None:
    publish(session)
    async with drive(session, (200, 50)) as driven:
        await driven.press("7")
        per_token = session.published.source.bytes_per_block / 16
        head = next(line for line in body(driven) if "TOKENS" in line).split()[:8]
        assert head == ["ID", "TOKENS", "BLOCKS", "RUNS", "MEAN", "ADJ", "%", "SPAN"]
        assert row_of(driven, "901")[:7] == ["901", "90", "6", "2", "3.0", "80", "11"]
        assert row_of(driven, "901")[7:9] == [f"{90 * per_token / 1024:.0f}", "KiB"]
        assert row_of(driven, "902")[:7] == ["902", "96", "6", "4", "1.5", "40", "41"]
        assert row_of(driven, "903")[-1] == "▁▇"


async def test_the_map_tells_how_many_read_a_block(drive, session) -> None:
    publish(session)
    async with drive(session, (200, 50), glyphs=ASCII) as driven:
        await driven.press("7")
        lines = body(driven)
        at = next(place for place, line in enumerate(lines) if "adjacent" in line)
        inner = len(lines[0]) - 2
        signs = "".join(line[1:-1] for line in lines[at + 1 : at + 6] if "TOKENS" not in line)[:512]
        assert inner * 2 < 512
        assert signs[:11] == "3221.....11"
        assert (signs[20], signs[30], signs[40], signs[511]) == ("1", "1", "1", "1")
        assert signs.count(".") == 512 - 10


async def test_the_selected_sequence_stands_out(drive, session) -> None:
    publish(session)
    session.published = dataclasses.replace(
        session.published,
        sequences=tuple(
            dataclasses.replace(row, id=sequence_id(902), name="902", request=902, branch=0, n=1)
            for row in session.published.sequences[:1]
        ),
    )
    async with drive(session, (200, 50), glyphs=ASCII) as driven:
        await driven.press("7", "down", "down")
        assert driven.app.selection.row == RowKey(902, 0)
        lines = body(driven)
        at = next(place for place, line in enumerate(lines) if "adjacent" in line)
        assert lines[at + 1][1:12] == "###:.....::"
        await driven.press("enter")
        assert driven.app.selection.block == 0


async def test_the_cursor_stays_in_sight_and_rows_are_sorted(drive, session) -> None:
    publish(
        session, tuple(read(100 + n, *range(n % 7 * 2, n % 7 * 2 + n), tokens=5 * n) for n in range(1, 60))
    )
    async with drive(session, (80, 24)) as driven:
        await driven.press("7")
        assert "more below" in driven.text
        await driven.press("end")
        assert row_of(driven, "159")
        await driven.press("f6", "f6")
        assert "most tokens first" in driven.text
        await driven.press("home")
        names = [
            line.split()[0].strip("▌") or line.split()[1] for line in body(driven) if line.startswith("▌")
        ]
        assert names[0] == "159"


async def test_what_is_not_published(drive, session) -> None:
    source = dataclasses.replace(session.published.source, attention=None, bytes_per_block=None)
    figures = dataclasses.replace(session.published.figures, kv_bytes_read=None)
    publish(session, source=source, figures=figures)
    async with drive(session, SIZE) as driven:
        await driven.press("7")
        assert "Kernel: not published" in driven.text
        assert "bytes not published" in driven.text
        publish(session, ())
        await driven.settle()
        assert "what attention reads is not published" in driven.text
        publish(session, (), figures=dataclasses.replace(figures, scheduled_tokens=0))
        await driven.settle()
        assert "the newest step read nothing" in driven.text
        await driven.press("down", "enter", "f6")


async def test_a_click_selects_the_sequence(drive, session) -> None:
    async with drive(session, SIZE) as driven:
        await driven.press("7")
        place = next(place for place, line in enumerate(body(driven)) if "TOKENS" in line) + 2
        await driven.pilot.click("#kernel", offset=(10, place))
        await driven.settle()
        name = body(driven)[place].strip("▌ ").split()[0]
        chosen = driven.app.selection.row
        assert chosen is not None
        assert chosen.request == int(name.split(".")[0])
