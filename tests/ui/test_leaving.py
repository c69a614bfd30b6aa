"""Leaving: exit codes, and a terminal as it was found, in a real pseudo-terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path

import pytest

SCRIPT = """
import sys
from kvtop.ui.app.run import run_app
from tests.ui.fake_session import FakeSession
session = FakeSession(64).run(20)
session.auto = True
code = run_app(session)
assert session.closed
sys.exit(code)
"""
RESTORED = (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1003l", b"\x1b[?2004l")
"""Alternate screen off, cursor shown, mouse off, bracketed paste off."""
SECONDS = 60


class Terminal:
    """A child in a pseudo-terminal."""

    def __init__(self, *, ignore_hangup: bool = False) -> None:
        self.output = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGHUP, signal.SIG_IGN if ignore_hangup else signal.SIG_DFL)
            os.environ.update(TERM="xterm-256color", PYTHONPATH=str(Path(__file__).parents[2]))
            os.execv(sys.executable, [sys.executable, "-c", SCRIPT])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.modes = termios.tcgetattr(self.fd)

    def read_until(self, word: bytes) -> None:
        """Read what the child writes until a word comes."""
        end = time.monotonic() + SECONDS
        while word not in self.output and time.monotonic() < end:
            if select.select([self.fd], [], [], 0.1)[0]:
                self.output += os.read(self.fd, 65536)
        assert word in self.output

    def code(self) -> int:
        """Read on until the child has ended; its exit code."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if self.fd >= 0 and select.select([self.fd], [], [], 0.02)[0]:
                with contextlib.suppress(OSError):  # the child has closed its side
                    self.output += os.read(self.fd, 65536)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError("the child did not end")

    def close(self) -> None:
        os.close(self.fd)
        self.fd = -1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT])
def test_a_signal_restores_the_terminal(number: signal.Signals) -> None:
    terminal = Terminal()
    terminal.read_until(b"Blocks")
    assert termios.tcgetattr(terminal.fd) != terminal.modes
    os.kill(terminal.pid, number)
    assert terminal.code() == 128 + number
    for sequence in RESTORED:
        assert sequence in terminal.output.rpartition(b"\x1b[?1049h")[2]
    terminal.close()


def test_q_leaves_with_0_and_the_modes_are_back() -> None:
    terminal = Terminal()
    terminal.read_until(b"Blocks")
    os.write(terminal.fd, b"q")
    terminal.read_until(b"\x1b[?1049l")
    assert termios.tcgetattr(terminal.fd) == terminal.modes
    assert terminal.code() == 0
    terminal.close()


def test_a_closed_terminal_ends_the_program_even_when_hangups_are_ignored() -> None:
    terminal = Terminal(ignore_hangup=True)
    terminal.read_until(b"Blocks")
    terminal.close()
    assert terminal.code() == 128 + signal.SIGHUP


def test_a_terminal_that_stopped_reading_does_not_hold_the_program() -> None:
    terminal = Terminal()
    terminal.read_until(b"Blocks")
    time.sleep(1.0)
    os.kill(terminal.pid, signal.SIGTERM)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        pid, status = os.waitpid(terminal.pid, os.WNOHANG)
        if pid:
            assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGTERM
            terminal.close()
            return
        time.sleep(0.05)
    os.kill(terminal.pid, signal.SIGKILL)
    os.waitpid(terminal.pid, 0)
    raise AssertionError("the program hung")
