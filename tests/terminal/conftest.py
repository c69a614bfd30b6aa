"""A real terminal for the tests: tmux, whose screen can be read cell by cell."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

SECONDS = 60
ROOT = Path(__file__).parents[2]
KVTOP = f"{shlex.quote(sys.executable)} -m kvtop"


class Tmux:
    """One tmux server with one window, in which a shell runs."""

    def __init__(
        self, socket: Path, folder: Path, size: tuple[int, int], environment: Mapping[str, str]
    ) -> None:
        self.socket, self.folder = socket, folder
        kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
        env = {
            **kept,
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "KVTOP_CONFIG_DIR": str(folder / "config"),
            "KVTOP_STATE_DIR": str(folder / "state"),
            "PS1": "ready$ ",
            **environment,
        }
        self.tmux(
            "-u", "-f", os.devnull, "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]),
            "-c", str(folder),
            "env", "-i", *(f"{key}={value}" for key, value in env.items()), "TERM=tmux-256color",
            "sh",
        )  # fmt: skip
        self.tmux("set-option", "-g", "window-size", "manual")
        self.wait_for("ready$")

    def tmux(self, *arguments: str) -> str:
        """One command to the server."""
        done = subprocess.run(
            ["tmux", "-S", str(self.socket), *arguments], capture_output=True, text=True, encoding="utf-8"
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def type(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self.tmux("send-keys", *keys)

    def run(self, command: str) -> None:
        """Type a command line; its exit code is shown behind it."""
        self.type("-l", f"{command}; echo code=$?=")
        self.type("Enter")

    def paste(self, text: str) -> None:
        """Paste as a terminal does, in brackets where the program asked for them."""
        self.tmux("set-buffer", text)
        self.tmux("paste-buffer", "-p")

    def resize(self, width: int, height: int) -> None:
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def lines(self, *, styled: bool = False) -> list[str]:
        """What the screen shows."""
        return self.tmux("capture-pane", "-p", *(["-e"] if styled else [])).split("\n")

    def text(self) -> str:
        return "\n".join(self.lines())

    def wait(self, ready: Callable[[str], bool]) -> str:
        """The screen's text, once it is as wanted."""
        end = time.monotonic() + SECONDS
        text = ""
        while time.monotonic() < end:
            if ready(text := self.text()):
                return text
            time.sleep(0.02)
        raise AssertionError(f"not within {SECONDS} s:\n{text}")

    def wait_for(self, *words: str) -> str:
        """The screen's text, once all words are on it."""
        return self.wait(lambda text: all(word in text for word in words))

    def child(self) -> int:
        """The process that the shell runs."""
        shell = self.tmux("display-message", "-p", "#{pane_pid}").strip()
        found = subprocess.run(["pgrep", "-P", shell], capture_output=True, text=True).stdout.split()
        assert len(found) == 1, found
        return int(found[0])


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Callable[..., Tmux]]:
    """Opens terminals: `tmux((80, 24), NO_COLOR="1")`."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    opened: list[Tmux] = []

    def open_terminal(size: tuple[int, int] = (80, 24), **environment: str) -> Tmux:
        folder = tmp_path / str(len(opened))
        folder.mkdir()
        terminal = Tmux(folder / "socket", folder, size, environment)
        opened.append(terminal)
        return terminal

    yield open_terminal
    for terminal in opened:
        subprocess.run(["tmux", "-S", str(terminal.socket), "kill-server"], capture_output=True)


@pytest.fixture
def kvtop() -> str:
    """The command line that starts the dashboard without a model."""
    return f"{KVTOP} --model none --seed 7"
