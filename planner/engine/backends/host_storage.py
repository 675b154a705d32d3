"""GPUDirect Storage emulated in RAM: files are read straight into an emulated GPU's memory."""

from __future__ import annotations

import os

from planner.engine.backends.base import DeviceBuffer
from planner.engine.files import read_exactly, write_exactly
from planner.engine.memory import memory_at


class HostStorage:
    """See `backends.base.Storage`."""

    def __init__(self, path: str, *, writes: bool) -> None:
        self._fd = os.open(path, (os.O_RDWR if writes else os.O_RDONLY) | os.O_CLOEXEC)

    def read(self, buffer: DeviceBuffer, at: int, offset: int, length: int) -> None:
        """See `Storage.read`."""
        read_exactly(self._fd, memory_at(buffer.address + at, length), offset)

    def write(self, buffer: DeviceBuffer, at: int, offset: int, length: int) -> None:
        """See `Storage.write`."""
        write_exactly(self._fd, memory_at(buffer.address + at, length), offset)

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
