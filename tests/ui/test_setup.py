"""The setup dialog: what it shows, what it changes at once, and what it saves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvtop.config import Settings, config_file, load
from kvtop.ui.commands.actions import ACTIONS
from kvtop.ui.dialogs import setup_rows
from kvtop.ui.dialogs.setup import Setup

NAMES = ["dark", "light", "mono"]


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's file of settings, which is not there yet."""
    monkeypatch.setenv("KVTOP_CONFIG_DIR", str(tmp_path))
    return config_file(os.environ)


def shown(driven) -> str:
    return "\n".join(driven.lines)


# -- rows ---------------------------------------------------------------------------------------------------


def test_every_setting_has_a_row() -> None:
    rows = setup_rows.setting_rows(Settings(), NAMES)
    listed = {row.name for row in rows} | {"columns", "keys"}
    assert listed == {*Settings.__dataclass_fields__} - {"places", "theme_place", "columns_place", "given"}
    assert all(row.help for row in rows)
    assert [row.section for row in rows if row.section] == ["Screen", "Behaviour"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("theme", ["dark", "light", "mono", "dark"]),
        ("glyphs", ["auto", "block", "braille", "ascii", "auto"]),
        ("fps", [20, 30, 60, 1, 2]),
        ("mouse", [True, False, True]),
        ("preset", ["last", "overview", "map"]),
    ],
)
def test_values_go_round(name: str, values: list[object]) -> None:
    settings = Settings()
    for value in values:
        assert getattr(settings, name) == value
        settings = setup_rows.changed(settings, name, 1, NAMES)
    for value in reversed(values):
        settings = setup_rows.changed(settings, name, -1, NAMES)
        assert getattr(settings, name) == value


def test_a_value_between_two_steps_goes_to_its_neighbours() -> None:
    assert setup_rows.changed(Settings(fps=12), "fps", 1, NAMES).fps == 15
    assert setup_rows.changed(Settings(fps=12), "fps", -1, NAMES).fps == 10
    assert setup_rows.changed(Settings(theme="/x.toml"), "theme", 1, NAMES).theme == "dark"
    assert setup_rows.changed(Settings(theme="/x.toml"), "theme", -1, NAMES).theme == "mono"
    assert setup_rows.changed(Settings(), "theme", 1, []) == Settings()


def test_columns_are_shown_hidden_and_moved() -> None:
    settings = Settings(columns=("blk", "gen"))
    rows = setup_rows.column_rows(settings)
    assert [(row.name, row.on) for row in rows[:3]] == [("blk", True), ("gen", True), ("state", False)]
    assert len(rows) == 10
    assert setup_rows.toggled(settings, "blk").columns == ("gen",)
    assert setup_rows.toggled(settings, "pre").columns == ("blk", "gen", "pre")
    assert setup_rows.moved(settings, "blk", 1).columns == ("gen", "blk")
    for name, step in (("blk", -1), ("gen", 1), ("pre", 1)):
        assert setup_rows.moved(settings, name, step) == settings


def test_only_what_differs_is_saved() -> None:
    before = Settings()
    assert setup_rows.differences(before, before) == {}
    after = Settings(theme="mono", columns=("blk",))
    assert setup_rows.differences(before, after) == {"theme": "mono", "columns": ("blk",)}


# -- the dialog ---------------------------------------------------------------------------------------------


async def test_a_theme_is_seen_at_once_and_saved_when_asked(drive, session, file: Path) -> None:
    async with drive(session, (120, 36)) as driven:
        await driven.press("f2")
        assert driven.app.screen.message == f"Settings are in {file}"
        await driven.press("right")
        assert driven.app.palette.name == "light" and not driven.app.current_theme.dark
        assert driven.app.screen.message == f"1 changed, s saves to {file}"
        assert "1 changed, s saves to" in shown(driven)
        assert not file.exists()
        await driven.press("s")
        assert len(driven.app.screen_stack) == 1
        assert load(os.environ) == (Settings(theme="light"), [])
        assert "Saved in /" in driven.lines[-1]
        assert driven.app.palette.name == "light"


async def test_leaving_undoes_everything_and_saves_nothing(drive, session, file: Path) -> None:
    async with drive(session, (120, 36)) as driven:
        before = driven.lines[5:]
        await driven.press("f2", "right", "down", "right", "right", "right", "down", "enter", "tab", "enter")
        app = driven.app
        assert (app.palette.name, app.glyphs.name, app.settings.flashes) == ("light", "ascii", False)
        assert app.dashboard.view.columns == Settings().columns[1:]
        await driven.press("escape")
        assert (app.palette.name, app.glyphs.name, app.settings) == ("dark", "block", Settings())
        assert driven.lines[5:] == before
        assert not file.exists()


async def test_characters_change_on_the_screen_at_once(drive, session) -> None:
    async with drive(session, (120, 36)) as driven:
        await driven.press("f2", "down", "left", "f10")
        assert driven.app.glyphs.name == "ascii"
        strips = driven.app.screen._compositor.render_strips()
        assert "".join(segment.text for strip in strips for segment in strip).isascii()


