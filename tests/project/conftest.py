"""The checkout, processes that see only what they should see, and the wheel built once."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = sysconfig.get_paths()["purelib"]

Isolated = Callable[..., str]


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the checkout."""
    return ROOT


def _environment(changes: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | changes


def _run(command: Sequence[str | Path], cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env=_environment(environment),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"{command} exited {done.returncode}\n{done.stdout}\n{done.stderr}", pytrace=False)
    return done.stdout


@pytest.fixture(scope="session")
def run() -> Callable[..., str]:
    """`run(command, cwd, NAME=value)`: its standard output; fails the test when it fails."""
    return _run


@pytest.fixture(scope="session")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> Isolated:
    """`isolated(code, *path)`: run `code` with `path`, then the installed libraries, and nothing else.

    Without `site`, no `.pth` file is read, so an editable install of this checkout cannot be seen.
    """
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    def run_isolated(code: str, *path: Path | str) -> str:
        places = [str(place) for place in path] + [LIBRARIES]
        program = f"import sys; sys.path[:0] = {places!r}\n{code}"
        return _run([sys.executable, "-I", "-S", "-B", "-c", program], cwd=elsewhere)

    return run_isolated


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    out = tmp_path_factory.mktemp("dist")
    _run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT], cwd=out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the wheel, and nothing else, is installed into."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    _run([*pip, "--target", target, wheel], cwd=target)
    return target
