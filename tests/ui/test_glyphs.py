"""Which characters are used, and what becomes of a strip where there are no others, or no colours."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.geometry import Region
from textual.strip import Strip

from kvtop.ui.draw.filters import AsciiFilter, NoColourFilter, ascii_text, line_filters
from kvtop.ui.draw.glyphs import ASCII, BLOCK, BRAILLE, GLYPHS, OWNER_MARKS, choose_glyphs, owner_mark
from kvtop.ui.draw.palette import HUES, VARIANTS, load_palette

BLACK = Color(0, 0, 0)


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, "block"),
        ({"LANG": "en_GB.UTF-8"}, "block"),
        ({"LANG": "en_GB.utf8"}, "block"),
        ({"LANG": "C.UTF-8", "LC_ALL": ""}, "block"),
        ({"LC_CTYPE": "UTF-8"}, "block"),
        ({"LANG": "sr_RS.UTF-8@latin"}, "block"),
        ({"LANG": "C"}, "ascii"),
        ({"LANG": "POSIX"}, "ascii"),
        ({"LANG": "en_GB"}, "ascii"),
        ({"LANG": "de_DE.ISO-8859-1"}, "ascii"),
        ({"LANG": "de_DE@euro"}, "ascii"),
        ({"LANG": "en_GB.nonsense"}, "ascii"),
        ({"LC_ALL": "C", "LANG": "en_GB.UTF-8"}, "ascii"),
        ({"LC_CTYPE": "C", "LANG": "en_GB.UTF-8"}, "ascii"),
        ({"LC_ALL": "C.UTF-8", "LC_CTYPE": "C", "LANG": "C"}, "block"),
        ({"TERM": "linux"}, "block"),
    ],
)
def test_ascii_is_chosen_where_the_locale_has_another_encoding(environ: dict[str, str], name: str) -> None:
    assert choose_glyphs("auto", environ).name == name
    assert choose_glyphs("braille", environ) is BRAILLE


def test_what_is_set_is_used() -> None:
    assert {name: choose_glyphs(name, {"LANG": "C"}) for name in GLYPHS} == GLYPHS
    with pytest.raises(KeyError):
        choose_glyphs("runes", {})


def test_the_ascii_set_is_what_the_filter_makes_of_the_block_set() -> None:
    for field in ("eighths", "full", "shared", "wasted", "cached"):
        assert ascii_text(getattr(BLOCK, field)) == getattr(ASCII, field)
    assert len(set(ASCII.eighths + ASCII.shared + ASCII.cached)) == 10


def test_sparklines_have_the_newest_values_at_the_right() -> None:
    values = [0.0, 1, 2, 3, 4, 5, 6, 7]
    assert BLOCK.spark(values, 8) == "▁▂▃▄▅▆▇█"
    assert BLOCK.spark(values, 3) == "▆▇█"
    assert ASCII.spark(values, 3) == ASCII.eighths[-3:]
    assert BLOCK.spark(values, 8, 14) == "▁▁▂▃▃▃▄▅"
    assert BLOCK.spark([5.0, 9.0], 2, 4) == "██"
    assert BLOCK.spark([], 5) == BLOCK.spark(values, 0) == ""
    assert BLOCK.spark([0.0, 0.0], 4) == "▁▁"


def test_braille_has_two_values_a_cell() -> None:
    assert BRAILLE.spark([0.0, 3.0], 5) == chr(0x2800 + 0x40 + 0xB8)
    assert BRAILLE.spark([3.0], 5) == chr(0x2800 + 0xB8)
    assert len(BRAILLE.spark([1.0] * 100, 7)) == 7
    assert BRAILLE.spark([3.0, 3.0], 1) == "⣿"


def test_every_ink_has_a_letter_of_its_own() -> None:
    marks = [owner_mark(ink) for ink in range(HUES * VARIANTS)]
    assert len(set(marks)) == HUES * VARIANTS == len(OWNER_MARKS)


# -- ASCII --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("╭─ Blocks ─╮", "+- Blocks -+"),
        ("│ ├ └ │", "| | ` |"),
        ("▁▂▃▄▅▆▇█", "_,:-=o*#"),
        ("▓█·░", "+#.:"),
        ("↑↓←→ …", "^v<> ~"),
        ("“it’s” – 3 × 4 µs", '"it\'s" - 3 x 4 us'),
        ("café naïve", "cafe naive"),
        ("␛[31m", "?[31m"),
        ("日本語", "??????"),
        ("Ａb", "??b"),
        ("e\u0301x", "ex"),
        ("a👍b", "a??b"),
        ("‹202e›", "<202e>"),
        ("\u2588", "#"),
    ],
)
def test_ascii_of_what_the_screen_draws(text: str, expected: str) -> None:
    assert ascii_text(text) == expected


printable = st.characters(exclude_categories=("Cc", "Cs", "Cf", "Mn", "Me", "Mc", "Zl", "Zp"))


@given(st.text(printable, max_size=40))
def test_ascii_has_as_many_cells(text: str) -> None:
    if unicodedata.is_normalized("NFC", text):
        assert ascii_text(text).isascii()
        assert cell_len(ascii_text(text)) == sum(cell_len(character) for character in text)


def test_a_strip_of_ascii_is_left_alone() -> None:
    segments = [Segment("plain", Style(bold=True))]
    assert AsciiFilter().apply(segments, BLACK) is segments


# -- no colours ---------------------------------------------------------------------------------------------

MONO = load_palette("mono")


def attributes(style: Style, text: str = "x") -> str:
    """The SGR codes of a style that went through the filter."""
    (segment,) = NoColourFilter(MONO.background).apply([Segment(text, style)], BLACK)
    rendered = Strip([segment]).render_style(segment.style, "x", 3)
    codes = re.findall(r"\x1b\[([\d;]*)m", rendered)
    return codes[0] if codes and codes[0] else ""


def test_nothing_but_bold_dim_underline_and_reverse_is_left() -> None:
    for name in ("dark", "light", "16-colour", "mono"):
        palette = load_palette(name)
        for ink in ("text", "faint", "error", "cursor", "key_text"):
            for on in ("background", "row", "key", "cursor", "shared"):
                style = palette.style(ink, on, bold=True, italic=True)
                codes = attributes(style)
                assert set(codes.split(";")) <= {"1", "2", "4", "7"}, (name, ink, on)


@pytest.mark.parametrize(
    ("ink", "on", "text", "codes"),
    [
        ("text", "background", "x", ""),
        ("muted", "background", "x", ""),
        ("text", "raised", "x", ""),
        ("faint", "background", "x", "2"),
        ("border", "background", "╭─", "2"),
        ("focus", "background", "╭─", "1"),
        ("text", "row", "x", "7"),
        ("key_text", "key", "x", "7"),
        ("background", "warning", " ! ", "1;7"),
        ("background", "shared", "3", "7"),
        ("used", "track", "▃", ""),
        ("shared", "used", "▓", ""),
        ("cached", "cached_track", "·", ""),
        ("text", "track", " ", ""),
        ("background", "cursor", " ", "1;7"),
    ],
)
def test_rank_is_said_without_colours(ink: str, on: str, text: str, codes: str) -> None:
    assert attributes(MONO.style(ink, on), text) == codes


def test_filters_are_the_same_objects_at_every_call() -> None:
    for glyphs in (BLOCK, ASCII):
        for no_color in (False, True):
            assert line_filters(glyphs, no_color) is line_filters(glyphs, no_color)
    assert line_filters(BLOCK, False) == ()
    assert [type(f).__name__ for f in line_filters(ASCII, True)] == ["NoColourFilter", "AsciiFilter"]


async def test_the_whole_screen_is_aligned_ascii(drive, session) -> None:
    async with drive(session, (120, 36), glyphs=ASCII) as driven:
        for keys in (("f1",), ("escape", "f2"), ("escape",), ("2",)):
            await driven.press(*keys)
            strips = driven.app.screen._compositor.render_strips()
            text = ["".join(segment.text for segment in strip) for strip in strips]
            assert all(line.isascii() for line in text), [line for line in text if not line.isascii()]
            assert {len(line) for line in text} == {120}


async def test_no_color_leaves_no_colour_on_the_screen(drive, session, monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with drive(session, (100, 30)) as driven:
        assert driven.app.palette.mono
        (behind, *_) = driven.app.dashboard.render_lines(Region(0, 0, 100, 30))
        assert all(style is None or style.color is style.bgcolor is None for _, style, _ in behind)
        for keys in (("down",), ("f1",), ("escape", "f2"), ("escape", "a")):
            await driven.press(*keys)
            for strip in driven.app.screen._compositor.render_strips():
                for _, style, _ in strip:
                    assert style is None or (style.color is None and style.bgcolor is None), style


async def test_rows_that_go_straight_to_the_terminal_are_filtered_too(drive, session, monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with drive(session, (100, 30), glyphs=ASCII) as driven:
        written: list[str] = []

        def display(screen, update) -> None:
            written.append(update.render_segments(driven.app.console))

        monkeypatch.setattr(driven.app, "_display", display)
        session.advance()
        driven.app.refresh_view(force=True)
        (text,) = written
        assert text.isascii()
        assert {code for codes in re.findall(r"\x1b\[([\d;]*)m", text) for code in codes.split(";")} <= {
            "0", "1", "2", "7",
        }  # fmt: skip
