"""Memory of the process, the machine and the GPU. What cannot be known is None, never zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SystemMemory:
    """Bytes each; None when not known."""

    process: int | None = None
    """Resident memory of this process."""
    available: int | None = None
    """Memory of the machine that programs can still get."""
    gpu_used: int | None = None
    gpu_total: int | None = None


class SystemProbe:
    """Reads memory figures. Needs psutil for RAM, nvidia-ml-py for a GPU; both are optional."""

    def __init__(self, *, gpu: bool) -> None:
        self._process: Any = None
        self._psutil: Any = None
        self._nvml: Any = None
        self._device: Any = None
        try:
            import psutil

            self._psutil, self._process = psutil, psutil.Process()
        except ImportError:
            pass
        if gpu:
            self._open_gpu()

    def _open_gpu(self) -> None:
        """Find the first GPU that NVML shows, if any."""
        try:
            import pynvml

            pynvml.nvmlInit()
            self._device = pynvml.nvmlDeviceGetHandleByIndex(0)
            self._nvml = pynvml
        except Exception:
            # No library, no driver, or no permission: NVML has an exception class for each, and none of
            # them is a reason not to show the rest.
            self._device = None

    def read(self) -> SystemMemory:
        """The figures now. Takes some tens of microseconds."""
        process = available = gpu_used = gpu_total = None
        if self._psutil is not None:
            process = self._process.memory_info().rss
            available = self._psutil.virtual_memory().available
        if self._device is not None:
            try:
                memory = self._nvml.nvmlDeviceGetMemoryInfo(self._device)
                gpu_used, gpu_total = memory.used, memory.total
            except self._nvml.NVMLError:
                self._device = None
        return SystemMemory(process, available, gpu_used, gpu_total)
