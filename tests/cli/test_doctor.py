"""`kvtop doctor`, and what the command line does with settings."""

from __future__ import annotations

import importlib.util
import json
import os
import pty
import select
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest

from kvtop import doctor
from kvtop.config import Settings
from kvtop.config.writing import default_config
from kvtop.dashboard import choose_palette
from kvtop.options import UsageError


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment with folders of its own."""
    monkeypatch.setenv("KVTOP_CONFIG_DIR", str(tmp_path))
    return {"KVTOP_CONFIG_DIR": str(tmp_path), "KVTOP_STATE_DIR": str(tmp_path / "state")}


def checks(environ: dict[str, str]) -> dict[str, list[doctor.Check]]:
    """The checks by name."""
    found: dict[str, list[doctor.Check]] = {}
    for check in doctor.examine(environ):
        found.setdefault(check.name, []).append(check)
    return found


def test_a_line_for_each_and_no_escape_byte(kvtop, tmp_path: Path) -> None:
    done = kvtop("doctor", KVTOP_CONFIG_DIR=str(tmp_path), LC_ALL="C", LANG="C")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.isascii() and "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert {line.split()[0] for line in lines} <= {"ok", "note"}
    for name in ("Python", "torch", "transformers", "textual", "CPU", "GPU", "RAM", "terminal", "glyphs"):
        assert any(line[9:].startswith(name) for line in lines), name
    assert any("ascii: LC_ALL=C is not UTF-8" in line for line in lines)
    assert any(str(tmp_path / "config.toml") in line for line in lines)


def test_json(kvtop, environ) -> None:
    done = kvtop("doctor", "--json", **environ)
    found = json.loads(done.stdout)
    assert found["ok"] is True
    assert {"name", "status", "text"} == set(found["checks"][0])
    versions = {check["name"]: check["text"] for check in found["checks"]}
    assert versions["textual"] == metadata.version("textual")


def test_the_kernels_that_serve_and_what_is_missing(environ, monkeypatch) -> None:
    found = importlib.util.find_spec

    def lines(*missing: str) -> dict[str, tuple[str, str]]:
        hidden = lambda name, *rest: None if name in missing else found(name, *rest)  # noqa: E731
        monkeypatch.setattr("kvtop.kernels.choice.importlib.util.find_spec", hidden)
        kernels = [check for check in doctor.examine(environ) if check.name.startswith("kernels")]
        return {check.name.removeprefix("kernels, "): (check.status, check.text) for check in kernels}

    monkeypatch.setattr(doctor, "_capabilities", list)
    monkeypatch.setattr(doctor, "_version", lambda package: "1.2.3")
    assert lines() == {
        "CPU": ("ok", "numba 1.2.3"),
        "GPU": ("ok", "triton 1.2.3, for a machine with a GPU"),
    }
    assert lines("numba", "triton") == {
        "CPU": ("note", "torch, slower: numba is not installed"),
        "GPU": ("note", "triton is not installed"),
    }
    with monkeypatch.context() as broken:
        broken.setattr(doctor.importlib, "import_module", lambda name: 1 // 0)
        assert lines() == {
            "CPU": ("note", "torch, slower: numba does not load: integer division or modulo by zero"),
            "GPU": ("note", "triton does not load: integer division or modulo by zero"),
        }
    monkeypatch.setattr(doctor, "_capabilities", lambda: [(9, 0), (7, 5)])
    assert lines() == {
        "CPU": ("ok", "numba 1.2.3"),
        "GPU 0": ("ok", "triton 1.2.3"),
        "GPU 1": ("note", "torch, slower: triton needs compute capability 8.0, this GPU has 7.5"),
    }
    monkeypatch.setattr(doctor, "_version", lambda package: "1.2.3+cpu")
    assert lines()["GPU 0"] == ("note", "triton 1.2.3+cpu, but this torch is built without CUDA")


def test_torch_is_not_imported(environ) -> None:
    code = (
        "import os, sys; from kvtop.doctor import examine; examine(os.environ); "
        "print({'torch', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "set()\n", done.stderr


def test_what_is_needed_and_missing_exits_1(kvtop, environ, monkeypatch) -> None:
    def version(name: str) -> str:
        if name == "transformers":
            raise metadata.PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr(doctor.importlib.metadata, "version", version)
    (check,) = checks(environ)["transformers"]
    assert (check.status, check.text) == ("missing", "not installed: pip install transformers")
    code = (
        "import sys; from kvtop import doctor; doctor.PACKAGES = ('torch', 'no-such-package'); "
        "from kvtop.cli import main; sys.argv = ['kvtop', 'doctor']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "missing  no-such-package" in done.stdout


def test_mistakes_in_files_are_listed_and_are_no_failure(kvtop, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('them = 3\nfps = 0\ntheme = "mine"\n[keys]\nfrok = "x"\n')
    (tmp_path / "themes").mkdir()
    (tmp_path / "themes" / "mine.toml").write_text('pirmary = "#000000"\ntext = "blau"\n')
    done = kvtop("doctor", KVTOP_CONFIG_DIR=str(tmp_path), KVTOP_FPS="fast")
    assert done.returncode == 0
    for line in (
        f'{tmp_path}/config.toml:1: unknown key "them" (did you mean "theme"?)',
        f"{tmp_path}/config.toml:2: ",
        f'{tmp_path}/config.toml:3: {tmp_path}/themes/mine.toml:1: unknown key "pirmary"',
        f'{tmp_path}/config.toml:5: unknown action "frok" (did you mean "fork"?)',
        f'{tmp_path}/themes/mine.toml:1: unknown key "pirmary" (did you mean "primary"?)',
        f'{tmp_path}/themes/mine.toml:2: "text" is "blau"',
        "KVTOP_FPS must be an integer",
        "; dark is used",
    ):
        assert line in done.stdout, line


def test_an_unknown_theme_is_a_mistake_of_the_file(environ, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('\n\ntheme = "drak"\n')
    (check,) = checks(environ)["settings"]
    assert check.status == "note"
    assert check.text == f'{tmp_path}/config.toml:3: no theme "drak" (did you mean "dark"?)'


@pytest.mark.parametrize(
    ("term", "words"),
    [("dumb", 'terminal: TERM is "dumb"; set it'), ("", "terminal: TERM is not set; set it")],
)
def test_a_terminal_that_cannot_draw_is_named(environ, term: str, words: str) -> None:
    code, written = in_a_terminal("--model", "none", **environ, TERM=term)
    assert code == 2 and written.count("\n") == 1
    assert f"the dashboard needs a {words}" in written and "kvtop run --batch" in written


def test_streams_that_are_no_terminal_are_named(kvtop) -> None:
    done = kvtop("run", "--model", "none")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "the dashboard needs a terminal: standard input, standard output and standard error" in done.stderr


def test_a_name_with_control_characters_is_shown(environ, tmp_path: Path) -> None:
    check = doctor.Check("settings", "note", "a\x1b[31mb\n")
    assert doctor.report([check], as_json=False, encoding="ascii") == "note     settings  a\\x1b[31mb\\x0a\n"
    assert "\\xe9" in doctor.report([doctor.Check("x", "ok", "é")], as_json=False, encoding="ascii")


@pytest.mark.parametrize(
    ("environ_more", "name", "status", "words"),
    [
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "colours", "ok", "16 million"),
        ({"TERM": "xterm-256color"}, "colours", "ok", "256"),
        ({"TERM": "linux"}, "colours", "note", "16-colour"),
        ({"NO_COLOR": "1"}, "colours", "note", "NO_COLOR"),
        ({"LANG": "C"}, "glyphs", "note", "LANG=C is not UTF-8"),
        ({"LANG": "en_GB.UTF-8"}, "glyphs", "ok", "block: LANG=en_GB.UTF-8"),
        ({}, "glyphs", "ok", "no locale is set"),
        ({"LANG": "C", "KVTOP_GLYPHS": "braille"}, "glyphs", "ok", "braille: set to braille"),
        ({"TMUX": "/tmp/x"}, "tmux", "note", "RGB"),
        ({"TERM": "screen-256color", "COLORTERM": "truecolor"}, "tmux", "note", "mouse on"),
        ({"KVTOP_THEME": "light"}, "environment", "note", "KVTOP_THEME outweighs the file"),
    ],
)
def test_what_the_environment_says(environ, environ_more, name, status, words) -> None:
    (check,) = checks(environ | environ_more)[name]
    assert check.status == status and words in check.text


def test_outside_tmux_nothing_is_said_of_it(environ) -> None:
    assert "tmux" not in checks(environ | {"TERM": "xterm"})


@pytest.mark.parametrize(
    ("info", "status", "words"),
    [
        (
            "model name : Xeon\nflags : avx512_bf16 amx_bf16\n\nflags : x\n",
            "ok",
            "Xeon, bf16 by amx_bf16 and",
        ),
        ("flags\t\t: fpu avx2\n", "note", "without instructions for bf16"),
        ("Features\t: fp bf16\n", "ok", "bf16 by bf16"),
    ],
)
def test_the_processor(environ, monkeypatch, info: str, status: str, words: str) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_: info)
    (check,) = doctor._processor(environ)
    assert check.status == status and words in check.text


def test_a_model_that_is_not_whole_is_missing(environ, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor.kvtop, "__file__", str(tmp_path / "__init__.py"))
    (check,) = doctor._model(environ)
    assert check.status == "missing" and "model.safetensors" in check.text


# -- settings on the command line ---------------------------------------------------------------------------


def test_the_default_file_is_printed(kvtop) -> None:
    for arguments in (("--print-default-config",), ("run", "--print-default-config")):
        done = kvtop(*arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, default_config(), "")


def in_a_terminal(*arguments: str, **environ: str) -> tuple[int, str]:
    """Run kvtop on a terminal of its own, where it must end by itself; exit code and what it wrote."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "kvtop", *arguments],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm", **environ},
    )
    os.close(follower)
    written, latest = b"", time.monotonic() + 30
    try:
        while select.select([leader], [], [], max(0, latest - time.monotonic()))[0]:
            written += os.read(leader, 65536)
    except OSError:  # the other end is closed
        pass
    process.terminate()  # one that has ended by itself keeps its exit code
    os.close(leader)
    return process.wait(60), written.decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("arguments", "environ_more", "message"),
    [
        (("--theme", "drak"), {}, 'no theme "drak" (did you mean "dark"?)'),
        (("--theme", "./none.toml"), {}, "none.toml: there is no such file"),
        (("--preset", "9"), {}, '--preset must be "last", 1 to 7'),
        ((), {"KVTOP_THEME": "drak"}, 'no theme "drak"'),
        ((), {"KVTOP_FPS": "0"}, "KVTOP_FPS must be an integer from 1 to 60"),
    ],
)
def test_a_setting_asked_for_that_cannot_be_used_exits_2(environ, arguments, environ_more, message) -> None:
    code, written = in_a_terminal("--model", "none", *arguments, **environ, **environ_more)
    assert code == 2
    assert written.count("\n") == 1 and "\x1b" not in written
    assert written.startswith("kvtop: ") and message in written


def test_a_theme_in_the_file_that_cannot_be_used_gives_the_default(environ) -> None:
    assert choose_palette(Settings(theme="drak"), asked=False, environ={}).name == "dark"
    with pytest.raises(UsageError, match="drak"):
        choose_palette(Settings(theme="drak"), asked=True, environ={})


def test_no_color_takes_a_theme_of_greys(environ, tmp_path: Path) -> None:
    choose = choose_palette
    assert choose(Settings(theme="light"), asked=True, environ={"NO_COLOR": "1"}).name == "mono"
    assert choose(Settings(theme="light"), asked=True, environ={"NO_COLOR": ""}).name == "light"
