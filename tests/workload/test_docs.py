"""`docs/scenarios.md` says what the reader does."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from kvtop.workload import scenario as reader

PAGE = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_load(example: str):
    assert reader.parse_scenario(example, "example.toml")


@pytest.mark.parametrize(
    ("title", "keys"),
    [
        ("`[pool]`", reader.POOL),
        ("`[scheduler]`", reader.SCHEDULER),
        ("`[[request]]`", reader.REQUEST),
        ("`[arrivals]`", reader.ARRIVALS),
        ("Built in", reader.builtin_names()),
    ],
)
def test_every_key_is_described_and_no_other(title: str, keys: Iterable[str]):
    described = re.findall(r"^\| `([\w-]+)` \|", section(title), re.MULTILINE)
    assert sorted(described) == sorted(keys)


def test_every_key_is_in_an_example():
    examples = "\n".join(EXAMPLES)
    for keys in (reader.POOL, reader.SCHEDULER, reader.ARRIVALS):
        assert [key for key in keys if key not in examples] == []
