"""Which kernels serve: by device, number type, what is installed, and what was asked for."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kvtop.kernels import choice, dispatch
from kvtop.kernels.choice import KernelsUnavailable, Machine, choose_kind
from kvtop.kernels.protocol import HeadShape

CPU = Machine("cpu", "bf16")
GPU = Machine("cuda", "bf16", (9, 0), 128)
HEADS = HeadShape(2, 3, 16)


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch):
    """Call with names of packages that are not to be found."""
    found = importlib.util.find_spec

    def hide(*names: str) -> None:
        monkeypatch.setattr(
            choice.importlib.util, "find_spec", lambda name, *rest: None if name in names else found(name)
        )

    return hide


def test_the_first_choice() -> None:
    pytest.importorskip("triton")
    assert choose_kind(CPU) == ("numba", None)
    assert choose_kind(GPU) == ("triton", None)
    assert choose_kind(GPU._replace(capability=None)) == ("triton", None)
    assert choose_kind(GPU._replace(capability=(8, 0), head_dim=256)) == ("triton", None)


@pytest.mark.parametrize(
    ("machine", "hidden", "note"),
    [
        (CPU, ["numba"], "numba is not installed"),
        (CPU._replace(dtype="fp16"), [], "the numba kernels take fp32 and bf16, not fp16"),
        (GPU, ["triton"], "triton is not installed"),
        (GPU._replace(capability=(7, 5)), [], "triton needs compute capability 8.0, this GPU has 7.5"),
        (GPU._replace(head_dim=320), [], "the triton kernels take head dimensions up to 256, not 320"),
    ],
)
def test_what_cannot_run_gives_way_and_is_named(machine, hidden, note, lacking) -> None:
    lacking(*hidden)
    assert choose_kind(machine) == ("torch", note)
    first = "numba" if machine.device == "cpu" else "triton"
    with pytest.raises(KernelsUnavailable, match=f"--kernels {first}: {note}; --kernels auto"):
        choose_kind(machine, first)


def test_without_compiling_numba_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert choose_kind(CPU) == ("torch", "NUMBA_DISABLE_JIT is set")


def test_what_is_asked_for_is_taken() -> None:
    pytest.importorskip("triton")
    assert choose_kind(CPU, "torch").kind == choose_kind(GPU, "torch").kind == "torch"
    assert choose_kind(CPU, "reference").kind == "reference"
    assert choose_kind(CPU._replace(interpreted=True), "triton").kind == "triton"
    for machine, wanted in ((CPU, "triton"), (GPU, "numba"), (CPU, "cutlass")):
        with pytest.raises(KernelsUnavailable, match=wanted):
            choose_kind(machine, wanted)


def test_a_package_that_does_not_load_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kvtop.kernels.cpu.attention", None)
    kernels = dispatch.choose(torch.device("cpu"), torch.float32, HEADS)
    assert kernels.kind == "torch" and kernels.note is not None
    assert kernels.name.startswith("gather + sdpa (numba does not load: ")
    with pytest.raises(KernelsUnavailable, match="numba does not load"):
        dispatch.choose(torch.device("cpu"), torch.float32, HEADS, "numba")


def test_a_damaged_cache_is_thrown_away_and_made_again(tmp_path: Path) -> None:
    """In processes of their own: fill the cache, cut its files, load."""
    program = (
        "import torch; from kvtop.kernels import dispatch; from kvtop.kernels.protocol import HeadShape; "
        "print(dispatch.choose(torch.device('cpu'), torch.float32, HeadShape(1, 1, 8)).name)"
    )

    def start() -> str:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert start() == "numba paged decode + prefill"
    files = list(tmp_path.rglob("*.nb?"))
    assert len(files) == 2
    for file in files:
        file.write_bytes(file.read_bytes()[:100])
    assert start() == "numba paged decode + prefill"
    assert all(file.stat().st_size > 100 for file in tmp_path.rglob("*.nb?"))


def test_a_kernel_that_does_not_run_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvtop.kernels.cpu import compile as compiling

    def fail(dtype: torch.dtype) -> None:
        raise ValueError("no such instruction\nand more")

    monkeypatch.setattr(compiling, "try_kernel", fail)
    kernels = dispatch.choose(torch.device("cpu"), torch.float32, HEADS)
    assert (kernels.kind, kernels.note) == ("torch", "numba does not load: no such instruction")


def test_triton_that_cannot_launch_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    from kvtop.kernels.gpu import blocks, mover  # the mover, or it would keep what stands for the launch

    assert mover.copy_blocks is blocks.copy_blocks

    def launch(*arguments: object) -> None:
        raise RuntimeError("Failed to find C compiler.\nPlease specify one")

    monkeypatch.setattr(blocks, "copy_blocks", launch)
    monkeypatch.setattr(dispatch, "choose_kind", lambda machine, wanted: choice.Choice("triton"))
    kernels = dispatch.choose(torch.device("cpu"), torch.float32, HEADS)
    assert (kernels.kind, kernels.note) == ("torch", "triton does not load: Failed to find C compiler.")
    with pytest.raises(KernelsUnavailable, match="C compiler"):
        dispatch.choose(torch.device("cpu"), torch.float32, HEADS, "triton")


def test_the_choice_loads_no_framework() -> None:
    lines = Path(choice.__file__ or "").read_text("utf-8").splitlines()
    names = {line.split()[1].split(".")[0] for line in lines if line.startswith(("import ", "from "))}
    assert names <= {"__future__", "importlib", "os", "typing"}
