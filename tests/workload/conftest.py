"""A tokenizer of words, and scenarios from a few lines."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable

import pytest

from kvtop.workload.scenario import Scenario, parse_scenario


@pytest.fixture
def encode() -> Callable[[str], list[int]]:
    """A token a word: what a word gives depends on nothing but the word."""
    return lambda text: [zlib.crc32(word.encode()) & 0xFFFFF for word in re.findall(r"\S+", text)]


@pytest.fixture
def scenario() -> Callable[[str], Scenario]:
    """A scenario from TOML text; errors name it `s.toml`."""
    return lambda text: parse_scenario(text, "s.toml")
