"""Imports that import-linter cannot see: those of `kernels/`, and what the wheel must ask pip for."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def _sources(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*.py"))
    assert found, f"no source in {folder}"
    return found


def test_kernels_import_nothing_of_ours_but_each_other(root: Path) -> None:
    for path in _sources(root / "kernels"):
        for name in _imports(path):
            ours = name.startswith((".", "kvtop", "kernels", "training", "tests"))
            assert not ours or name.startswith("kvtop.kernels."), f"{path} imports {name}"


@pytest.mark.parametrize(
    "folder", ["memory", "scheduling", "workload", "timeline", "analysis", "session", "ui"]
)
def test_kernels_are_called_from_the_engine_alone(root: Path, folder: str) -> None:
    for path in _sources(root / "kvtop" / folder):
        assert not [name for name in _imports(path) if name.startswith("kvtop.kernels")], path


def test_what_is_imported_is_declared(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = project["dependencies"] + [
        line for name in ("gguf", "gpu", "screenshots") for line in project["optional-dependencies"][name]
    ]
    declared = {re.split(r"[<>=!~\[; ]", line)[0].lower().replace("_", "-") for line in requirements}
    owners = packages_distributions()
    for path in [*_sources(root / "kvtop"), *_sources(root / "kernels")]:
        for name in _imports(path):
            top = name.partition(".")[0]
            if not top or top in sys.stdlib_module_names or top == "kvtop":
                continue
            distributions = {owner.lower().replace("_", "-") for owner in owners.get(top, [top])}
            assert distributions & declared, f"{path} imports {name}, which pyproject.toml does not declare"
