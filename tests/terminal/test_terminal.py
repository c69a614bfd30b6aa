"""The dashboard in a real terminal: sizes, signals, job control, colours, encodings and pastes."""

from __future__ import annotations

import os
import re
import signal
import time

import pytest

SGR_COLOUR = re.compile(r"\x1b\[[0-9;]*\b(3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]")

PAGES = (
    ("1", "Sequences"),
    ("2", "2 cells = 1 block"),
    ("3", "Block tables ("),
    ("4", "Prefixes ("),
    ("5", "Compare ("),
    ("6", "Rates"),
    ("7", "Kernel: no model"),
    ("F1", "Esc closes"),
)
"""The keys of the presets and of the help, each with a word that its picture has."""


def full(size: tuple[int, int]):
    """Whether a screen is drawn whole: its frame's corners and the key bar are there."""

    def ready(text: str) -> bool:
        lines = text.rstrip("\n").split("\n")
        return len(lines) == size[1] and "F1" in lines[-1] and "Pool" in text and "RUNNING" in lines[0]

    return ready


def test_a_storm_of_sizes_leaves_a_whole_picture(tmux, kvtop) -> None:
    terminal = tmux((120, 36))
    terminal.run(kvtop)
    terminal.wait(full((120, 36)))
    for size in ((20, 5), (1, 1), (300, 90), (59, 17), (60, 18), (120, 36)):
        terminal.resize(*size)
        time.sleep(0.15)
    terminal.wait(full((120, 36)))
    terminal.resize(40, 10)
    terminal.wait_for("40x10", "60x18", "q")
    terminal.resize(300, 90)
    text = terminal.wait(full((300, 90)))
    assert max(len(line) for line in text.split("\n")) > 290
    terminal.resize(20, 5)
    terminal.wait_for("20x5")
    terminal.type("q")
    terminal.wait_for("code=0=")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_gives_the_shell_back_as_it_was(tmux, kvtop, number) -> None:
    terminal = tmux()
    terminal.run(kvtop)
    terminal.wait(full((80, 24)))
    child = terminal.child()
    os.kill(child, number)
    text = terminal.wait_for(f"code={128 + number}=")
    assert "Pool" not in text  # the alternate screen is gone
    terminal.type("-l", "stty -a | grep -o ' echo '; echo alive")
    terminal.type("Enter")
    terminal.wait_for("\nalive", " echo")
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert (
        terminal.tmux("display-message", "-p", "#{mouse_any_flag}#{alternate_on}#{cursor_flag}").strip()
        == "001"
    )


def test_stop_and_continue(tmux, kvtop) -> None:
    terminal = tmux()
    terminal.run(kvtop)
    terminal.wait(full((80, 24)))
    terminal.type("C-z")
    terminal.wait(lambda text: "Pool" not in text and "ready$" in text)
    terminal.type("-l", "fg")
    terminal.type("Enter")
    terminal.wait(full((80, 24)))
    terminal.type("2")
    terminal.wait(lambda text: "Sequences" not in text and "Blocks (512)" in text)
    terminal.type("q")
    terminal.wait(lambda text: "Pool" not in text and "ready$" in text)


def test_a_paste_is_no_key(tmux, kvtop) -> None:
    terminal = tmux()
    terminal.run(kvtop)
    terminal.wait(full((80, 24)))
    terminal.paste("q2kyA\x03 ab\x1bq x\x1b[A q")
    terminal.type("F1")  # comes after the paste, so what it opens shows that the paste was taken
    terminal.wait_for("Esc closes")
    terminal.type("Escape")
    text = terminal.wait(lambda text: full((80, 24))(text) and "Esc closes" not in text)
    assert "Sequences" in text
    terminal.type("q")
    terminal.wait_for("code=0=")


def test_a_paste_into_a_field_is_text(tmux, kvtop) -> None:
    terminal = tmux()
    terminal.run(kvtop)
    terminal.wait(full((80, 24)))
    terminal.type("a")
    terminal.wait_for("Add a request")
    terminal.type("-l", "before ")
    terminal.paste("quit q\x1b[31m\nnow")
    terminal.wait(lambda text: "before quit q" in text and "[31m now" in text)
    terminal.type("Escape")
    terminal.wait(full((80, 24)))


def test_without_colour_there_is_no_colour_code(tmux, kvtop) -> None:
    terminal = tmux(NO_COLOR="1")
    terminal.run(kvtop)
    terminal.wait(full((80, 24)))
    terminal.type("Down", "Down")
    for key, word in PAGES:
        terminal.type(key)
        terminal.wait_for(word)
        styled = "\n".join(terminal.lines(styled=True))
        assert not SGR_COLOUR.search(styled), SGR_COLOUR.search(styled)


