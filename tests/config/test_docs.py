"""docs/configuration.md says what there is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from kvtop.config.reading import parse
from kvtop.config.settings import CHECKS, ENVIRONMENT, read
from kvtop.ui.commands.actions import ACTIONS
from kvtop.ui.commands.keymap import key_map
from kvtop.ui.frame.columns import COLUMNS

TEXT = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text("utf-8")


def test_every_setting_is_in_the_table() -> None:
    for name in CHECKS:
        assert f"| `{name}` |" in TEXT
    for variable in ENVIRONMENT:
        assert f"`{variable}`" in TEXT
    for column in COLUMNS:
        assert f"`{column.name}`" in TEXT


def test_the_example_of_keys_can_be_used() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    settings, problems = read(parse(example, "example"))
    assert problems == [] and tomllib.loads(example)["keys"].keys() == settings.keys.keys()
    _, problems = key_map([(action.id, action.keys) for action in ACTIONS], settings.keys, settings.places)
    assert problems == []
