"""A program in a pseudo-terminal: how much it writes and computes, and how soon it shows something."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
CACHE = os.path.join(tempfile.gettempdir(), "kvtop-bench", "modules")


@dataclass(frozen=True, slots=True)
class Measured:
    """What a program did in a terminal. Times in seconds, memory and amounts in bytes."""

    first_frame: float
    """From its start until the awaited word was on its way to the terminal: wall time."""
    first_frame_cpu: float
    cpu_share: float
    """Processor time over wall time, after the first seconds."""
    bytes_per_second: float
    memory: int
    """Resident at the end."""


class Terminal:
    """A child whose terminal is read as fast as it writes, or slower."""

    def __init__(
        self, command: Sequence[str], size: tuple[int, int], environment: Mapping[str, str] | None = None
    ) -> None:
        self.began = time.perf_counter()
        self.output = bytearray()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # As an installed program runs: from compiled modules, wherever this machine wants them.
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
            os.environ["PYTHONPYCACHEPREFIX"] = CACHE
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", **(environment or {}))
            os.execvp(command[0], list(command))
        columns, lines = size
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read_for(self, seconds: float, until: bytes = b"") -> int:
        """Read for a time, or until a word has come. Returns the bytes read."""
        end, number = time.perf_counter() + seconds, 0
        while (left := end - time.perf_counter()) > 0:
            if not select.select([self.fd], [], [], left)[0]:
                continue
            try:
                piece = os.read(self.fd, 1 << 16)
            except OSError as error:
                raise SystemExit(
                    f"the program ended: {self.output[-500:].decode(errors='replace')}"
                ) from error
            number += len(piece)
            self.output += piece
            if until and until in self.output:
                break
        return number

    def cpu(self) -> float:
        """Processor seconds of the child so far, all its threads together."""
        with open(f"/proc/{self.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self) -> int:
        """Resident bytes of the child."""
        with open(f"/proc/{self.pid}/statm") as statm:
            return int(statm.read().split()[1]) * PAGE

    def close(self) -> None:
        """End the child."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def measure(
    command: Sequence[str],
    size: tuple[int, int],
    *,
    until: bytes,
    settle: float = 3.0,
    seconds: float = 6.0,
    environment: Mapping[str, str] | None = None,
) -> Measured:
    """Run a program in a terminal of `size` (columns, lines) for some time; `until` marks its first frame."""
    terminal = Terminal(command, size, environment)
    try:
        terminal.read_for(30, until)
        first, first_cpu = time.perf_counter() - terminal.began, terminal.cpu()
        terminal.read_for(settle)
        began, cpu = time.perf_counter(), terminal.cpu()
        written = terminal.read_for(seconds)
        passed = time.perf_counter() - began
        share, memory = (terminal.cpu() - cpu) / passed, terminal.memory()
    finally:
        terminal.close()
    return Measured(first, first_cpu, share, written / passed, memory)
