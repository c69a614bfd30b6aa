"""The tree of prefixes: rows, folds, cursor, search."""

from __future__ import annotations

import dataclasses

import pytest

from kvtop.timeline.snapshot import PrefixNode
from kvtop.ui.frame.ordering import Pattern
from kvtop.ui.frame.view import Selection
from kvtop.ui.panels.prefixes.rows import PrefixRows, found

SIZE = (120, 40)


def chain(*blocks: int, after: int | None = None, depth: int = 0, ref: int = 1, hits: int = 0):
    """Nodes one after the other, whose hashes are a thousand times their block ids."""
    nodes = []
    for number, block in enumerate(blocks):
        parent = None if after is None else after * 1000
        nodes.append(
            PrefixNode(block, block * 1000, parent, depth + number, ref, hits, (block,) * 16, touched=290)
        )
        after = block
    return nodes


TREE = (
    *chain(1, 2, 3, 4, ref=3, hits=7),
    *chain(10, 11, after=4, depth=4, ref=0),
    *chain(20, 21, 22, 23, after=4, depth=4),
    *chain(30, ref=2, hits=1),
)


def publish(session, nodes, *, left_out: int = 0) -> None:
    """Show these nodes, whatever is selected later."""
    snapshot = dataclasses.replace(session.published, prefixes=nodes, prefixes_left_out=left_out)
    session.published = snapshot
    session.select = lambda **_: None
    session.vocabulary = {block: f" b{block}." for block in range(100)}


def tree_of(driven) -> list[str]:
    return [strip.text for strip in driven.app.dashboard.bodies["prefixes"].strips]


# -- rows -------------------------------------------------------------------------------------------------


def drawn(tree: PrefixRows) -> list[str]:
    return [
        f"{tree.guide(row)}{'+'.join(str(tree.nodes[place].block) for place in row.places)}"
        for row in tree.rows
    ]


def test_long_chains_are_one_row_and_lines_tell_what_follows_what() -> None:
    assert drawn(PrefixRows(TREE)) == ["┌ 1+2+3+4", "│ ├ 10", "│ └ 11", "└ 20+21+22+23", "─ 30"]


def test_an_opened_chain_is_shown_block_by_block() -> None:
    tree = PrefixRows(TREE, {20_000})
    assert drawn(tree)[3:] == ["│ 20", "│ 21", "│ 22", "└ 23", "─ 30"]
    assert [tree.foldable(row) for row in tree.rows] == [True, False, False, True, True, True, True, False]


def test_a_block_has_a_row_even_when_it_only_equals_one() -> None:
    twin = PrefixNode(77, 21_000, 20_000, 5, 1, 0, (1,), 5)
    tree = PrefixRows((*TREE[:6], *TREE[6:8], *TREE[8:10], twin, TREE[10]))
    assert tree.place_of(77) == tree.place_of(21) == 3
    assert [node.block for node in tree.equal(tree.rows[3])] == [77]
    assert tree.place_of(99) is None


def test_a_search_may_run_from_one_block_into_the_next_of_its_segment() -> None:
    tree = PrefixRows(TREE)
    texts = {1: "We the Peo", 2: "ple of the Unit", 3: "ed States", 4: "", 20: "ordain", 30: "PEOPLE"}

    def look(text: str) -> list[int]:
        places = found(tree, Pattern(text), lambda node: texts.get(node.block, ""))
        return [tree.nodes[place].block for place in places]

    assert look("people") == [1, 30]
    assert look("the") == [1, 2]
    assert look("ple") == [2, 30]
    assert look("united states|ordain") == [2, 20]
    assert look("") == []
    assert look("statesordain") == []  # from one segment into another


# -- the panel --------------------------------------------------------------------------------------------


async def test_a_row_has_its_figures(drive, session) -> None:
    publish(session, TREE)
    async with drive(session, SIZE) as driven:
        await driven.press("4")
        lines = tree_of(driven)
        head = lines[0].split()
        assert head == ["BLOCKS", "TOKENS", "BLK", "REF", "EQUAL", "HITS", "IDLE", "TEXT"]
        assert lines[1].split()[:7] == ["3", "┌", "▸", "1-4", "0-63", "4", "3"]
        assert " 7 " in lines[1]
        assert " b1. b1." in lines[1]
        cached = lines[2]
        assert cached.split()[:6] == ["·", "│", "├", "10", "64-79", "0"]
        assert f" {session.published.step - 290} " in cached
        assert "Prefixes (11 blocks, 176 tokens, 2 roots)" in driven.text


