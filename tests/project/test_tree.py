"""Makefile, README and CI agree with each other, and the tree speaks of no machine."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

TARGETS = ["setup", "run", "test", "test-long", "lint", "bench", "screenshots"]


def _helped(text: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z-]+):.*## (.+)$", text, re.MULTILINE))


def test_make_alone_prints_what_there_is(root: Path, run: Callable[..., str]) -> None:
    printed = run(["make", "--no-print-directory"], cwd=root)
    for target in TARGETS:
        assert re.search(rf"^  make {target} +\w", printed, re.MULTILINE), printed


def test_the_commands_at_the_top_of_the_readme_exist(root: Path) -> None:
    first_block = (root / "README.md").read_text(encoding="utf-8").split("```")[1]
    commands = re.findall(r"^make (\S+)", first_block, re.MULTILINE)
    assert commands == ["run", "test"]
    assert set(commands) <= set(_helped((root / "Makefile").read_text(encoding="utf-8")))


def test_setup_without_a_python_says_what_to_do(root: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        ["make", "setup", f"VENV={tmp_path / 'venv'}", "PYTHON=no-such-python"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "no-such-python" in done.stderr
    assert "Python 3.11 or newer" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_ci_runs_make_test(root: Path, run: Callable[..., str]) -> None:
    script = root / ".ci/run"
    assert script.stat().st_mode & 0o100
    assert script.read_text(encoding="utf-8").splitlines()[-1] == "make test"
    run(["bash", "-n", script], cwd=root)


def test_constraints_meet_the_requirements(root: Path) -> None:
    """Every dependency that pyproject.toml names has a pinned version that the tests run with."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = dict(re.findall(r"^([a-z0-9_-]+)==(\S+)$", (root / "constraints.txt").read_text(), re.MULTILINE))
    assert pinned["torch"] == "2.13.0"
    for line in project["dependencies"]:
        assert re.split(r"[<>=]", line)[0] in pinned, line


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md"])
def test_links_lead_somewhere(root: Path, page: str) -> None:
    text = (root / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not target.startswith("http"):
            assert (root / page).parent.joinpath(target).exists(), f"{page} links to {target}"


def test_readme_names_only_options_that_exist(root: Path, run: Callable[..., str]) -> None:
    helped = run([sys.executable, "-m", "kvtop", "run", "--help"], cwd=root)
    known = set(re.findall(r"--[a-z][a-z-]+", helped)) | {"--version", "--help"}
    text = (root / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    assert not named - known
    assert not known - named - {"--help", "--version"}, "the README's table leaves options out"


def test_no_file_names_a_machine_or_a_registry(root: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached"], cwd=root, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    # Written in pieces, so that this file does not name them either.
    machine = ["/" + "work/", "/" + "root/", "/" + "home/", "/" + "opt/wheels", "/" + "Users/"]
    registries = ["pypi" + ".org", "pythonhosted" + ".org", "npmjs" + ".", "debian" + ".org"]
    pattern = re.compile("|".join(re.escape(part) for part in machine + registries))
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        path = root / name
        if not path.is_file():
            continue
        content = path.read_bytes()
        if b"\0" in content[:4096]:
            continue
        for number, line in enumerate(content.decode("utf-8", errors="replace").splitlines(), start=1):
            if pattern.search(line):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert not found, "\n".join(found)
