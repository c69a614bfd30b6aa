"""Files are replaced whole, keep what a person wrote, and are left alone when they have a mistake."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path

import pytest

from kvtop.config import SaveError, Settings, UiState, folders, load, load_state, save_settings, save_state
from kvtop.config.folders import write_whole
from kvtop.config.writing import default_config

MINE = """# mine

fps = 5   # slow link
theme = 'light'

[keys]  # few
step = "n"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_the_default_file_says_the_defaults(path: Path) -> None:
    path.write_text(default_config())
    assert load({}, path) == (Settings(), [])
    not_in_the_file = {"places", "theme_place", "columns_place", "given"}
    assert set(tomllib.loads(default_config())) == {*Settings.__dataclass_fields__} - not_in_the_file


def test_every_key_of_the_default_file_has_a_comment_above() -> None:
    lines = default_config().splitlines()
    for number, line in enumerate(lines):
        assert len(line) <= 110
        if " = " in line and not line.startswith("#"):
            assert lines[number - 1].startswith("# ")


def test_comments_order_and_quotes_are_kept(path: Path) -> None:
    path.write_text(MINE)
    save_settings({"fps": 30, "mouse": False}, path)
    text = path.read_text()
    assert text == MINE.replace("fps = 5 ", "fps = 30 ").replace(
        "theme = 'light'\n", "theme = 'light'\nmouse = false\n"
    )
    settings, problems = load({}, path)
    assert problems == []
    assert (settings.fps, settings.mouse, settings.keys) == (30, False, {"step": ("n",)})


def test_every_setting_survives_being_saved(path: Path) -> None:
    changes = {
        "theme": "mono", "glyphs": "ascii", "fps": 1, "mouse": False, "readonly": True, "preset": "kernel",
        "flashes": False, "confirm_abort": False, "columns": ("pre", "blk"),
    }  # fmt: skip
    save_settings(changes, path)
    settings, problems = load({}, path)
    assert problems == []
    assert {name: getattr(settings, name) for name in changes} == changes
    save_settings({"preset": "last", "columns": ()}, path)
    assert load({}, path)[0].columns == ()


def test_windows_line_ends_are_kept(path: Path) -> None:
    path.write_bytes(b"fps = 5\r\n# mine\r\n")
    save_settings({"fps": 6}, path)
    assert path.read_bytes() == b"fps = 6\r\n# mine\r\n"


@pytest.mark.parametrize("text", ["fps = = 3\n", "fps = 99\n", "them = 3\n", "keys = 3\n"])
def test_a_file_with_a_mistake_is_never_written(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(SaveError, match=r"not saved, the file has a mistake: .*config.toml:1: "):
        save_settings({"theme": "light"}, path)
    assert path.read_text() == text


def test_what_is_no_setting_cannot_be_saved(path: Path) -> None:
    with pytest.raises(KeyError):
        save_settings({"keys": {}}, path)
    with pytest.raises(SaveError, match="fps"):
        save_settings({"fps": 99}, path)
    assert not path.exists()


def test_the_folder_is_made_and_the_file_is_readable_as_any_other(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "config.toml"
    umask = os.umask(0o027)
    try:
        save_settings({"fps": 3}, path)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [file.name for file in path.parent.iterdir()] == ["config.toml"]


def test_a_link_stays_a_link_and_permissions_are_kept(tmp_path: Path, path: Path) -> None:
    real = tmp_path / "dotfiles" / "kvtop.toml"
    real.parent.mkdir()
    real.write_text("fps = 5\n")
    real.chmod(0o600)
    path.symlink_to(Path("dotfiles") / "kvtop.toml")
    save_settings({"fps": 6}, path)
    assert path.is_symlink() and real.read_text() == "fps = 6\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


@pytest.mark.parametrize("failing", ["fsync", "replace", "fchmod"])
def test_a_failure_leaves_the_old_file_and_no_other(
    path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path.write_text("fps = 5\n")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folders.os, failing, fail)
    with pytest.raises(SaveError, match="cannot be written: no space left on device"):
        save_settings({"fps": 6}, path)
    monkeypatch.undo()
    assert path.read_text() == "fps = 5\n"
    assert list(path.parent.iterdir()) == [path]


def test_the_text_is_on_the_disk_before_it_takes_the_name(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(folders.os, "fsync", lambda handle: (calls.append("fsync"), sync(handle)))
    monkeypatch.setattr(folders.os, "replace", lambda a, b: (calls.append("replace"), replace(a, b)))
    write_whole(path, "x")
    assert calls[:2] == ["fsync", "replace"]


def test_nothing_changed_writes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("fps = 5\n")
    before = path.stat()
    save_settings({"fps": 5}, path)
    assert path.stat().st_ino == before.st_ino


# -- the screen's state -------------------------------------------------------------------------------------


def test_state_comes_back(tmp_path: Path) -> None:
    environ = {"KVTOP_STATE_DIR": str(tmp_path / "deep" / "state")}
    assert load_state(environ) == UiState()
    state = UiState("map", {"columns": 0.4, "map.rows": 0.62}, "blk", True, False)
    assert save_state(state, environ) is None
    assert load_state(environ) == state


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("preset = ", UiState()),
        ("preset = 'none'\nsort = 'blk'\n", UiState(sort="blk")),
        ("inverted = 1\ntree = false\nmore = 3\n", UiState(tree=False)),
        ("splits = 3\nsort = 7\n", UiState()),
        (
            "[splits]\na = 0.5\nb = 7\nc = nan\nd = 'x'\ne = true\nf = 0\n",
            UiState(splits={"a": 0.5}),
        ),
        ("preset = [1]\nsort = {}\n", UiState()),
    ],
)
def test_a_state_that_makes_no_sense_is_left_out(tmp_path: Path, text: str, state: UiState) -> None:
    (tmp_path / "state.toml").write_text(text)
    assert load_state({"KVTOP_STATE_DIR": str(tmp_path)}) == state


def test_a_state_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    (tmp_path / "state.toml").mkdir()
    assert load_state({"KVTOP_STATE_DIR": str(tmp_path)}) == UiState()
    (tmp_path / "file").write_text("")
    assert load_state({"KVTOP_STATE_DIR": str(tmp_path / "file")}) == UiState()


def test_a_state_that_cannot_be_written_is_a_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    message = save_state(UiState(), {"KVTOP_STATE_DIR": str(tmp_path / "file")})
    assert message is not None and "state.toml: cannot be written: " in message
