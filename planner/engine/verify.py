"""Byte for byte: what arrived against what the source has."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.engine.backends.base import Backend
from planner.engine.files import FileRanges, read_exactly
from planner.engine.kept import Expected
from planner.engine.memory import HostBuffer
from planner.engine.pattern import Pattern
from planner.engine.places import DevicePlace, HostPlace, Place, SinkPlace
from planner.errors import VerificationError

BLOCK: Final = 16 << 20
"""Bytes compared at a time: a GPU's copy of so many is quick, and they need little room."""
THREADS: Final = 8
"""Threads that compare; each needs two blocks of memory."""

Fetch = Callable[[HostBuffer, int, int], None]
"""`fetch(block, offset, length)`: brings what arrived into the block."""


def from_pattern(pattern: Pattern) -> Expected:
    """The bytes of a pattern."""
    return pattern.write


def from_files(ranges: FileRanges) -> Expected:
    """The bytes of open files, read through the page cache."""

    def read(target: NDArray[np.uint8], offset: int) -> None:
        view = target.data
        for low, number, at, length in ranges.segments(offset, offset + target.size):
            read_exactly(ranges.fds[number], view[low - offset : low - offset + length], at)

    return read


def fetcher(backend: Backend, place: Place) -> Fetch:
    """How to look at what arrived in a place."""
    if isinstance(place, DevicePlace):
        buffer = place.buffer
        if buffer is None:
            raise RuntimeError("nothing has arrived: the device memory was never allocated")
        return lambda block, at, length: backend.read(buffer, at, block.address, length)
    if isinstance(place, SinkPlace):
        fd = place.sink.fd
        return lambda block, at, length: read_exactly(fd, block.view[:length], at)
    if isinstance(place, HostPlace):
        array = place.buffer.array

        def copy(block: HostBuffer, at: int, length: int) -> None:
            block.array[:length] = array[at : at + length]

        return copy
    raise TypeError("bytes cannot be verified in a source")


def verify(name: str, size: int, fetch: Fetch, expected: Expected) -> None:
    """Compare all bytes; raises `VerificationError` with the first that differs."""
    starts = range(0, size, BLOCK)
    threads = min(THREADS, len(starts) or 1, len(os.sched_getaffinity(0)))

    def look(first: int) -> int | None:
        """Offset of the first wrong byte in every `threads`-th block from `first` on."""
        found, wanted = HostBuffer(BLOCK), HostBuffer(BLOCK)
        try:
            for at in starts[first::threads]:
                length = min(BLOCK, size - at)
                fetch(found, at, length)
                expected(wanted.array[:length], at)
                if not np.array_equal(found.array[:length], wanted.array[:length]):
                    return at + int(np.argmax(found.array[:length] != wanted.array[:length]))
        finally:
            found.close()
            wanted.close()
        return None

    with ThreadPoolExecutor(threads) as pool:
        wrong = [at for at in pool.map(look, range(threads)) if at is not None]
    if wrong:
        _tell(name, min(wrong), fetch, expected)


def _tell(name: str, at: int, fetch: Fetch, expected: Expected) -> None:
    """Raise the error for a wrong byte."""
    found, wanted = HostBuffer(1), HostBuffer(1)
    try:
        fetch(found, at, 1)
        expected(wanted.array, at)
        arrived, right = int(found.array[0]), int(wanted.array[0])
    finally:
        found.close()
        wanted.close()
    raise VerificationError(
        f"flow {name}: byte {at} arrived as 0x{arrived:02x}, the source has 0x{right:02x}"
    )