async def test_the_cursor_is_on_the_selected_block(drive, session) -> None:
    publish(session, TREE)
    async with drive(session, SIZE) as driven:
        await driven.press("4", "down")
        assert driven.app.selection.block == 1
        await driven.press("down", "down")
        assert driven.app.selection.block == 11
        await driven.press("end")
        assert driven.app.selection.block == 30
        await driven.press("up", "home")
        assert driven.app.selection.block == 1
        await driven.press("escape")
        assert driven.app.selection.block is None
        await driven.press("down")  # where it was
        assert driven.app.selection.block == 1


async def test_a_chain_is_unfolded_and_folded(drive, session) -> None:
    publish(session, TREE)
    async with drive(session, SIZE) as driven:
        await driven.press("4", "down", "plus")
        assert "▾ 1 " in tree_of(driven)[1]
        await driven.press("down", "down")
        assert driven.app.selection.block == 3
        await driven.press("minus")
        assert driven.app.selection.block == 1
        assert "▸ 1-4" in tree_of(driven)[1]
        await driven.press("right")
        assert "▾ 1 " in tree_of(driven)[1]
        await driven.press("left", "enter")
        assert "▾ 1 " in tree_of(driven)[1]
        await driven.press("end", "plus")
        assert "Only a chain of three blocks or more is folded" in driven.text


async def test_enter_on_a_block_selects_who_holds_it(drive, session) -> None:
    running = next(row for row in session.published.sequences if row.state == "running")
    async with drive(session, SIZE) as driven:
        await driven.press("4")
        driven.app.select(Selection(None, int(running.table[1])))
        await driven.press("plus")
        held = driven.app.selection.block
        await driven.press("enter")
        assert driven.app.selection.block == held
        chosen = driven.app.selection.row
        assert chosen is not None
        assert any(held in row.table for row in session.published.sequences if row.request == chosen.request)


async def test_siblings_by_hits(drive, session) -> None:
    publish(session, (*chain(30, ref=2, hits=1), *chain(1, 2, ref=3, hits=7)))
    async with drive(session, SIZE) as driven:
        await driven.press("4")
        assert "30" in tree_of(driven)[1]
        await driven.press("less_than_sign")
        assert " 1 " in tree_of(driven)[1]
        assert "most hits first" in driven.text


async def test_a_search_goes_round_and_marks_what_it_found(drive, session) -> None:
    publish(session, TREE)
    async with drive(session, SIZE) as driven:
        await driven.press("4", "slash", *"b3")
        assert driven.app.selection.block == 1  # block 3 is in the folded row
        assert "1 of 2" in driven.text
        assert " b3." in tree_of(driven)[1].split("TEXT")[-1]
        await driven.press("f3")
        assert driven.app.selection.block == 30
        await driven.press("f3")
        assert driven.app.selection.block == 1
        await driven.press("enter")
        assert tree_of(driven)[1].startswith("»")
        assert tree_of(driven)[2].startswith(" ")
        await driven.press("escape")
        assert not any(line.startswith("»") for line in tree_of(driven))


async def test_a_click_selects_and_on_the_sign_unfolds(drive, session) -> None:
    publish(session, TREE)
    async with drive(session, SIZE) as driven:
        await driven.press("4")
        await driven.pilot.click("#prefixes", offset=(40, 4))
        await driven.settle()
        assert driven.app.selection.block == 20
        await driven.pilot.click("#prefixes", offset=(tree_of(driven)[1].index("▸"), 1))
        await driven.settle()
        assert "▾ 1 " in tree_of(driven)[1]


@pytest.mark.parametrize(("nodes", "words"), [((), "nothing is cached yet"), (None, "being looked up")])
async def test_an_empty_tree_says_why(drive, session, nodes, words) -> None:
    publish(session, nodes)
    async with drive(session, SIZE) as driven:
        await driven.press("4", "down", "plus", "enter", "less_than_sign")
        assert words in driven.text


async def test_what_is_left_out_is_said(drive, session) -> None:
    publish(session, TREE, left_out=1204)
    async with drive(session, SIZE) as driven:
        await driven.press("4")
        assert "1,204 blocks left out" in driven.text


async def test_tokens_are_shown_and_not_obeyed(drive, session) -> None:
    publish(session, TREE)
    session.vocabulary[1] = "[red]\x1b[31m\n"
    async with drive(session, SIZE) as driven:
        await driven.press("4")
        assert "[red]␛[31m↵[red]" in driven.text
