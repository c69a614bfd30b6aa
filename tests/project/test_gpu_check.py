"""The check for machines with a GPU, on one without: its CPU parts run, so that it does not rot."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

COMMAND = Path("benchmarks", "gpu_check.py")

BLOCKER = """
import importlib.util, sys

def is_absent(name):
    return name.partition(".")[0] in {absent!r}

class Absent:
    def find_spec(self, name, path=None, target=None):
        if is_absent(name):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if is_absent(name) else find_spec(name, package)
"""
SCREEN = {"textual", "rich", "tomlkit", "pynvml"}
"""What a machine with a GPU need not have."""
KVTOPS = {"click", "msgspec", "platformdirs", "psutil"}
"""What only the parts with a model need."""


def run(root: Path, folder: Path, *arguments: str, absent: set[str], code: str = "") -> tuple[int, str]:
    """Exit code and output of the command in `folder`, in which some packages cannot be imported, nor in the
    processes that it starts. code: to run before."""
    program = f"import runpy, sys\nsys.argv = {[str(COMMAND), '--device', 'cpu', *arguments]!r}\n{code}\n"
    program += f"runpy.run_path({str(root / COMMAND)!r}, run_name='__main__')"
    (folder / "sitecustomize.py").write_text(BLOCKER.format(absent=absent))
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(folder), "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def checked(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str, dict]:
    """Exit code, output and figures of everything."""
    folder = tmp_path_factory.mktemp("checked")
    code, output = run(root, folder, "--quick", "--json", "figures.json", absent=SCREEN)
    print(output)
    return code, output, json.loads((folder / "figures.json").read_text())


def test_everything_runs_without_a_gpu_or_a_screen(checked) -> None:
    code, output, figures = checked
    assert code == 0, output
    assert figures["passed"] and not figures["failures"] and not figures["left_out"]
    assert "everything that was checked is right" in output


def test_the_table_and_the_file_hold_every_check(checked) -> None:
    _, output, figures = checked
    kernels = {check["kernel"] for check in figures["checks"]}
    assert kernels >= {"reference", "paged_decode", "paged_prefill", "attention", "store", "moves"}
    assert kernels >= {"device sampling: greedy", "engine: tokens as with plain torch"}
    table = output.partition("== results")[2].splitlines()
    for check in figures["checks"]:
        assert check["held"] and check["cases"] and check["max_error"] <= check["tolerance"]
        lines = [line for line in table if line.startswith(f"{check['kernel']}, {check['dtype']},")]
        assert len(lines) == 1 and lines[0].endswith("right")


def test_the_file_says_what_ran_where(checked) -> None:
    _, _, figures = checked
    assert figures["schema_version"] == 1 and figures["device"] == {"type": "cpu"}
    assert {"python", "torch", "triton", "transformers", "numpy", "kvtop"} <= set(figures["versions"])
    parts = [
        "correctness",
        "sampling",
        "tokens",
        "decode",
        "moves",
        "prefill",
        "batch",
        "step",
        "tune",
        "others",
    ]
    assert list(figures["parts"]) == parts
    assert all(part["seconds"] > 0 for part in figures["parts"].values())


def test_nothing_is_timed_without_a_gpu(checked) -> None:
    """A figure that was not measured is absent, not zero."""
    _, _, figures = checked
    assert not figures["budgets"]
    text = json.dumps(figures)
    for unit in ("_us", "_ms", "gb_per_s", "tflop_per_s", "share_of_copy", "_per_s", "null"):
        assert unit not in text, unit


def test_tokens_are_compared_through_swaps_and_copies(checked) -> None:
    part = checked[2]["parts"]["tokens"]
    assert part["preemptions_by_swap"] > 0 and part["copies_on_write"] > 0 and part["tokens"] > 10


def test_parts_without_their_packages_are_left_out(root: Path, tmp_path: Path) -> None:
    code, output = run(root, tmp_path, "--only", "sampling,tokens,batch,step", absent=SCREEN | KVTOPS)
    assert code == 1 and "FAILED: nothing was checked" in output
    figures = json.loads((tmp_path / "gpu_check.json").read_text())
    packages = "click msgspec psutil platformdirs"
    assert f"batch needs {packages.replace(' ', ', ')}: pip install {packages}" in figures["left_out"]
    assert [line.partition(" ")[0] for line in figures["left_out"]] == ["sampling", "tokens", "batch", "step"]
    assert not figures["parts"]


def test_a_wrong_kernel_is_found(root: Path, tmp_path: Path) -> None:
    """Without a package of kvtop's own: the kernels need none."""
    broken = f"""
import os
os.environ["TRITON_INTERPRET"] = "1"
sys.path.insert(0, {str(root)!r})
from kvtop.kernels.gpu import paged_decode as module
right = module.paged_decode
module.paged_decode = lambda *given, **named: right(*given, **named) * 1.001
"""
    first = "--only", "correctness", "--share", "0/99"
    code, output = run(root, tmp_path, *first, absent=SCREEN | KVTOPS, code=broken)
    assert code == 1 and "something is WRONG" in output
    figures = json.loads((tmp_path / "gpu_check.json").read_text())
    wrong = {(check["kernel"], check["dtype"]) for check in figures["checks"] if not check["held"]}
    assert wrong == {("paged_decode", "fp32")}, output
    assert not figures["passed"]


