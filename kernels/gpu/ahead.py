"""Compiling a Triton kernel for a chip that need not be there, and what the compiled kernel uses of it.

The compiler and the assemblers come with Triton, so registers, spills and matrix instructions of the machine
code are known on any Linux machine. In a process of Triton's interpreter (`TRITON_INTERPRET=1`) kernels are
not compilable: use another process.
"""

from __future__ import annotations

import io
import re
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
"""A100; H100 and H200; B200; MI300."""

SHARED_LIMIT = {"sm_80": 163 * 1024, "sm_90": 227 * 1024, "sm_100": 227 * 1024, "gfx942": 64 * 1024}
"""Shared memory that one program may have, in bytes (CUDA C++ Programming Guide, table of compute
capabilities; AMD Instinct MI300 ISA, local data share)."""

_MATRIX = {"cuda": r"mma\.sync\.aligned|wgmma\.mma_async|tcgen05\.mma\b", "hip": r"v_mfma_\w+"}


class ToolMissing(RuntimeError):
    """A program that reads machine code is not installed; the message names it."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What one compiled kernel uses."""

    registers: int
    """Of a thread; on AMD, vector registers of both kinds."""
    spills: int
    """What did not fit into registers. NVIDIA: bytes stored and loaded again per thread; AMD: registers."""
    local: int
    """Bytes of a thread's stack and local memory, which is device memory. Spills go there."""
    shared: int
    """Bytes of shared memory (local data share) of a program."""
    matrix: tuple[str, ...]
    """The kinds of matrix instructions in the assembly."""


def signature(kernel: Any, arguments: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """The types and the constants that a launch with these arguments is compiled for. Changes nothing.

    arguments: by parameter name. Pointers are written as "*bf16", "*i32" and so on, and taken to be aligned
    as torch aligns; other values stand for themselves. The types are what `compiled` takes: as Triton does,
    an integer that 16 divides is marked ":16" and an integer 1 becomes a constant, except for parameters that
    the kernel does not specialise on. Raises ValueError where the arguments are not the kernel's parameters.
    """
    if set(arguments) != set(kernel.arg_names):
        odd = sorted(set(arguments) ^ set(kernel.arg_names))
        raise ValueError(f"{kernel.__name__}: missing or unknown arguments {', '.join(odd)}")
    types: dict[str, str] = {}
    constants: dict[str, Any] = {}
    for parameter in kernel.params:
        name, value = parameter.name, arguments[parameter.name]
        if parameter.is_constexpr or value is None:
            constants[name] = value
        elif isinstance(value, str):
            types[name] = f"{value}:16"
        elif isinstance(value, float):
            types[name] = "fp32"
        elif value == 1 and not parameter.do_not_specialize:
            constants[name] = value
        else:
            divisible = value % 16 == 0 and not parameter.do_not_specialize
            types[name] = ("i32" if -(2**31) <= value < 2**31 else "i64") + (":16" if divisible else "")
    return types, constants


def compiled(
    kernel: Any,
    types: Mapping[str, str],
    constants: Mapping[str, Any],
    target: str,
    options: Mapping[str, Any],
) -> Resources:
    """Compile a kernel for a chip and measure the machine code. Changes nothing but Triton's cache.

    kernel: decorated by `triton.jit`. types: by parameter, as `signature` gives them; constants: of the
    other parameters. target: one of `TARGETS`. options: of the compiler, such as `num_warps`.

    Raises `ToolMissing` where the program that reads the machine code is not there, and what Triton raises
    where the kernel does not compile.
    """
    names = kernel.arg_names
    source = ASTSource(
        kernel,
        {name: types[name].partition(":")[0] if name in types else "constexpr" for name in names},
        {(names.index(name),): value for name, value in constants.items()},
        {(names.index(name),): [["tt.divisibility", 16]] for name in types if types[name].endswith(":16")},
    )
    chip = TARGETS[target]
    account = io.StringIO()
    with knobs.nvidia.scope(), knobs.compilation.scope(), redirect_stdout(account):
        knobs.nvidia.dump_ptxas_log = True  # goes to stdout, and only when something is compiled
        knobs.compilation.always_compile = True
        result = triton.compile(source, target=chip, options=dict(options))
    assembly = result.asm["ptx" if chip.backend == "cuda" else "amdgcn"]
    matrix = tuple(sorted(set(re.findall(_MATRIX[chip.backend], assembly))))
    if chip.backend == "hip":
        registers, local = _amd(assembly, "vgpr_count"), _amd(assembly, "private_segment_fixed_size")
        spills = _amd(assembly, "vgpr_spill_count") + _amd(assembly, "sgpr_spill_count")
    else:
        registers, local = _usage(result.asm["cubin"])
        counts = re.findall(r"(\d+) bytes spill (?:stores|loads)", account.getvalue())
        if not counts:
            raise RuntimeError(f"ptxas says nothing of spills: {account.getvalue()[:200]!r}")
        spills = sum(int(count) for count in counts)
    return Resources(registers, spills, local, int(result.metadata.shared), matrix)


def _amd(assembly: str, name: str) -> int:
    found = re.search(rf"\.{name}:\s+(\d+)", assembly)
    if found is None:
        raise RuntimeError(f"the assembly does not say {name}")
    return int(found[1])


def _usage(cubin: bytes) -> tuple[int, int]:
    """Registers, and bytes of stack and local memory, of a thread."""
    try:
        program = knobs.nvidia.cuobjdump.path
    except RuntimeError as error:
        raise ToolMissing(f"Triton has no cuobjdump: {error}") from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        done = subprocess.run([program, "-res-usage", path], capture_output=True, text=True, check=False)
    found = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", done.stdout + done.stderr)
    if found is None:
        raise RuntimeError(
            f"cuobjdump says nothing of the resources: {done.stdout[:200]} {done.stderr[:200]}"
        )
    return int(found[1]), int(found[2]) + int(found[3])
