from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

Kvtop = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kvtop() -> Kvtop:
    """Run the command as a person does, without a terminal."""

    def run(
        *arguments: str, stdin: int = subprocess.DEVNULL, stdout=subprocess.PIPE, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "kvtop", *arguments],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            stdin=stdin,
            timeout=120,
            env={**os.environ, **environment},
        )

    return run
