"""The checkout as people use it: editable, `python -m kvtop`, and under pytest."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import kvtop

_PLACES = """
import kvtop, kvtop.kernels, pathlib
print(kvtop.__file__)
print(*kvtop.kernels.__path__)
print(*(str(place) for place in kvtop.__path__ if (pathlib.Path(place) / "themes").is_dir()))
"""


@pytest.mark.parametrize("folder", ["kernels", "themes"])
def test_top_level_folders_hold_no_init(root: Path, folder: str) -> None:
    assert (root / folder).is_dir()
    assert not list((root / folder).rglob("__init__.py"))


def test_pytest_sees_the_checkout(root: Path) -> None:
    import kvtop.kernels

    assert Path(kvtop.__file__).parent == root / "kvtop"
    assert [Path(place) for place in kvtop.kernels.__path__] == [root / "kernels"]


def test_from_the_root_without_an_install(root: Path, isolated: Callable[..., str]) -> None:
    package, kernels, themes = isolated(_PLACES, root).splitlines()
    assert Path(package).parent == root / "kvtop"
    assert Path(kernels) == root / "kernels"
    assert Path(themes) == root


def test_editable_install(
    root: Path, tmp_path: Path, run: Callable[..., str], isolated: Callable[..., str]
) -> None:
    """What `pip install -e .` lays down, read as `site` reads it: an edit in the checkout is seen at once."""
    build = f"import hatchling.build; hatchling.build.build_editable({str(tmp_path)!r})"
    run([sys.executable, "-c", build], cwd=root)
    (wheel,) = tmp_path.glob("*.whl")
    target = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    code = f"import site; site.addsitedir({str(target)!r})\n{_PLACES}"
    package, kernels, themes = isolated(code, target).splitlines()
    assert Path(package).parent == root / "kvtop"
    assert Path(kernels) == root / "kernels"
    assert Path(themes) == root


def test_python_dash_m(root: Path, run: Callable[..., str]) -> None:
    assert (
        run([sys.executable, "-m", "kvtop", "--version"], cwd=root) == f"kvtop, version {kvtop.__version__}\n"
    )