async def test_columns_are_chosen_and_put_in_order(drive, session) -> None:
    async with drive(session, (120, 36)) as driven:
        await driven.press("f2", "tab", "down", "right_square_bracket", "home", "space", "s")
        expected = ("gen", "prompt", "blk", "shr", "waste", "hit", "pre")
        assert driven.app.dashboard.view.columns == expected
        assert load(os.environ)[0].columns == expected
        heads = next(line for line in driven.lines if " GEN " in line and " TEXT" in line)
        assert heads.index("GEN") < heads.index("PROMPT") and "STATE" not in heads


async def test_a_file_with_a_mistake_is_told_and_left_alone(drive, session, file: Path) -> None:
    file.write_text("them = 3\n")
    async with drive(session, (120, 36)) as driven:
        await driven.press("f2")
        assert 'Cannot be saved: config.toml:1: unknown key "them" (did you mean "theme"?)' in shown(driven)
        await driven.press("right", "s")
        assert isinstance(driven.app.screen, Setup)
        assert "not saved, the file has a mistake: config.toml:1: " in shown(driven)
        assert file.read_text() == "them = 3\n"
        file.write_text("")  # mended meanwhile
        await driven.press("s")
        assert load(os.environ) == (Settings(theme="light"), [])


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('theme = "drak"\n', 'no theme "drak" (did you mean "dark"?)'),
        ('keys.frok = "x"\n', 'unknown action "frok" (did you mean "fork"?)'),
        ("keys.quit = []\n", '"quit" needs a key'),
    ],
)
async def test_what_reading_does_not_find_is_a_mistake_too(
    drive, session, file: Path, text: str, wrong: str
) -> None:
    file.write_text(text)
    async with drive(session, (120, 36)) as driven:
        await driven.press("f2")
        told = f"config.toml:1: {wrong}"
        assert f"Cannot be saved: {told}" in shown(driven)
        await driven.press("right", "s")
        assert driven.app.screen.message == f"not saved, the file has a mistake: {told}"
        assert file.read_text() == text


async def test_keys_are_listed_with_the_ids_of_their_actions(drive, session) -> None:
    async with drive(session, (80, 24)) as driven:
        await driven.press("f2", "shift+tab")
        seen: set[str] = set()
        for _ in range(len(ACTIONS) // 5):
            seen |= {action.id for action in ACTIONS for line in driven.lines if f"  {action.id} " in line}
            await driven.press("pagedown")
        assert seen == {action.id for action in ACTIONS}
        assert 'fork = ["F6", "x"]' in shown(driven)
        await driven.press("enter", "left", "right")
        assert driven.app.screen.settings == Settings()


@pytest.mark.parametrize("size", [(60, 18), (80, 24), (200, 50)])
async def test_the_cursor_is_in_sight_at_every_size(drive, session, size: tuple[int, int]) -> None:
    async with drive(session, size) as driven:
        await driven.press("f2")
        for key, label in (("end", "First preset"), ("home", "Theme")):
            await driven.press(key)
            assert any(label in line and "◂" in line for line in driven.lines)
        assert "◂" in shown(driven) and "▸" in shown(driven)
        assert all(len(line) == size[0] for line in driven.lines)


async def test_the_mouse_chooses_and_changes(drive, session) -> None:
    async with drive(session, (120, 36)) as driven:
        await driven.press("f2")
        y = next(y for y, line in enumerate(driven.lines) if " Flashes " in line)
        await driven.pilot.click(offset=(40, y))
        await driven.settle()
        assert driven.app.settings.flashes
        assert "◂" in driven.lines[y]
        await driven.pilot.click(offset=(40, y))
        await driven.settle()
        assert not driven.app.settings.flashes
        y = next(y for y, line in enumerate(driven.lines) if "Settings" in line and "Columns" in line)
        await driven.pilot.click(offset=(driven.lines[y].index("Keys"), y))
        await driven.settle()
        assert driven.app.screen.page == 2


async def test_what_a_flag_has_is_said(drive, session) -> None:
    settings = Settings(fps=5, given=frozenset({"fps"}))
    async with drive(session, (120, 36), settings=settings) as driven:
        await driven.press("f2")
        assert any("Pictures a second" in line and "this run" in line for line in driven.lines)


async def test_broken_themes_are_named_and_not_offered(drive, session, file: Path) -> None:
    folder = file.parent / "themes"
    folder.mkdir()
    (folder / "aqua.toml").write_text("name = 3\n")
    async with drive(session, (120, 36)) as driven:
        await driven.press("f2")
        assert "Not among the themes: themes/aqua.toml:1: " in shown(driven)
        for _ in range(6):
            await driven.press("right")
            assert driven.app.settings.theme != "aqua"


async def test_no_color_stays_without_colours_whatever_the_theme(drive, session, monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with drive(session, (100, 30)) as driven:
        await driven.press("f2", "right", "s")
        assert driven.app.palette.mono
        assert load(os.environ)[0].theme == "light"


async def test_nothing_is_cut_on_the_smallest_screen(drive, session) -> None:
    async with drive(session, (60, 18), settings=Settings(given=frozenset({"glyphs"}))) as driven:
        await driven.press("f2")
        for _ in range(8):
            assert "…" not in "".join(driven.lines[1:-1]), shown(driven)
            await driven.press("down")
        for _ in range(3):
            assert " Esc" in shown(driven) and "Esc…" not in shown(driven)
            await driven.press("tab")
