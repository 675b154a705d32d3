"""The other side of a ring in a calibration: a cached file, plain memory, a file to write."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from planner.engine.calibration.device import Memory
from planner.engine.calibration.tables import Side
from planner.engine.files import read_exactly, write_exactly
from planner.engine.memory import copy_memory

MOST_WRITTEN: Final = 1 << 30
"""Bytes that one sample of writes may put into the page cache: a quarter second at 4 GB/s."""


class FileSide:
    """A file in the page cache that workers read from."""

    def __init__(self, path: Path, size: int) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.side = Side(self._read, size)

    def _read(self, slot: memoryview, offset: int) -> None:
        read_exactly(self._fd, slot, offset)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


class MemorySide:
    """Plain memory that workers copy from, or into."""

    def __init__(self, block: Memory, *, into: bool) -> None:
        self._base, self._into = block.address, into
        self._known: dict[int, int] = {}
        self.side = Side(self._copy, block.size)

    def know(self, slots: Sequence[memoryview]) -> None:
        """Look the slots' addresses up before anything is timed."""
        for slot in slots:
            self._known[id(slot)] = int(np.frombuffer(slot, np.uint8).ctypes.data)

    def _copy(self, slot: memoryview, offset: int) -> None:
        address = self._known.get(id(slot))
        if address is None:
            address = int(np.frombuffer(slot, np.uint8).ctypes.data)
        if self._into:
            copy_memory(self._base + offset, address, len(slot))
        else:
            copy_memory(address, self._base + offset, len(slot))


class SinkSide:
    """A file that workers write, empty before each sample: its pages are new, as in a save."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.side = Side(self._write, MOST_WRITTEN, turns=True)

    def fresh(self) -> None:
        """Empty the file."""
        os.ftruncate(self._fd, 0)

    def _write(self, slot: memoryview, offset: int) -> None:
        write_exactly(self._fd, slot, offset)

    def close(self) -> None:
        """Close and remove the file."""
        os.close(self._fd)
        self._path.unlink(missing_ok=True)
