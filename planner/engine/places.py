"""Where the bytes of a flow rest: files, host memory, mapped files, a GPU's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from planner.engine.backends.base import DeviceBuffer
from planner.engine.files import FileRanges, Sink
from planner.engine.memory import HostBuffer, Mapped


@dataclass(slots=True)
class FilePlace:
    """Ranges of files that are read."""

    ranges: FileRanges


@dataclass(slots=True)
class SinkPlace:
    """A file that is written."""

    sink: Sink


@dataclass(slots=True)
class HostPlace:
    """Host memory, whole."""

    buffer: HostBuffer


@dataclass(slots=True)
class MappedPlace:
    """Files mapped into memory; `mapped` is there once the mapping was made."""

    ranges: FileRanges
    mapped: Mapped | None = None


@dataclass(slots=True)
class DevicePlace:
    """A GPU's memory, whole; `buffer` is there once it was allocated."""

    gpu: int
    buffer: DeviceBuffer | None = None

    @property
    def address(self) -> int:
        """The first byte's address."""
        if self.buffer is None:
            raise RuntimeError("the device memory is used before it is allocated")
        return self.buffer.address


Place: TypeAlias = FilePlace | SinkPlace | HostPlace | MappedPlace | DevicePlace
"""Any of them."""
