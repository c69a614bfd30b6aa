"""Leaving the terminal as it was found, even when it no longer takes what is written to it."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from types import TracebackType
from typing import Any

GRACE_SECONDS = 2.0
"""How long an orderly exit may take after a signal."""


class Guard:
    """Remembers the terminal's modes; after a signal it ends the process if an orderly exit hangs.

    An exit hangs when the terminal has stopped reading: the last frame, and the escape codes behind it,
    cannot be written. The modes can be put back all the same.
    """

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None
        self._modes: list[Any] | None = None

    def __enter__(self) -> Guard:
        with contextlib.suppress(Exception):  # no terminal, or none with modes
            import termios

            self._modes = termios.tcgetattr(sys.__stdin__.fileno())  # type: ignore[union-attr]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def arm(self, number: int) -> None:
        """Signal `number` has come: exit with 128 + number when the orderly way takes too long."""
        if self._timer is None:
            self._timer = threading.Timer(GRACE_SECONDS, self._leave, (number,))
            self._timer.daemon = True
            self._timer.start()

    def _leave(self, number: int) -> None:
        """Put the modes back and end the process at once."""
        if self._modes is not None:
            with contextlib.suppress(Exception):
                import termios

                termios.tcsetattr(sys.__stdin__.fileno(), termios.TCSANOW, self._modes)  # type: ignore[union-attr]
        os._exit(128 + number)
