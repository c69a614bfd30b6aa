"""Settings into the file: what a person wrote stays as it is, comments and order included."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from kvtop.config.folders import describe_oserror, write_whole
from kvtop.config.reading import TomlError, parse, read_text
from kvtop.config.settings import CHECKS, PRESETS, SaveError, Settings, read

HEADER = "# Settings of kvtop. `kvtop --print-default-config` prints all there are, with what they mean.\n"


def save(
    changes: Mapping[str, Any],
    path: Path,
    further: Callable[[Settings], Sequence[str]] = lambda _: (),
) -> None:
    """Set some keys in the file of settings, and make it when there is none.

    `changes` has values as `Settings` has them; `further` finds mistakes that reading alone does not, such
    as a theme that there is not. The file is replaced in one step. Raises SaveError when it has a mistake,
    which is a person's to mend, or cannot be written; KeyError for what is no setting.
    """
    import tomlkit  # not before something is written

    old = _text(path, further)
    document = tomlkit.parse(old)
    for name, value in changes.items():
        if name not in CHECKS:
            raise KeyError(name)
        document[name] = _toml_value(name, value)
    new = tomlkit.dumps(document)
    _check(new, changes, path)
    if new == old:
        return
    try:
        write_whole(path, new)
    except OSError as error:
        raise SaveError(f"{path}: cannot be written: {describe_oserror(error)}") from error


def _text(path: Path, further: Callable[[Settings], Sequence[str]]) -> str:
    """What stands in the file. Raises SaveError when it has a mistake."""
    try:
        text = read_text(path)
        settings, problems = read(parse(text, str(path)))
        problems += further(settings)
    except FileNotFoundError:
        return HEADER
    except TomlError as error:
        problems = [str(error)]
    if problems:
        raise SaveError(f"not saved, the file has a mistake: {problems[0]}")
    return text


def _toml_value(name: str, value: Any) -> Any:
    """A setting as it is written: presets by their number, tuples as arrays."""
    if name == "preset" and value in PRESETS:
        return PRESETS.index(value) + 1
    return list(value) if isinstance(value, tuple) else value


def _check(text: str, changes: Mapping[str, Any], path: Path) -> None:
    """Read what is about to be written. Raises SaveError when it does not say what it should."""
    try:
        settings, problems = read(parse(text, str(path)))
    except TomlError as error:
        problems = [str(error)]
    wrong = problems or [name for name, value in changes.items() if getattr(settings, name) != value]
    if wrong:
        raise SaveError(f"not saved, {path} cannot take this change: {wrong[0]}")


def default_config() -> str:
    """The file that says nothing but the defaults, with a comment on every key."""
    import tomlkit

    defaults, comments = Settings(), field_comments()
    lines = [
        "# Settings of kvtop, with their defaults. This file is config.toml in kvtop's configuration folder;",
        "# `kvtop doctor` names it. A flag outweighs an environment variable (KVTOP_THEME, KVTOP_FPS, ...),",
        "# which outweighs this file.",
    ]
    for name in CHECKS:
        lines += ["", *_commented(comments[name])]
        value = tomlkit.item(_toml_value(name, getattr(defaults, name))).as_string()
        lines.append(f"{name} = {value}")
    lines += ["", *_commented(comments["keys"]), "[keys]", '# help = ["F1", "?"]']
    return "\n".join(lines) + "\n"


def _commented(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, 100)]


def field_comments() -> dict[str, str]:
    """What stands below each field of `Settings` in its source, on one line each."""
    tree = ast.parse(inspect.getsource(Settings))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    comments: dict[str, str] = {}
    for before, after in pairwise(body):
        if isinstance(before, ast.AnnAssign) and isinstance(after, ast.Expr):
            comments[ast.unparse(before.target)] = " ".join(ast.literal_eval(after.value).split())
    assert comments.keys() == {field.name for field in dataclasses.fields(Settings)}
    return comments
