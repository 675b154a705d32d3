"""Where the bytes of a flow rest: files, host memory, mapped files, a GPU's memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from planner.engine.backends.base import DeviceBuffer
from planner.engine.files import FileRanges
from planner.engine.kept import Kept
from planner.engine.layout import Layout
from planner.engine.memory import HostBuffer, Mapped
from planner.engine.sink import Sink


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
    """Host memory, whole: `buffer` is where it goes now, of `every` buffer that it has.

    `layout` says where the bytes lie in it if they lie in pieces.
    """

    buffer: HostBuffer
    every: list[HostBuffer] = field(default_factory=list)
    layout: Layout | None = None

    def __post_init__(self) -> None:
        """One buffer unless told otherwise."""
        self.every = self.every or [self.buffer]

    def turn(self, repeat: int) -> None:
        """Take the buffer of a repeat: they come in turn."""
        self.buffer = self.every[repeat % len(self.every)]


@dataclass(slots=True)
class MappedPlace:
    """Files mapped into memory; `mapped` is there once the mapping was made."""

    ranges: FileRanges
    mapped: Mapped | None = None


@dataclass(slots=True)
class DevicePlace:
    """A GPU's memory, whole; `buffer` is there once it was allocated.

    It has `kept` buffers, which come in turn; `every` holds those that were allocated. `touched` is
    set where they hold only what a kernel touched of the flow, `layout` where the bytes lie in
    pieces.
    """

    gpu: int
    buffer: DeviceBuffer | None = None
    kept: int = 1
    every: list[DeviceBuffer] = field(default_factory=list)
    touched: Kept | None = None
    layout: Layout | None = None

    def __post_init__(self) -> None:
        """What is there already is one of them."""
        if self.buffer is not None:
            self.every = [self.buffer]

    def add(self, buffer: DeviceBuffer) -> None:
        """Take in one more buffer; the first is in use first."""
        self.every.append(buffer)
        self.buffer = self.every[0]

    def turn(self, repeat: int) -> None:
        """Take the buffer of a repeat: they come in turn."""
        if self.every:
            self.buffer = self.every[repeat % len(self.every)]

    @property
    def address(self) -> int:
        """The first byte's address."""
        if self.buffer is None:
            raise RuntimeError("the device memory is used before it is allocated")
        return self.buffer.address


Place: TypeAlias = FilePlace | SinkPlace | HostPlace | MappedPlace | DevicePlace
"""Any of them."""
