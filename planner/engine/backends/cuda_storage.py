"""GPUDirect Storage through KvikIO, where it is real: no driver, no strategy.

KvikIO (and cuFile below it) copy through host memory where the kernel's driver is missing. That
would be measured under a wrong name, so it is refused.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Final

from planner.engine.backends.base import DeviceBuffer
from planner.engine.backends.cuda_kernels import imported_cupy
from planner.errors import ExecutionError

DRIVER: Final = Path("/proc/driver/nvidia-fs/stats")
"""Exists while the kernel's module nvidia-fs is loaded: GPUDirect Storage Installation and
Troubleshooting Guide (https://docs.nvidia.com/gpudirect-storage/troubleshooting-guide/)."""


def no_storage() -> str | None:
    """Why GPUs cannot read files directly here, or `None`."""
    if not DRIVER.exists():
        return "the kernel has no GPUDirect Storage driver (module nvidia-fs)"
    try:
        import kvikio
        import kvikio.defaults
    except ImportError:
        return "KvikIO is not installed: take the extra gds12 or gds13"
    if _compatible(kvikio):
        return "KvikIO is in compatibility mode: it would copy through host memory"
    return None


def _compatible(kvikio: Any) -> bool:
    """Whether KvikIO is told, or has found, that it must do without GPUDirect Storage."""
    defaults = kvikio.defaults
    # Until 25.02 a function of its own, since then a named setting with three values.
    mode = defaults.get("compat_mode") if hasattr(defaults, "get") else defaults.compat_mode()
    if mode is True or getattr(mode, "name", "") == "ON":
        return True
    with contextlib.suppress(AttributeError, ImportError, KeyError, ValueError):
        from kvikio import cufile_driver

        if hasattr(cufile_driver, "get"):
            return not cufile_driver.get("is_gds_available")
        return not cufile_driver.DriverProperties().is_gds_available
    return False


class CudaStorage:
    """See `backends.base.Storage`."""

    def __init__(self, path: str, *, writes: bool) -> None:
        import kvikio

        self._cupy = imported_cupy()
        self._file = kvikio.CuFile(path, "r+" if writes else "r")
        self._arrays: dict[int, Any] = {}

    def _array(self, buffer: DeviceBuffer) -> Any:
        """The buffer as KvikIO takes it; the memory stays whose it was."""
        found = self._arrays.get(buffer.address)
        if found is None or found.size != buffer.size:
            memory = self._cupy.cuda.UnownedMemory(buffer.address, buffer.size, buffer, buffer.gpu)
            start = self._cupy.cuda.MemoryPointer(memory, 0)
            found = self._cupy.ndarray((buffer.size,), self._cupy.uint8, start)
            self._arrays[buffer.address] = found
        return found

    def read(self, buffer: DeviceBuffer, at: int, offset: int, length: int) -> None:
        """One call of cuFile, repeated where it returns early."""
        array, done = self._array(buffer), 0
        while done < length:
            more = self._file.raw_read(array, length - done, offset + done, at + done)
            if more <= 0:
                raise ExecutionError(
                    f"the file ends at byte {offset + done}, {length - done} bytes early: "
                    "it shrank during the run"
                )
            done += int(more)

    def write(self, buffer: DeviceBuffer, at: int, offset: int, length: int) -> None:
        """One call of cuFile, repeated where it returns early."""
        array, done = self._array(buffer), 0
        while done < length:
            more = self._file.raw_write(array, length - done, offset + done, at + done)
            if more <= 0:
                raise ExecutionError(f"{length - done} bytes at {offset + done} were not written")
            done += int(more)

    def close(self) -> None:
        """Close the file."""
        self._arrays.clear()
        self._file.close()