@pytest.mark.parametrize("charset", ["C", "POSIX", "en_US.ISO-8859-1"])
def test_where_the_encoding_is_poor_the_picture_is_ascii(tmux, kvtop, charset) -> None:
    terminal = tmux((100, 30), LC_ALL=charset)
    terminal.run(kvtop)
    terminal.wait(full((100, 30)))
    for key, word in PAGES:
        terminal.type(key)
        text = terminal.wait_for(word)
        assert text.isascii(), sorted(set(text) - set(map(chr, range(128))))
    terminal.type("Escape")
    terminal.wait(lambda text: "Help -" not in text)
    terminal.type("1")
    text = terminal.wait(lambda text: "Sequences" in text and full((100, 30))(text))
    frames = [line for line in text.split("\n") if line.startswith("+")]
    assert frames
    assert all(len(line) == 100 and line.endswith("+") for line in frames)


def test_the_mouse_selects_and_no_mouse_leaves_it_to_the_terminal(tmux, kvtop) -> None:
    terminal = tmux((120, 36))
    terminal.run(kvtop)
    terminal.wait(full((120, 36)))
    assert terminal.tmux("display-message", "-p", "#{mouse_any_flag}").strip() == "1"
    terminal.type("q")
    terminal.wait_for("code=0=")
    terminal.run("clear; " + kvtop + " --no-mouse")
    terminal.wait(full((120, 36)))
    assert terminal.tmux("display-message", "-p", "#{mouse_any_flag}").strip() == "0"


def test_preset_and_borders_survive_a_restart(tmux, kvtop) -> None:
    terminal = tmux((120, 36))
    terminal.run(kvtop)
    before = terminal.wait(full((120, 36)))
    terminal.type("C-Right")
    once = terminal.wait(lambda text: full((120, 36))(text) and _border(text) != _border(before))
    terminal.type("C-Right")
    moved = terminal.wait(lambda text: full((120, 36))(text) and _border(text) != _border(once))
    terminal.type("3")
    terminal.wait(lambda text: "Sequences" not in text and "tables" in text)
    terminal.type("q")
    terminal.wait_for("code=0=")
    terminal.run("clear; " + kvtop)
    terminal.wait(lambda text: "tables" in text and "RUNNING" in text)
    terminal.type("1")
    again = terminal.wait(lambda text: "Sequences" in text)
    assert _border(again) == _border(moved)


def _border(text: str) -> int:
    """The column at which the table's frame begins."""
    return next(line.index(" Sequences") for line in text.split("\n") if " Sequences" in line)


@pytest.mark.parametrize(
    "redirected",
    [
        "< /dev/null",
        "<&-",
        "> out.txt",
        ">&-",
        "2> err.txt",
        "| cat > out.txt",
        "< /dev/null > out.txt 2> err.txt",
    ],
)
def test_without_a_whole_terminal_it_says_so_in_one_line(tmux, kvtop, redirected) -> None:
    terminal = tmux((120, 36))
    command = f"{kvtop} {redirected}"
    terminal.run(command)
    text = terminal.wait(lambda text: re.search(r"code=\d", text) is not None)
    folder = terminal.folder
    written = text + "".join(path.read_text() for path in folder.glob("*.txt"))
    assert "the dashboard needs a terminal" in written.replace("\n", " ").replace("  ", " ")
    assert "Traceback" not in written
    assert all("\x1b" not in path.read_text() for path in folder.glob("*.txt"))
    if "|" not in redirected:
        assert "code=2=" in text


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_draw_is_told_so(tmux, kvtop, term) -> None:
    terminal = tmux((120, 36))
    terminal.run(f"TERM={term} {kvtop}")
    text = terminal.wait_for("code=2=")
    assert "the dashboard needs a terminal" in text
    terminal.run(f"env -u TERM {kvtop}")
    terminal.wait(lambda text: text.count("code=2=") == 2)


def test_markup_and_escapes_in_a_prompt_are_text(tmux, kvtop) -> None:
    terminal = tmux((120, 36))
    terminal.run(kvtop)
    terminal.wait(full((120, 36)))
    terminal.type("Z", "a")
    terminal.wait_for("Add a request")
    terminal.type("-l", "[@click=app.quit]x [red]bold[/red]")
    terminal.type("Enter")
    terminal.wait_for("added request")
    terminal.type("F4")
    terminal.wait_for("Filter:")
    terminal.type("-l", "[red]")
    text = terminal.wait(lambda text: "Sequences (1 of" in text)
    assert "[red]" in text


def test_a_model_that_is_not_there_is_told_in_the_shell(tmux, kvtop) -> None:
    terminal = tmux((100, 30))
    terminal.run(kvtop.replace("none", "/no/such/model"))
    text = terminal.wait_for("code=2=")
    assert "/no/such/model" in text
    assert "Traceback" not in text


def test_a_model_that_cannot_be_loaded_is_told_in_the_shell_too(tmux, kvtop) -> None:
    terminal = tmux((100, 30))
    (terminal.folder / "broken").mkdir()
    (terminal.folder / "broken" / "config.json").write_text("{}")
    terminal.run(kvtop.replace("none", "./broken"))
    terminal.wait_for("Failed")
    terminal.type("q")
    text = terminal.wait_for("code=2=")
    assert "kvtop: " in text
