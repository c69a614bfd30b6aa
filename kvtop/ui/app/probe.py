"""Reads the memory of the process, the machine and the GPU."""

from __future__ import annotations

from typing import Any

from kvtop.ui.frame.machine import MachineMemory


class MachineProbe:
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

    def read(self) -> MachineMemory:
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
        return MachineMemory(process, available, gpu_used, gpu_total)
