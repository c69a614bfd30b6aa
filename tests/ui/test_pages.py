"""The inspector's pages: what they say of a block, a sequence and a step, and that they fit every size."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from rich.cells import cell_len

from kvtop.memory import events as ev
from kvtop.memory.events import sequence_id
from kvtop.timeline.snapshot import BlockState, Owner, Preemption, SequenceDetail
from kvtop.ui.draw.palette import ink_index
from kvtop.ui.draw.text import size
from kvtop.ui.panels.inspector.block import block_page
from kvtop.ui.panels.inspector.sequence import sequence_page, table_runs
from kvtop.ui.panels.inspector.step import step_page
from tests.ui.fake_session import FakeSession
from tests.ui.views import PALETTE, row_of, sequence_lines, texts, view_of, with_snapshot

SIZES = [(36, 4), (38, 6), (48, 8), (60, 10), (78, 20), (78, 38), (120, 12)]


@pytest.fixture(scope="module")
def crowded():
    """A pool that was too small: sequences of all states, and a group that was swapped out."""
    return FakeSession(230).run(300)


# -- every page, every size -------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_pages_keep_to_their_size_and_the_whole_page_is_there(crowded, width, height):
    pages = []
    states = [int(np.flatnonzero(crowded.published.blocks.state == state)[0]) for state in (1, 2, 3)]
    for block in states:
        view = view_of(crowded, block=block)
        pages.append(lambda h, v=view: block_page(v, v.snapshot.block_detail, v.snapshot.step, width, h))
    for row in view_of(crowded).rows:
        view = view_of(crowded, sequence=row.sequences[0].id)
        pages.append(lambda h, v=view, row=row: sequence_page(v, v.snapshot, row, width, h))
    view = view_of(crowded)
    pages.append(lambda h, v=view: step_page(v, v.snapshot, width, h))
    for make in pages:
        whole, cut = make(None), make(height)
        assert len(cut) == height or (len(cut) < height and len(cut) == len(whole))
        assert all(cell_len(line) <= width for line in texts(cut))
        assert all(line.strip() for line in texts(cut))
        assert texts(cut)[0] == texts(whole)[0], "the most telling line comes first"


# -- block ------------------------------------------------------------------------------------------------


def block_texts(view, width=78, height=None, **changed):
    detail = dataclasses.replace(view.snapshot.block_detail, **changed)
    return texts(block_page(view, detail, view.snapshot.step, width, height))


def shared_block(session):
    return int(np.argmax(session.published.blocks.ref_count))


def test_a_shared_block_tells_its_owners_hash_tokens_and_life(session):
    view = view_of(session, block=shared_block(session))
    detail = view.snapshot.block_detail
    lines = block_texts(view)
    assert lines[0].split("· ")[0].strip() == "state   shared"
    assert f"ref count {detail.ref_count} · full, 16 of 16 slots" in lines[0]
    owners = next(line for line in lines if line.startswith(" owners"))
    assert owners.split()[1:] == [f"{owner.name}[{owner.logical}]" for owner in detail.owners]
    first = detail.first_position
    tokens = next(line for line in lines if line.startswith(" tokens"))
    assert tokens.startswith(f" tokens  {first}-{first + 15} “ ")
    assert any(f"#{detail.token_ids[0]}" in line for line in lines)
    assert f"{detail.hash & (1 << 64) - 1:016x}" in "\n".join(lines)
    told = [line.strip() for line in lines if line.strip().endswith(detail.life[-1].split(" ", 1)[1])]
    assert told


def test_owners_have_the_colour_of_their_blocks(session):
    view = view_of(session, block=shared_block(session))
    detail = view.snapshot.block_detail
    inks = {text: style for line in block_page(view, detail, 300, 78, None) for text, style in line}
    for owner in detail.owners:
        assert inks[owner.name] == PALETTE.chip(ink_index(owner.sequence >> 16, owner.sequence & 0xFFFF))


def test_many_owners_are_counted_where_they_do_not_fit(session):
    view = view_of(session, block=shared_block(session))
    owners = tuple(Owner(sequence_id(number), str(number), 3) for number in range(100, 160))
    whole = block_texts(view, owners=owners)
    assert sum(line.count("[3]") for line in whole) == 60 and " more" not in "".join(whole[:9])
    small = block_texts(view, 36, 4, owners=owners)
    assert small[1] == " owners  100[3]  101[3] and 58 more"
    assert len(small) == 4 and small[2].startswith(" tokens") and small[3].startswith(" life")


def test_the_block_before_it_is_named(session):
    view = view_of(session, block=shared_block(session))
    parent = {"hash": 0x1234, "parent_hash": 0x5678}
    assert any(
        "0000000000001234 after 0000000000005678, block 77" in line
        for line in block_texts(view, **parent, parent_block=77)
    )
    assert any("5678, not cached" in line for line in block_texts(view, **parent, parent_block=None))
    first = block_texts(view, hash=0x1234, parent_hash=None)
    assert any("first block of its prompt" in line for line in first)
    narrow = block_texts(view, 50, 12, hash=-1, parent_hash=-2, parent_block=9)
    assert any(line == " hash    ffffffffffffffff" for line in narrow)
    assert any(line == "         after fffffffffffffffe, block 9" for line in narrow)
    without = block_texts(view, hash=None, parent_hash=None, fill=5)
    assert any("none: it is not full yet, so nobody can find it" in line for line in without)


def test_a_cached_block_says_how_long_it_has_been_idle(session):
    view = view_of(session, block=shared_block(session))
    idle = {"state": BlockState.CACHED, "ref_count": 0, "owners": ()}
    lines = block_texts(view, **idle, touched=view.snapshot.step - 96)
    assert lines[0] == " state   cached · idle 96 steps · ref count 0 · may be evicted"
    assert lines[1] == " owners  none"
    assert block_texts(view, 36, 4, **idle, touched=204)[0] == " state   cached · idle 96 steps"
    free = block_texts(view, state=BlockState.FREE, ref_count=0, fill=0, token_ids=None, touched=0)
    assert free[0] == " state   free · ref count 0 · holds nothing · never used"
    assert not any("not published" in line for line in free)


def test_life_is_told_oldest_first_and_the_newest_is_kept(session):
    view = view_of(session, block=shared_block(session))
    life = tuple(f"{step} shared with {step}" for step in range(1998, 2006))
    lines = block_texts(view, life=life)
    start = next(index for index, line in enumerate(lines) if line.startswith(" life"))
    assert lines[start : start + 8] == [
        f"{' life' if step == 1998 else '':<9}{step:,} shared with {step}" for step in range(1998, 2006)
    ]
    assert block_texts(view, 36, 4, life=life)[-1] == " life    2,005 shared with 2005"


def test_tokens_that_are_not_published_are_not_empty(session):
    view = view_of(session, block=shared_block(session))
    lines = block_texts(view, token_ids=None, first_position=None)
    assert " tokens  not published" in lines


# -- sequence ---------------------------------------------------------------------------------------------


def selected(session, *, n=1, state="running"):
    found = next(s for s in session.sequences if s.n == n and s.state == state)
    view = view_of(session, sequence=found.id)
    return view, row_of(view, found.request, found.branch if n == 1 else None), found


def test_a_sequence_tells_its_tokens_blocks_and_table(session):
    view, row, found = selected(session)
    one = row.sequences[0]
    one = dataclasses.replace(one, stored_tokens=one.stored_tokens - 1, waste_slots=one.waste_slots + 1)
    lines = sequence_lines(view, row._replace(sequences=(one,)))
    assert (
        lines[0] == f" tokens  {found.prompt} prompt + {found.stored - found.prompt} generated, at most 130"
    )
    assert lines[1].endswith(f"{found.stored - 1} of {found.stored} · 1 to be computed")
    percent = f"{100 * found.hit / found.prompt:.0f} %"
    prefix = f" prefix  {found.hit} of {found.prompt} prompt tokens found ({percent})"
    assert f"{prefix}, {found.prompt - found.hit} computed" in lines
    blocks = next(line for line in lines if line.startswith(" blocks"))
    assert f"{len(found.table)} blocks · {one.shared_blocks} shared · waste {one.waste_slots} slot" in blocks
    table = "  ".join(line[9:] for line in lines[4 : [line[:7] for line in lines].index(" prompt")])
    assert expanded(table) == found.table


def expanded(table):
    """The physical blocks of a table as it is shown."""
    blocks = []
    for run in table.split():
        logical, physical = run.split("→")
        assert int(logical.split("-")[0]) == len(blocks)
        ends = [int(end) for end in physical.split("-")]
        step = 1 if ends[-1] >= ends[0] else -1
        blocks += range(ends[0], ends[-1] + step, step)
        assert int(logical.split("-")[-1]) == len(blocks) - 1
    return blocks


def test_runs_of_a_table_break_where_the_reference_count_changes():
    table = np.array([4, 5, 6, 7, 3, 2, 1, 9, 11], np.int32)
    references = np.array([0, 1, 1, 1, 2, 2, 1, 1, 0, 1, 0, 1], np.int32)
    assert table_runs(table, references) == [
        (0, 1, 4, 5, 2),
        (2, 3, 6, 7, 1),
        (4, 6, 3, 1, 1),
        (7, 7, 9, 9, 1),
        (8, 8, 11, 11, 1),
    ]
    assert table_runs(table, None) == [
        (0, 3, 4, 7, 0),
        (4, 6, 3, 1, 0),
        (7, 7, 9, 9, 0),
        (8, 8, 11, 11, 0),
    ]
    assert table_runs(np.array([], np.int32), references) == []
    assert table_runs(np.array([5, 4, 5], np.int32), None) == [(0, 1, 5, 4, 0), (2, 2, 5, 5, 0)]


def test_prompt_and_generated_text_are_told_apart(session):
    view, row, found = selected(session)
    detail = SequenceDetail(found.id, row.name, tuple(range(17)), (3, 4, 5))
    view = with_snapshot(view, sequence_detail=detail)
    lines = sequence_page(view, view.snapshot, row, 200, None)
    styles = {text.strip(): style for line in lines for text, style in line}
    prompt = session.text(detail.prompt_token_ids).strip()
    made = session.text(detail.generated_token_ids).strip()
    assert styles[prompt] == PALETTE.style("muted") and styles[made] == PALETTE.style("text")
    assert texts(lines)[-2:] == [f" prompt  {prompt}", f" text    {made}"]
    assert sequence_lines(view, row, 36, 4)[-1] == f" text    {made}", "the newest text is always there"


def lost(view, row, **fields):
    was = {"step": 285, "mode": "swap", "why": "41 needed 2 more blocks", "blocks_short": 2, "blocks": 32}
    preemption = Preemption(**{**was, "tokens": 507, "resumed": None, **fields})
    detail = dataclasses.replace(view.snapshot.sequence_detail, preemptions=(preemption,))
    view = with_snapshot(view, sequence_detail=detail)
    lines = sequence_lines(view, row, 100)
    start = next(index for index, line in enumerate(lines) if line.startswith(" lost"))
    return [line.strip() for line in lines[start : start + 2]]


def test_a_preemption_says_why_and_what_it_cost(session):
    view, row, _ = selected(session)
    assert lost(view, row) == [
        "lost    step 285: 41 needed 2 more blocks",
        "swap: 32 blocks (768 KiB) moved out to host memory · out for 15 steps so far",
    ]
    assert lost(view, row, resumed=286)[1] == (
        "swap: 32 blocks (768 KiB) moved out and back · ran again after 1 step"
    )
    assert lost(view, row, mode="recompute")[1] == (
        "recompute: 507 tokens to be computed again · out for 15 steps so far"
    )
    assert lost(view, row, mode="recompute", resumed=300)[1] == (
        "recompute: 507 tokens computed again · ran again after 15 steps"
    )
    assert lost(view, row, why="the pool was full")[0].endswith("the pool was full, 2 short")
    assert lost(view, row, why="asked for", blocks_short=0)[0].endswith(": asked for")
    bare = with_snapshot(view, source=dataclasses.replace(view.snapshot.source, bytes_per_block=None))
    assert lost(bare, row)[1].startswith("swap: 32 blocks moved out")


def test_a_waiting_sequence_says_why(crowded):
    view, row, found = selected(crowded, state="waiting")
    lines = sequence_lines(view, row, 36, 4)
    assert lines[1] == f" waits   {found.wait_reason}"
    assert lines[2] == f" stored  0 · {found.prompt} to be computed"
    assert not any(line.startswith((" blocks", " table")) for line in sequence_lines(view, row))


def test_a_group_has_a_line_for_every_branch(crowded):
    view, row, found = selected(crowded, n=3)
    lines = sequence_lines(view, row)
    assert lines[0].startswith(f" tokens  3 samples · {found.prompt} prompt + ")
    assert lines[0].endswith("at most 130 each")
    start = next(index for index, line in enumerate(lines) if line.startswith(" samples"))
    for branch, line in enumerate(lines[start : start + 3], 1):
        assert line[9:].startswith(f".{branch} ") and "blocks, " in line
    assert sequence_lines(view, row, 36, 4)[-1] == "         .2  .3"


# -- step -------------------------------------------------------------------------------------------------


def step_lines(view, width=78, height=None):
    return texts(step_page(view, view.snapshot, width, height))


def figured(view, **fields):
    return with_snapshot(view, figures=dataclasses.replace(view.snapshot.figures, **fields))


def test_the_step_says_what_it_did_and_what_it_took(session):
    view = figured(view_of(session), scheduled_tokens=40, prefill_tokens=30, kv_bytes_read=11 << 20)
    lines = step_lines(view)
    assert lines[0].endswith("40 scheduled: 30 prefill, 10 decode")
    bar = lines[0][lines[0].index("[") + 1 : lines[0].index("]")]
    assert bar.count(view.glyphs.shared) == round(len(bar) * 0.75)
    assert bar.count(view.glyphs.full) == len(bar) - bar.count(view.glyphs.shared)
    assert (
        lines[1].endswith("12.3 ms: schedule 1 %, model 98 %, update 2 %")
        or "12.3 ms, model 98 %" in lines[1]
    )
    assert " schedule 100 µs · model 12.0 ms · update 200 µs" in lines[2]
    positions, number = sum(read.tokens for read in view.snapshot.reads), len(view.snapshot.reads)
    assert f" read    11 MiB of K/V: {positions:,} positions of {number} sequences" in lines
    rates = view.snapshot.figures
    assert f" speed   {rates.tokens_per_second:,.0f} tokens/s · 20 steps/s" in lines


def test_every_sequence_of_the_batch_is_there(session):
    view = view_of(session)
    lines = step_lines(view)
    start = next(index for index, line in enumerate(lines) if line.startswith(" batch"))
    for read, line in zip(view.snapshot.reads, lines[start:], strict=False):
        name, positions, _, blocks, _, *read_of_it = line[9:].split()
        assert (name, positions, blocks) == (read.name, f"{read.tokens:,}", str(len(read.table)))
        assert " ".join(read_of_it) == size(read.tokens * 24576 / 16)
    names = [read.name for read in view.snapshot.reads]
    small = step_lines(view, 60, 10)
    start = next(index for index, line in enumerate(small) if line.startswith(" batch"))
    assert " ".join(line[9:] for line in small[start : start + 2]).split()[: len(names)] == names
    some = step_lines(view, 78, 16)
    start = next(index for index, line in enumerate(some) if line.startswith(" batch"))
    told = [line for line in some[start:] if "positions" in line and "K/V" not in line]
    assert 2 < len(told) < len(names) and names[len(told)] in some[start + len(told)].split()


def test_what_is_not_published_is_not_zero(session):
    view = figured(view_of(session), kv_bytes_read=None, tokens_per_second=None, steps_per_second=None)
    lines = step_lines(view)
    assert any(line.endswith("bytes not published") for line in lines)
    assert not any(line.startswith(" speed") for line in lines)
    timeless = figured(view, schedule_seconds=0.0, run_seconds=0.0, update_seconds=0.0)
    assert " time    not published" in step_lines(timeless)
    assert step_lines(with_snapshot(view, figures=None))[0] == " step    figures not published"
    assert step_lines(with_snapshot(view, figures=None, step=0))[0] == " step    no step has run yet"
    nothing = figured(view, scheduled_tokens=0, prefill_tokens=0)
    assert step_lines(nothing)[0] == " tokens  none scheduled"
    assert "all prefill" in step_lines(figured(view, scheduled_tokens=9, prefill_tokens=9))[0]


def test_events_of_the_step_are_counted(session):
    trace = (
        ev.Evicted(299, 1, (9, 8)),
        ev.Evicted(300, 1, (1, 2, 3)),
        ev.Copied(300, 2, 4, 5, sequence_id(1), 3),
        ev.Evicted(300, 3, (6,)),
    )
    view = with_snapshot(view_of(session), trace=trace)
    assert " events  4 evicted  1 copied" in step_lines(view)
    assert not any(line.startswith(" events") for line in step_lines(with_snapshot(view, trace=trace[:1])))
