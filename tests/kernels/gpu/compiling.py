"""Compiles the kernels for chips that are not there; prints one JSON object a line. See `test_compiles`.

A process of its own: kernels that were imported for Triton's interpreter cannot be compiled.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import cycle

from kvtop.kernels.gpu.ahead import SHARED_LIMIT, ToolMissing
from kvtop.kernels.gpu.launches import Launch, launches


def everything() -> Iterator[tuple[Launch, str]]:
    """All launches on all their targets."""
    return ((launch, target) for launch in launches() for target in launch.targets)


def every_day() -> Iterator[tuple[Launch, str]]:
    """One launch of each entry of the tables on one target: targets, types and the rest take turns. For AMD
    every third entry."""
    entries: dict[object, list[Launch]] = {}
    for launch in launches():
        entries.setdefault(launch.entry, []).append(launch)
    turns = {backend: cycle(range(60)) for backend in ("", "cuda", "hip")}
    for alike in entries.values():
        turn = next(turns[alike[0].backend or ""])
        launch = alike[(7 * turn) % len(alike)]
        if launch.backend != "hip" or turn % 3 == 0:
            yield launch, launch.targets[turn % len(launch.targets)]


def compile_one(launch: Launch, target: str) -> dict[str, object]:
    """What the compiled kernel uses, or the error."""
    about = {"name": launch.name, "target": target, "multiplies": launch.multiplies}
    try:
        used = asdict(launch.compile(target))
    except ToolMissing as error:
        return {**about, "missing": str(error)}
    except Exception as error:
        return {**about, "error": f"{type(error).__name__}: {error}"[:600]}
    return {**about, **used, "shared_limit": SHARED_LIMIT[target]}


def main(which: str, part: int, parts: int) -> None:
    """which: a function of this module; part: 0 .. parts - 1."""
    for launch, target in list(globals()[which]())[part::parts]:
        print(json.dumps(compile_one(launch, target)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
