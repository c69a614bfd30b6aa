"""Our `kernels/` never stands in for the distribution `kernels` that transformers looks for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

_ASK = """
import importlib, json
from transformers.utils import import_utils
try:
    origin = importlib.import_module("kernels").__file__
except ModuleNotFoundError:
    origin = None
print(json.dumps({"available": import_utils.is_kernels_available(), "origin": origin}))
"""

Ask = Callable[..., dict[str, object]]


@pytest.fixture
def ask(isolated: Callable[..., str]) -> Ask:
    return lambda *path: json.loads(isolated(_ASK, *path).splitlines()[-1])


@pytest.fixture
def stand_in(tmp_path: Path, isolated: Callable[..., str]) -> Path:
    """A distribution `kernels` of a version that transformers takes."""
    versions = "from transformers.utils import import_utils; print(import_utils.KERNELS_MIN_VERSION)"
    version = isolated(versions).splitlines()[-1]
    package = tmp_path / "kernels"
    package.mkdir()
    (package / "__init__.py").write_text(f'__version__ = "{version}"\n')
    metadata = tmp_path / f"kernels-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: kernels\nVersion: {version}\n")
    return tmp_path


def test_absent_stays_absent(root: Path, ask: Ask) -> None:
    assert ask(root) == {"available": False, "origin": None}


def test_present_is_found_behind_our_root(root: Path, stand_in: Path, ask: Ask) -> None:
    expected = {"available": True, "origin": str(stand_in / "kernels/__init__.py")}
    assert ask(root, stand_in) == expected
    assert ask(stand_in, root) == expected
