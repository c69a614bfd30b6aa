"""Every kernel compiles for real chips, spills nothing, and multiplies on their matrix units."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

SCRIPT = Path(__file__).with_name("compiling.py")
ROOT = Path(__file__).parents[3]
PROCESSES = 2


def compiled(which: str, folder: Path) -> list[dict[str, Any]]:
    """What `compiling.py` reports, from processes side by side, each with a cache of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    processes = [
        subprocess.Popen(
            [sys.executable, SCRIPT, which, str(part), str(PROCESSES)],
            env={**environment, "TRITON_CACHE_DIR": str(folder / str(part))},
            stdout=subprocess.PIPE,
            text=True,
        )
        for part in range(PROCESSES)
    ]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * PROCESSES
    results = [json.loads(line) for output in outputs for line in output.splitlines()]
    for result in results:
        if "missing" in result:
            pytest.skip(result["missing"])
    return results


def faults(result: dict[str, Any]) -> list[str]:
    """What is wrong with one compiled kernel."""
    if "error" in result:
        return [result["error"]]
    found = []
    if result["spills"]:
        found.append(f"spills {result['spills']} ({result['registers']} registers)")
    if result["local"]:
        found.append(f"{result['local']} bytes of local memory")
    if result["shared"] > result["shared_limit"]:
        found.append(f"{result['shared']} bytes of shared memory, beyond {result['shared_limit']}")
    if bool(result["matrix"]) != result["multiplies"]:
        found.append(f"matrix instructions: {result['matrix']}")
    return found


def check(results: list[dict[str, Any]]) -> None:
    wrong = [
        f"{result['target']}, {result['name']}: {'; '.join(fault)}"
        for result in results
        if (fault := faults(result))
    ]
    assert not wrong, "\n".join(wrong)


def test_each_entry_on_a_chip(tmp_path: Path) -> None:
    results = compiled("every_day", tmp_path)
    check(results)
    assert {result["target"] for result in results} == {"sm_80", "sm_90", "sm_100", "gfx942"}
    assert {result["name"].partition(":")[0] for result in results} == {
        "store_kernel",
        "move_blocks_kernel",
        "decode_split",
        "reduce_splits",
        "prefill_tile",
    }


@pytest.mark.long
def test_everything_on_every_chip(tmp_path: Path) -> None:
    check(compiled("everything", tmp_path))


def test_pools_of_every_size_share_a_compiled_kernel() -> None:
    """Else the first copy or swap of a real pool would compile, after a warm-up on a small one."""
    code = """
from kvtop.kernels.gpu.ahead import signature
from kvtop.kernels.gpu.launches import launches

move = next(launch for launch in launches() if launch.kernel.__name__ == "move_blocks_kernel")
sizes = (1, 128), (65, 1), (5000, 5000)
found = [
    signature(move.kernel, move.arguments | {"source_blocks": source, "target_blocks": target})
    for source, target in sizes
]
assert found[0] == found[1] == found[2], found
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
