"""Settings: flag, environment, file, default; and what is said of a file with mistakes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvtop.config import Settings, SettingsError, config_file, config_folder, load, resolve, state_folder
from kvtop.config import settings as module
from kvtop.ui.dashboard import presets
from kvtop.ui.frame import columns


def read(tmp_path: Path, text: str | bytes) -> tuple[Settings, list[str]]:
    path = tmp_path / "config.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load({}, path)


def test_no_file_is_no_problem(tmp_path: Path) -> None:
    assert load({"KVTOP_CONFIG_DIR": str(tmp_path / "none")}) == (Settings(), [])


def test_every_key_is_read(tmp_path: Path) -> None:
    settings, problems = read(
        tmp_path,
        """
        theme = "light"
        glyphs = "braille"
        fps = 10
        mouse = false
        readonly = true
        preset = 2
        flashes = false
        confirm_abort = false
        columns = ["blk", "state"]
        [keys]
        fork = "x"
        step = ["n", "F5"]
        quit = []
        """,
    )
    assert problems == []
    keys = {"fork": ("x",), "step": ("n", "F5"), "quit": ()}
    assert settings == Settings(
        "light", "braille", 10, False, True, "map", False, False, ("blk", "state"), keys
    )
    assert settings.places["step"] == f"{tmp_path}/config.toml:13"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('them = "dark"', 'unknown key "them" (did you mean "theme"?)'),
        ("xyzzy = 1", 'unknown key "xyzzy"'),
        ("fps = 0", '"fps" must be an integer from 1 to 60, not 0'),
        ("fps = true", '"fps" must be an integer from 1 to 60, not true'),
        ('fps = "20"', '"fps" must be an integer from 1 to 60, not "20"'),
        ("theme = 3", '"theme" must be text in quotes, not 3'),
        ('theme = ""', '"theme" must hold 1 to 4,096 characters, not 0'),
        ('glyphs = "asci"', 'not "asci" (did you mean "ascii"?)'),
        ("mouse = 1", '"mouse" must be true or false, not 1'),
        ("preset = 8", '"preset" must be "last", 1 to 7 or a preset\'s name, not 8'),
        ("preset = true", "not true"),
        ('preset = "mpa"', 'not "mpa" (did you mean "map"?)'),
        ('columns = "blk"', '"columns" must be a list of columns, not "blk"'),
        ('columns = ["blk", "blk"]', '"columns" names "blk" twice'),
        ("columns = [[]]", '"columns" must be a list of columns in quotes'),
        ("keys = 3", '"keys" must be a table, [keys], not 3'),
        ("keys.fork = 3", '"fork" must be a key or a list of keys in quotes, not 3'),
        ('keys.fork = ["x", ""]', '"fork" must be a key or a list of keys in quotes, not an array'),
    ],
)
def test_a_mistake_is_named_by_line_and_costs_only_its_own_setting(
    tmp_path: Path, line: str, message: str
) -> None:
    settings, problems = read(tmp_path, f"flashes = false\n\n{line}\n")
    assert len(problems) == 1
    assert problems[0].startswith(f"{tmp_path}/config.toml:3: ") and message in problems[0]
    assert settings == Settings(flashes=False)


def test_all_mistakes_are_told(tmp_path: Path) -> None:
    _, problems = read(tmp_path, 'them = "x"\nfps = 99\n[keys]\nstep = 1\n')
    assert [problem.split(": ")[0].rsplit(":", 1)[1] for problem in problems] == ["1", "2", "4"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'theme = "dark"\nfps = = 3\n', "config.toml:2: invalid value"),
        (b"theme = 'dark", "config.toml:1: a text has no closing quote"),
        (b'\ntheme = "dark\nfps = 3\n', "config.toml:2: the text that begins here has no closing quote"),
        (b"\ntheme = 'dark\nglyphs = 'x'\n", "config.toml:2: the text that begins here has no closing quote"),
        (b'theme = "dark', "config.toml:1: a text has no closing quote"),
        (b'theme = "\x01"', "config.toml:1: illegal character '\\x01'"),
        (b"fps = 3\n# \xff\n", "config.toml:2: is not UTF-8"),
        (b"#" * ((1 << 20) + 1), "longer than 1 MiB"),
    ],
)
def test_a_file_that_is_no_toml_gives_the_defaults(tmp_path: Path, content: bytes, message: str) -> None:
    settings, problems = read(tmp_path, content)
    assert settings == Settings()
    assert len(problems) == 1 and message in problems[0]


def test_windows_line_ends_count_as_one(tmp_path: Path) -> None:
    assert ":3: " in read(tmp_path, b"mouse = true\r\n\r\nfps = 0\r\n")[1][0]


def test_a_folder_or_a_forbidden_file_in_its_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    settings, problems = load({}, tmp_path / "config.toml")
    assert settings == Settings() and "cannot be read: it is no file" in problems[0]
    if os.geteuid():
        path = tmp_path / "mine.toml"
        path.write_text("fps = 3")
        path.chmod(0)
        assert "permission denied" in load({}, path)[1][0]


def test_a_themes_path_starts_at_the_folder_of_the_settings(tmp_path: Path) -> None:
    assert read(tmp_path, 'theme = "mine.toml"')[0].theme == str(tmp_path / "mine.toml")
    assert read(tmp_path, 'theme = "/x/mine.toml"')[0].theme == "/x/mine.toml"
    assert read(tmp_path, 'theme = "~/mine.toml"')[0].theme == str(Path.home() / "mine.toml")


def test_flag_outweighs_environment_outweighs_file() -> None:
    file = Settings(fps=5, theme="mono", glyphs="ascii")
    environ = {"KVTOP_FPS": "7", "KVTOP_THEME": "light", "KVTOP_GLYPHS": ""}
    settings = resolve(file, environ, {"fps": 9, "theme": None, "mouse": False})
    assert (settings.fps, settings.theme, settings.glyphs) == (9, "light", "ascii")
    assert not settings.mouse
    assert settings.given == {"fps", "theme", "mouse"}


@pytest.mark.parametrize(
    ("variable", "value", "name", "expected"),
    [
        ("KVTOP_MOUSE", "0", "mouse", False),
        ("KVTOP_MOUSE", "Off", "mouse", False),
        ("KVTOP_READONLY", "yes", "readonly", True),
        ("KVTOP_FLASHES", "false", "flashes", False),
        ("KVTOP_CONFIRM_ABORT", "no", "confirm_abort", False),
        ("KVTOP_PRESET", "3", "preset", "tables"),
        ("KVTOP_PRESET", "map", "preset", "map"),
        ("KVTOP_COLUMNS", "blk, gen", "columns", ("blk", "gen")),
    ],
)
def test_the_environment_is_read_as_words(variable: str, value: str, name: str, expected: object) -> None:
    assert getattr(resolve(Settings(), {variable: value}, {}), name) == expected


@pytest.mark.parametrize(
    ("environ", "flags", "message"),
    [
        ({"KVTOP_FPS": "quick"}, {}, 'KVTOP_FPS must be an integer from 1 to 60, not "quick"'),
        ({"KVTOP_FPS": "-1"}, {}, "KVTOP_FPS must be"),
        ({"KVTOP_MOUSE": "perhaps"}, {}, 'KVTOP_MOUSE must be true or false, not "perhaps"'),
        ({"KVTOP_COLUMNS": "blk,"}, {}, "KVTOP_COLUMNS must be a list of columns"),
        ({}, {"preset": "9"}, "--preset must be"),
        ({}, {"confirm_abort": 3}, "--confirm-abort must be"),
    ],
)
def test_a_bad_flag_or_variable_is_an_error(
    environ: dict[str, str], flags: dict[str, object], message: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        resolve(Settings(), environ, flags)
    assert message in str(caught.value)


def test_folders_are_the_platforms_unless_the_environment_says_otherwise(tmp_path: Path) -> None:
    environ = {"KVTOP_CONFIG_DIR": "/a/b", "KVTOP_STATE_DIR": "/c"}
    assert config_file(environ) == Path("/a/b/config.toml")
    assert state_folder(environ) == Path("/c")
    assert config_folder({}).name == state_folder({}).name == "kvtop"


def test_names_are_those_of_the_screen() -> None:
    assert tuple(preset.id for preset in presets.PRESETS) == module.PRESETS
    assert columns.column_problems(Settings()) == []
