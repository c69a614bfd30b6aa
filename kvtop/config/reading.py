"""TOML with the line of every key, for files that people write: settings and themes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvtop.config.folders import describe_oserror
from kvtop.workload.toml_lines import Path as KeyPath
from kvtop.workload.toml_lines import key_lines

LONGEST = 1 << 20
"""Bytes of a file that is read at most."""


class TomlError(ValueError):
    """A file that is no TOML, or cannot be read; the message is one line that names file and line."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file's table, and where everything stands in it."""

    file: str
    table: Mapping[str, Any]
    lines: Mapping[KeyPath, int]

    def place(self, *path: str | int) -> str:
        """`file:line` of a key, or of an element of an array."""
        while path not in self.lines:
            path = path[:-1]
        return f"{self.file}:{self.lines[path]}"


def read_text(path: Path) -> str:
    """A file's text, line ends as they are. Raises TomlError, FileNotFoundError when there is none."""
    try:
        if not path.is_file() and path.exists():
            raise TomlError(f"{path}: cannot be read: it is no file")
        with path.open("rb") as file:
            data = file.read(LONGEST + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise TomlError(f"{path}: cannot be read: {describe_oserror(error)}") from error
    if len(data) > LONGEST:
        raise TomlError(f"{path}: is longer than {LONGEST >> 20} MiB")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise TomlError(f"{path}:{line}: is not UTF-8") from error


def parse(text: str, file: str) -> Document:
    """The table of a TOML text. Raises TomlError naming `file` and the line."""
    text = text.replace("\r\n", "\n")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+)", str(error))
        line = int(found[1]) if found else max(1, len(text.splitlines()))
        message = re.sub(r" \(at .*\)\Z", "", str(error))
        raise TomlError(f"{file}:{line}: {_plain(message)}") from error
    return Document(file, table, key_lines(text))


def _plain(message: str) -> str:
    """What the reader of TOML says, in words that name what is to be mended."""
    if message.startswith(("Illegal character '\\n'", "Found invalid character '\\n'")):
        return "the text that begins here has no closing quote"  # nowhere else is a line's end illegal
    if message.startswith(("Unterminated string", "Expected \"'")):
        return "a text has no closing quote"
    return f"{message[:1].lower()}{message[1:]}"
