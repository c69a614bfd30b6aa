"""What the wheel holds, and that it works without the checkout."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

MODEL = "kvtop/models/inside-3m"


def _files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.parametrize(
    ("folder", "inside"), [("kvtop", "kvtop"), ("kernels", "kvtop/kernels"), ("themes", "kvtop/themes")]
)
def test_every_file_of_the_folder_is_in_the_wheel(
    root: Path, names: set[str], folder: str, inside: str
) -> None:
    expected = {f"{inside}/{name}" for name in _files(root / folder)}
    assert expected, f"{folder}/ is empty"
    assert not expected - names


def test_nothing_else_is_in_the_wheel(root: Path, names: set[str]) -> None:
    known = {f"kvtop/{name}" for name in _files(root / "kvtop")}
    known |= {f"kvtop/{folder}/{name}" for folder in ("kernels", "themes") for name in _files(root / folder)}
    strangers = {name for name in names - known if ".dist-info/" not in name}
    assert not strangers


@pytest.mark.parametrize("suffix", [".toml", ".tcss"])
def test_data_files_are_inside(names: set[str], suffix: str) -> None:
    """Guards the test above against a tree that lost them: scenarios, themes and the style sheet exist."""
    found = [name for name in names if name.endswith(suffix)]
    assert found


def test_the_model_is_inside(root: Path, wheel: Path, names: set[str]) -> None:
    if not (root / MODEL).exists():
        pytest.skip(f"{MODEL} is not there yet")
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert f"{MODEL}/{name}" in names
    assert any(name.startswith(f"{MODEL}/") and name.endswith(".md") for name in names), "its card is missing"
    with zipfile.ZipFile(wheel) as archive:
        size = sum(info.file_size for info in archive.infolist() if info.filename.startswith(f"{MODEL}/"))
    assert size < 8_000_000


def test_metadata(wheel: Path, names: set[str]) -> None:
    (metadata_name,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(metadata_name).decode().splitlines()
        scripts = archive.read(metadata_name.replace("METADATA", "entry_points.txt")).decode()
    assert "Name: kvtop-tui" in metadata
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata
    assert "kvtop = kvtop.cli:main" in scripts
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_every_module_imports_from_the_wheel(
    root: Path, installed: Path, isolated: Callable[..., str]
) -> None:
    paths = [f"kvtop/{name}" for name in _files(root / "kvtop")]
    paths += [f"kvtop/kernels/{name}" for name in _files(root / "kernels")]
    modules = sorted(
        path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in paths
        if path.endswith(".py") and not path.endswith("__main__.py")
    )
    assert any(module.startswith("kvtop.kernels.") for module in modules)
    code = f"""
import importlib
for name in {modules!r}:
    module = importlib.import_module(name)
    assert module.__file__.startswith({str(installed)!r}), (name, module.__file__)
import kvtop.kernels
assert list(kvtop.kernels.__path__) == [{str(installed / "kvtop/kernels")!r}], kvtop.kernels.__path__
print(len({modules!r}))
"""
    assert int(isolated(code, installed)) == len(modules)


def test_the_command_and_the_themes_of_the_wheel(
    root: Path, installed: Path, isolated: Callable[..., str]
) -> None:
    assert _files(root / "themes") == _files(installed / "kvtop/themes")
    code = "import runpy; sys.argv = ['kvtop', '--version']; runpy.run_module('kvtop', run_name='__main__')"
    assert isolated(code, installed).startswith("kvtop, version ")
