"""The inspector: what gives way where there is little room, and that it scrolls."""

from __future__ import annotations

from kvtop.ui.frame.view import Selection
from kvtop.ui.panels.inspector.sections import Section, items, newest, page, text_lines
from tests.ui.views import PALETTE, PLAIN, row_of, sequence_lines, texts, view_of

# -- sections ---------------------------------------------------------------------------------------------


def lettered(name, wanted, rank, least=1):
    return Section(name, wanted, lambda number: [((name, PLAIN),)] * number, rank, least)


def shown(sections, height):
    return "".join(line.split()[-1] for line in texts(page(sections, height, PALETTE)))


def test_the_lowest_ranks_get_the_lines_and_the_order_stays():
    sections = [lettered("a", 3, 2), lettered("b", 5, 0, 2), lettered("c", 1, 1)]
    assert shown(sections, 0) == ""
    assert shown(sections, 1) == "b"
    assert shown(sections, 2) == "bb"
    assert shown(sections, 3) == "bbc"
    assert shown(sections, 4) == "abbc"
    assert shown(sections, 6) == "abbbbc"
    assert shown(sections, 8) == "aabbbbbc"
    assert shown(sections, 99) == shown(sections, None) == "aaabbbbbc"


def test_a_label_stands_before_the_first_line_only():
    assert texts(page([lettered("a", 2, 0)], None, PALETTE)) == [" a       a", "         a"]


def test_items_are_never_broken_and_the_rest_is_counted(session):
    view = view_of(session)
    parts = [((f"item{number}", PLAIN),) for number in range(10, 30)]
    whole = items("x", parts, 30, 0, view)
    assert whole.wanted == 5  # four of six cells, and gaps of two
    everything = [text for line in whole.make(5) for text, _ in line]
    assert [text for text in everything if text.strip()] == [text for ((text, _),) in parts]
    assert "more" not in "".join(everything)
    for number in range(1, 5):
        lines = texts(whole.make(number))
        assert len(lines) == number and all(len(line) <= 30 for line in lines)
        kept = sum(line.count("item") for line in lines)
        assert lines[-1].endswith(f" and {20 - kept} more")


def test_text_is_cut_at_the_end_that_matters_less():
    text = "one two three four five six"
    assert texts(text_lines("x", text, PLAIN, 10, 0).make(2)) == ["one two", "three fou…"]
    assert texts(text_lines("x", text, PLAIN, 10, 0, newest=True).make(2)) == ["…hree four", "five six"]
    assert texts(text_lines("x", text, PLAIN, 10, 0, newest=True).make(1)) == ["… five six"]
    assert texts(text_lines("x", text, PLAIN, 10, 0).make(3)) == ["one two", "three four", "five six"]


def test_newest_entries_are_kept_whole():
    entries = [[(("a1", PLAIN),), (("a2", PLAIN),)], [(("b1", PLAIN),), (("b2", PLAIN),)]]
    section = newest("x", entries, 0)
    assert [texts(section.make(number)) for number in (1, 2, 3, 4)] == [
        ["b1…"],
        ["b1", "b2"],
        ["b1", "b2"],
        ["a1", "a2", "b1", "b2"],
    ]


# -- on the screen ----------------------------------------------------------------------------------------


def panel_lines(driven):
    """The panel's lines as they are drawn, and its heading."""
    inspector = driven.app.dashboard.bodies["inspector"]
    strips = [strip.text.rstrip() for strip in inspector.strips]
    return strips, inspector.heading(inspector.view)


async def test_without_a_selection_it_shows_the_step(drive, session):
    async with drive(session, (120, 36)) as driven:
        assert "Step 300" in driven.text and "scheduled" in driven.text
        session.advance()
        await driven.settle()
        assert "Step 301" in driven.text


async def test_with_the_keys_it_scrolls_through_the_whole_page(drive, session):
    async with drive(session, (120, 36)) as driven:
        await driven.press("down", "tab", "tab")
        inspector = driven.app.dashboard.bodies["inspector"]
        assert inspector.has_focus
        name = driven.app.selection.row
        whole = sequence_lines(inspector.view, row_of(inspector.view, *name), *inspector.extent[:1])
        height = inspector.extent.height
        assert len(whole) > height + 3
        strips, (title, right) = panel_lines(driven)
        assert title == f"Selected: sequence {name.request}"
        assert strips == whole[:height] and right == f"{len(whole) - height} more below"
        await driven.press("down", "down")
        strips, (_, right) = panel_lines(driven)
        assert strips == whole[2 : height + 2] and right == f"{len(whole) - height - 2} more below"
        inspector.move(0, 1)
        frame = driven.app.dashboard.query_one("#inspector-frame")
        assert f"{len(whole) - height - 3} more below" in frame.strips[0].text, "at once, with the lines"
        await driven.press("end")
        strips, (_, right) = panel_lines(driven)
        assert strips == whole[-height:] and right == "Esc to let go"
        await driven.press("up")
        assert panel_lines(driven)[0] == whole[-height - 1 : -1]
        await driven.press("home", "pagedown")
        assert panel_lines(driven)[0] == whole[height - 1 : 2 * height - 1]


async def test_another_selection_starts_at_the_top(drive, session):
    async with drive(session, (120, 36)) as driven:
        await driven.press("down", "tab", "tab", "down", "down")
        inspector = driven.app.dashboard.bodies["inspector"]
        assert inspector.state.top == 2
        session.advance()
        await driven.settle()
        assert inspector.state.top == 2, "a new snapshot does not scroll"
        driven.app.select(Selection(driven.app._rows[2].key, None))
        await driven.settle()
        assert inspector.state.top == 0


async def test_the_wheel_scrolls_without_taking_the_keys(drive, session):
    async with drive(session, (120, 36)) as driven:
        await driven.press("down")
        inspector = driven.app.dashboard.bodies["inspector"]
        assert not inspector.has_focus and len(panel_lines(driven)[0]) == inspector.extent.height
        inspector.on_mouse_scroll_down(None)
        await driven.settle()
        assert inspector.state.top == 3 and "more below" in panel_lines(driven)[1][1]
        assert driven.app.dashboard.panel == "sequences"
        inspector.on_mouse_scroll_up(None)
        await driven.settle()
        assert inspector.state.top == 0 and panel_lines(driven)[1][1] == "Esc to let go"


async def test_hostile_text_stays_text(drive, session):
    hostile = "\x1b[31mred[/bold]\u202e"
    session.vocabulary = dict.fromkeys(range(10_000), hostile)
    for sequence in session.sequences:
        sequence.label = hostile
    session.publish()
    async with drive(session, (120, 36)) as driven:
        await driven.press("down", "tab", "tab")
        for keys in ((), ("end",), ("shift+tab", "shift+tab", "enter")):
            await driven.press(*keys)
            assert "␛[31mred[/bold]" in driven.text
            assert not any(ord(c) < 32 or c == "\u202e" for line in driven.lines for c in line)
