"""What the check ran on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

import torch

from gpu.timing import l2_bytes
from kvtop import __version__

PACKAGES = ("torch", "triton", "transformers", "numba", "numpy", "safetensors", "flashinfer-python", "vllm")


def describe(device: torch.device) -> dict[str, Any]:
    """The device and the versions of everything; what is not there is absent."""
    versions: dict[str, str] = {"kvtop": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    for name, version in (("cuda", torch.version.cuda), ("hip", torch.version.hip)):
        if version is not None:
            versions[name] = version
    machine: dict[str, Any] = {"device": {"type": device.type}, "versions": versions}
    machine["cpus"] = os.cpu_count()
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        free, total = torch.cuda.mem_get_info(device)
        machine["device"] |= {
            "name": properties.name,
            "capability": list(torch.cuda.get_device_capability(device)),
            "processors": properties.multi_processor_count,
            "memory_bytes": total,
            "free_bytes": free,
            "l2_bytes": l2_bytes(device),
        }
    return machine
