"""Text is shown as text, in columns that stay aligned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kvtop.ui.draw.text import clock, count, duration, fit, head, percent, size, tail, visible, wrap

anything = st.text(st.characters(), max_size=40)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("[red]x[/red]", "[red]x[/red]"),
        ("\x1b[31mred", "␛[31mred"),
        ("a\tb\nc\rd", "a⇥b↵c␍d"),
        ("\x00\x07\x7f", "␀␇␡"),
        ("\x9b31m", "‹9b›31m"),
        ("a\u202eb", "a‹202e›b"),
        ("a\u200bb\ufeff", "a‹200b›b‹feff›"),
        ("👍🏽", "👍‹1f3fd›"),
        ("🇺🇸", "‹1f1fa›‹1f1f8›"),
        ("\u0301a", "◌\u0301a"),
        ("漢字 e\u0301", "漢字 e\u0301"),
        ("\ud800", "‹d800›"),
    ],
)
def test_controls_and_invisible_characters_are_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(anything)
def test_visible_text_holds_no_control_and_can_be_written(text: str) -> None:
    shown = visible(text)
    assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in shown)
    shown.encode("utf-8")


@given(anything.map(visible), st.integers(0, 30), st.sampled_from("<>"))
def test_fit_gives_exactly_the_cells_asked_for(text: str, width: int, align: str) -> None:
    assert cell_len(fit(text, width, align)) == width


@given(anything.map(visible), st.integers(1, 30))
def test_head_and_tail_keep_within_the_width(text: str, width: int) -> None:
    assert cell_len(head(text, width)) <= width
    assert cell_len(tail(text, width)) <= width


def test_head_and_tail_cut_wide_characters_whole() -> None:
    assert head("漢字かな", 5) == "漢字…"
    assert head("漢字かな", 4) == "漢…"
    assert tail("漢字かな", 5) == "…かな"
    assert tail("漢字かな", 4) == "…な"


def test_a_combining_mark_does_not_move_to_the_ellipsis() -> None:
    assert tail("aae\u0301b", 2) == "…b"


def test_wrap_breaks_at_spaces_and_long_words_anywhere() -> None:
    assert wrap("of the United States", 10) == ["of the", "United", "States"]
    assert wrap("unconstitutionally", 8) == ["unconsti", "tutional", "ly"]
    assert wrap("漢字漢字漢字", 5) == ["漢字", "漢字", "漢字"]


def test_figures_carry_their_units() -> None:
    assert [size(24576), size(5_557_248), size(900), size(3 << 30)] == ["24 KiB", "5.3 MiB", "900 B", "3 GiB"]
    assert count(1284) == "1,284"
    assert clock(3723.9) == "01:02:03"
    assert [percent(98, 7216), percent(62, 100), percent(0, 0)] == ["1.4 %", "62 %", None]
    assert [duration(1.5), duration(0.0124), duration(3e-4)] == ["1.5 s", "12.4 ms", "300 µs"]
