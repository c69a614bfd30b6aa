"""How much memory is left for K/V."""

from __future__ import annotations

from pathlib import Path

import psutil
import torch

_CGROUP = Path("/sys/fs/cgroup")


def available_bytes(device: torch.device) -> int:
    """Bytes that can be allocated on the device now; on a CPU within the container's limit, if it has one."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    available = int(psutil.virtual_memory().available)
    limit, used = _cgroup("memory.max"), _cgroup("memory.current")
    if limit is not None and used is not None:
        # What the page cache holds counts as used there, but is given back when it is asked for.
        reclaimable = _cgroup_statistic("inactive_file")
        available = min(available, max(0, limit - used + reclaimable))
    return available


def _cgroup(name: str) -> int | None:
    """A number of this container's memory controller, or None when there is none ("max" is none)."""
    try:
        return int((_CGROUP / name).read_text())
    except (OSError, ValueError):
        return None


def _cgroup_statistic(name: str) -> int:
    try:
        lines = (_CGROUP / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)
