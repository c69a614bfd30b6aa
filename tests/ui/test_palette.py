"""Themes are read strictly, and a mistake is named by file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtop.ui.draw.palette import (
    HUES,
    VARIANTS,
    ThemeError,
    ink_index,
    load_palette,
    mix,
    parse_palette,
    theme_path,
)

DARK = theme_path("dark").read_text("utf-8")


def problem(source: str) -> str:
    with pytest.raises(ThemeError) as caught:
        parse_palette(source, "mine.toml")
    return str(caught.value)


def line_of(text: str, source: str = DARK) -> int:
    return next(number for number, line in enumerate(source.splitlines(), 1) if line.startswith(text))


def test_the_dark_theme_is_complete() -> None:
    palette = load_palette("dark")
    assert palette.name == "dark"
    assert len(palette.inks) == HUES * VARIANTS
    assert len({ink[4] for ink in palette.inks}) == HUES * VARIANTS


def test_a_misspelt_key_is_named_with_the_nearest() -> None:
    wrong = DARK.replace("primary =", "pirmary =")
    line = line_of("pirmary", wrong)
    assert problem(wrong) == f'mine.toml:{line}: unknown key "pirmary" (did you mean "primary"?)'


def test_a_key_like_none_gets_no_suggestion() -> None:
    assert problem(DARK + '\nxyzzy = "#000000"\n').endswith('unknown key "xyzzy"')


def test_a_wrong_colour_is_named() -> None:
    wrong = DARK.replace('text = "#d0d7de"', 'text = "blau"')
    assert problem(wrong) == (
        f'mine.toml:{line_of("text")}: "text" is "blau", '
        'which is neither #rrggbb nor one of the 16 names (did you mean "blue"?)'
    )


def test_a_missing_key_is_named() -> None:
    without = "\n".join(line for line in DARK.splitlines() if not line.startswith("cursor"))
    assert problem(without) == "mine.toml: missing cursor"


def test_owners_must_be_eight_colours() -> None:
    assert "must be a list of 8 colours" in problem(DARK.replace('"#e69f00", ', ""))


def test_broken_toml_is_named_by_line() -> None:
    assert problem('name = "x"\ntext = = 3\n').startswith("mine.toml:2: ")


def test_all_problems_are_told_at_once() -> None:
    wrong = DARK.replace("primary =", "pirmary =").replace('text = "#d0d7de"', "text = 3")
    assert len(problem(wrong).splitlines()) == 2


def test_an_unknown_theme_names_those_there_are() -> None:
    with pytest.raises(ThemeError, match=r'no theme "drak" \(did you mean "dark"\?\)$'):
        load_palette("drak")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ThemeError, match="no such file"):
        load_palette(tmp_path / "none.toml")


def test_neighbouring_requests_differ_in_ink_and_branches_in_brightness() -> None:
    assert len({ink_index(request) for request in range(HUES * VARIANTS)}) == HUES * VARIANTS
    assert len({ink_index(7, branch) for branch in range(VARIANTS)}) == VARIANTS
    assert {ink_index(7, branch) % HUES for branch in range(VARIANTS)} == {7}


def test_mix_goes_from_one_colour_to_the_other() -> None:
    assert mix("#000000", "#ff8000", 0) == "#000000"
    assert mix("#000000", "#ff8000", 1) == "#ff8000"
    assert mix("#000000", "#ff8000", 0.5) == "#804000"