def test_a_part_that_fails_does_not_take_the_others_along(root: Path, tmp_path: Path) -> None:
    broken = f"""
import os
os.environ["TRITON_INTERPRET"] = "1"
sys.path.insert(0, {str(root)!r})
from kvtop.kernels.gpu import paged_prefill as module
def raising(*given, **named):
    raise RuntimeError("no such instruction")
module.paged_prefill = raising
"""
    code, output = run(root, tmp_path, "--only", "prefill,moves", absent=SCREEN | KVTOPS, code=broken)
    figures = json.loads((tmp_path / "gpu_check.json").read_text())
    assert code == 1 and len(figures["failures"]) == 1 and "no such instruction" in figures["failures"][0]
    assert "block_bytes" in figures["parts"]["moves"]
    assert "FAILED: prefill" in output


def test_another_library_that_hangs_is_stopped_and_is_no_fault(root: Path, tmp_path: Path) -> None:
    hanging = f"""
import os, time
os.environ["TRITON_INTERPRET"] = "1"
sys.path[:0] = [{str(root)!r}, {str(root / "benchmarks")!r}]
from gpu import others
others.OTHERS["FlashInfer"] = lambda *given: time.sleep(600)
"""
    only = "--only", "others", "--minutes", "0.15"
    code, output = run(root, tmp_path, *only, absent=SCREEN | KVTOPS, code=hanging)
    figures = json.loads((tmp_path / "gpu_check.json").read_text())
    assert code == 0, output
    assert figures["left_out"] == ["others: still at it after 0.15 minutes: stopped"]
    assert "left out: others" in output.partition("== results")[2]


def test_wrong_use_is_refused_at_once(root: Path, tmp_path: Path) -> None:
    code, output = run(root, tmp_path, "--only", "decode,speed", absent=SCREEN | {"torch"})
    assert code == 2 and "no part speed" in output
    code, output = run(root, tmp_path, "--json", "nowhere/figures.json", absent=SCREEN | {"torch"})
    assert code == 2 and "there is no folder" in output
    for option, value, words in (
        ("--json", ".", "is a folder"),
        ("--minutes", "nan", "above 0"),
        ("--minutes", "0", "above 0"),
        ("--processes", "0", "1 or more"),
    ):
        code, output = run(root, tmp_path, option, value, absent=SCREEN | {"torch"})
        assert code == 2 and words in output and "Traceback" not in output


def test_what_a_trace_says_of_a_step(root: Path) -> None:
    spec = importlib.util.spec_from_file_location("gpu_check_trace", root / "benchmarks" / "gpu" / "trace.py")
    trace = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(trace)

    def event(category: str, name: str, ts: float, dur: float) -> dict:
        return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur}

    step = [
        event("cuda_runtime", "cudaLaunchKernel", 0, 1000),
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 0, 10),
        event("kernel", "decode_split", 20, 30),
        event("kernel", "gemm", 40, 30),  # on another stream: 10 of it beside the first
        event("gpu_memset", "Memset (Device)", 45, 5),
        event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 100, 2),
        {"ph": "M", "name": "process_name"},
    ]
    later = [{**each, "ts": each["ts"] + 1000} if "ts" in each else each for each in step]
    figures = trace.figures(later + step, 2)
    assert figures["gpu_busy_us"] == 10 + 50 + 2 and figures["kernels"] == 2
    assert figures["host_to_device_copies"] == figures["device_to_host_copies"] == 1
    assert figures["device_to_device_copies"] == 0
    assert figures["attention_share_of_kernels"] == 0.5
    assert trace.figures(step[:1], 1) == {}
