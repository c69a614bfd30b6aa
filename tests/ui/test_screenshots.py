"""The pictures in screenshots/ are what the code draws. After a wanted change: make screenshots."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "screenshots"


def load() -> ModuleType:
    """The script, with the folder that it imports its parts from."""
    sys.path.insert(0, str(FOLDER))
    spec = importlib.util.spec_from_file_location("make_screenshots", FOLDER / "make.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make = load()


@pytest.mark.parametrize("shot", make.SHOTS, ids=lambda shot: shot.name)
async def test_a_picture_is_what_the_code_draws(shot) -> None:
    drawn = make.cells(await make.draw(shot))
    kept = json.loads((FOLDER / "cells" / f"{shot.name}.json").read_text("utf-8"))
    for y, (now, then) in enumerate(zip(drawn, kept, strict=True)):
        assert now == then, f"line {y} of {shot.name} differs; after a wanted change: make screenshots"
    assert (FOLDER / f"{shot.name}.png").is_file()


def test_there_is_no_picture_that_nobody_draws() -> None:
    names = {shot.name for shot in make.SHOTS}
    assert {path.stem for path in FOLDER.glob("*.png")} == names
    assert {path.stem for path in (FOLDER / "cells").glob("*.json")} == names
