"""The disk: cold reads through the page cache and around it, and what it takes to write and sync.

On a virtual machine `cold` is cold in the guest only: the host below may hold the blocks in its own
cache. The record says so.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.statistics import Summary
from planner.engine.memory import Mapping
from planner.machine.curve import Curve, Point
from planner.machine.schema import CurveName, Direction

MIB: Final = 1 << 20
REQUEST: Final = 4 * MIB
"""Bytes of the requests of several readers: they ask for 1 to 4 MiB."""
LEAST: Final = 64 * MIB
"""Bytes that are written whatever the time: sixteen readers of 4 MiB each find something."""
FLUSH: Final = 256 * MIB
"""Bytes after which what was written is brought to the disk."""
MAPPED: Final = (4 * MIB, 16 * MIB)
"""Bytes of the parts of a cold mapping that are touched: more than any read-ahead."""


class Reader:
    """Reads a file once through, in requests, so that no byte of it is met twice."""

    def __init__(
        self, path: Path, size: int, *, direct: bool, largest: int, readers: int, seconds: float
    ) -> None:
        self.path = path
        self.size = size
        self.direct = direct
        self.seconds = seconds
        self.at = 0
        self.handle = os.open(path, os.O_RDONLY | (os.O_DIRECT if direct else 0))
        # Page-aligned, as direct reads need it; touched, so that no page fault is timed.
        sizes = [min(largest, size), *[min(REQUEST, size)] * (readers - 1)]
        self.buffers = [mmap.mmap(-1, room) for room in sizes]
        for buffer in self.buffers:
            buffer.write(b"\1" * len(buffer))

    def close(self) -> None:
        """Give the file and the buffers back."""
        os.close(self.handle)
        for buffer in self.buffers:
            buffer.close()

    def forget(self) -> None:
        """Start again at the front, with nothing of the file in the page cache."""
        self.at = 0
        self.drop()

    def drop(self) -> None:
        """Let the page cache forget the file: another reader may have brought parts of it in."""
        os.posix_fadvise(self.handle, 0, 0, os.POSIX_FADV_DONTNEED)

    def request(self, length: int, buffer: mmap.mmap, offset: int) -> None:
        """Read `length` bytes at `offset`."""
        with memoryview(buffer) as view, view[:length] as part:
            os.preadv(self.handle, [part], offset)

    def alone(self, length: int) -> float:
        """Seconds of a request alone: the mean of those that follow one another for a slice.

        Not the median: behind the kernel's read-ahead most requests find their bytes, and a few
        wait for all of them.
        """
        count, spent = 0, 0.0
        self.drop()
        end = time.perf_counter() + self.seconds
        while True:
            if self.at + length > self.size:
                self.forget()
            start = time.perf_counter()
            self.request(length, self.buffers[0], self.at)
            now = time.perf_counter()
            spent += now - start
            count += 1
            self.at += length
            if now >= end:
                return spent / count

    def together(self, readers: int) -> float:
        """Bytes/s of so many threads that read neighbouring requests."""
        length = min(REQUEST, self.size)
        step = length * readers
        self.drop()
        if self.at + step > self.size:
            self.forget()
        steps = max(1, (self.size - self.at) // step)
        start = time.perf_counter()
        end = start + self.seconds
        first, done = self.at, [0] * readers

        def read(k: int) -> None:
            for turn in range(steps):
                self.request(length, self.buffers[k], first + turn * step + k * length)
                done[k] += length
                if time.perf_counter() >= end:
                    return

        with ThreadPoolExecutor(readers) as pool:
            list(pool.map(read, range(readers)))
        elapsed = time.perf_counter() - start
        self.at = first + max(done) * readers
        return sum(done) / elapsed

    def mapped(self, length: int) -> float:
        """Seconds in which one thread brings `length` bytes in by touching a mapping of them."""
        self.drop()
        if self.at + length > self.size:
            self.forget()
        one = Mapping(str(self.path), self.at, length)
        try:
            start = time.perf_counter()
            one.touch()
            return time.perf_counter() - start
        finally:
            one.close()
            self.at += length


@dataclass
class ColdFile:
    """A file on the disk, and the readers of it; what cannot be read in some way has no cells."""

    path: Path
    size: int
    requests: Sequence[int]
    readers: Sequence[int]
    seconds: float
    open: list[Reader] = field(default_factory=list)

    def cells(self, *, mapped: bool) -> Iterator[Cell]:
        """Cold reads through the page cache, around it, and (if asked) through a mapping.

        File systems without `O_DIRECT` refuse it when the file is opened, or when it is read.
        """
        for name in ("buffered", "direct"):
            reader = self._reader(direct=name == "direct")
            if reader is not None:
                yield from self._cells(name, reader)
        if mapped and (reader := self._reader(direct=False)) is not None:
            for length in MAPPED:
                if length <= self.size:

                    def run(reader: Reader = reader, length: int = length) -> float:
                        return reader.mapped(length)

                    yield Cell(("disk", "mmap", "alone", length), run)

    def _cells(self, name: str, reader: Reader) -> Iterator[Cell]:
        for length in self.requests:
            if length <= self.size:

                def alone(length: int = length) -> float:
                    return reader.alone(length)

                yield Cell(("disk", name, "alone", length), alone)
        for count in self.readers:
            if count * min(REQUEST, self.size) <= self.size:

                def together(count: int = count) -> float:
                    return reader.together(count)

                key = ("disk", name, "together", count)
                yield Cell(key, together, count, is_rate=True)

    def _reader(self, *, direct: bool) -> Reader | None:
        """A reader of the file with nothing of it in the page cache."""
        reader = None
        try:
            reader = Reader(
                self.path,
                self.size,
                direct=direct,
                largest=max(REQUEST, *self.requests),
                readers=max(self.readers),
                seconds=self.seconds,
            )
            reader.forget()
            reader.request(min(self.requests), reader.buffers[0], 0)
        except OSError:
            if reader is not None:
                reader.close()
            return None
        self.open.append(reader)
        return reader

    def close(self) -> None:
        """Close the readers."""
        for reader in self.open:
            reader.close()
        self.open.clear()


def write_cold(path: Path, size: int, block: memoryview, seconds: float) -> tuple[int, float]:
    """Write up to `size` bytes for about so many seconds; how many, and bytes/s with the sync.

    The file stays, with the `block` repeated: it serves the reads afterwards.
    """
    start = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        written = 0
        while written < size and (written < LEAST or time.perf_counter() - start < seconds):
            written += file.write(block[: min(len(block), size - written)])
            # Without it the page cache would take all at its own speed, and the sync would last.
            if written % FLUSH == 0:
                os.fdatasync(file.fileno())
        os.fsync(file.fileno())
    return written, written / (time.perf_counter() - start)


def curve_of(cells: Sequence[Cell], name: str) -> Curve | None:
    """The curve of one way of reading; its rate is what several readers reach together."""
    alone: dict[int, Summary] = {}
    together: list[Summary] = []
    for cell in cells:
        if isinstance(cell.key, tuple) and cell.key[:2] == ("disk", name) and cell.taken:
            if cell.key[2] == "alone":
                alone[cell.key[3]] = cell.summary()
            else:
                together.append(cell.summary())
    if not alone:
        return None
    first, last = min(alone), max(alone)
    t0, t1 = alone[first].median, alone[last].median
    # The line through the smallest and the largest request meets the axis at a request's latency.
    slope = max(0.0, (t1 - t0) / (last - first)) if last > first else 0.0
    best = max(together, key=lambda seen: seen.median, default=None)
    points = tuple(Point(size_bytes=size, seconds=alone[size].median) for size in sorted(alone))
    seen = [*alone.values(), *([] if best is None else [best])]
    spreads = [one.spread for one in seen if one.spread is not None]
    return Curve(
        points=points,
        latency=min(t0, max(0.0, t0 - slope * first)),
        rate=best.median if best is not None else last / t1,
        spread=max(spreads, default=None),
    )


def forward(cells: Sequence[Cell]) -> Direction | None:
    """The disk's reading direction, `None` where nothing could be read."""
    names: tuple[CurveName, ...] = ("buffered", "direct", "mmap")
    curves = {name: curve for name in names if (curve := curve_of(cells, name)) is not None}
    if not curves:
        return None
    return Direction(rate=max(c.rate for c in curves.values()), curves=curves)


def backward(cells: Sequence[Cell]) -> Direction | None:
    """The disk's writing direction from samples of writing and syncing."""
    for cell in cells:
        if cell.key == ("disk", "write") and cell.taken:
            seen = cell.summary()
            written = Curve(latency=0.0, rate=seen.median, spread=seen.spread)
            return Direction(rate=seen.median, curves={"buffered": written})
    return None
