"""The disk: cold reads through the page cache and around it, and what it takes to write and sync.

On a virtual machine `cold` is cold in the guest only: the host below may hold the blocks in its own
cache. The record says so.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from planner.engine.calibration.statistics import Summary, summary
from planner.machine.curve import Curve, Point
from planner.machine.schema import Direction

MIB: Final = 1 << 20
REQUESTS: Final = (1 * MIB, 4 * MIB)
"""Bytes of the requests whose time alone is measured: readers ask for 1 to 4 MiB."""
READERS: Final = 4
"""Threads that read together. Four requests of 4 MiB are 16 MiB under way, more than the product
of rate and latency of any one disk (10 GB/s times 1 ms is 10 MB)."""
SLICE: Final = 0.12
"""Seconds of one sample: a virtual disk answers 4 MiB in about 2 ms, so that is some 50 reads."""


@dataclass(frozen=True, slots=True)
class Reads:
    """Samples of one way of reading: seconds of a lone request by bytes, and the rate together."""

    alone: dict[int, Summary]
    together: Summary


class Reader:
    """Reads a file once through, in requests, so that no byte of it is met twice."""

    def __init__(self, path: Path, size: int, *, direct: bool) -> None:
        self.size = size
        self.direct = direct
        self.at = 0
        self.handle = os.open(path, os.O_RDONLY | (os.O_DIRECT if direct else 0))
        # Page-aligned, as direct reads need it; touched, so that no page fault is timed.
        self.buffers = [mmap.mmap(-1, max(REQUESTS)) for _ in range(READERS)]
        for buffer in self.buffers:
            buffer.write(b"\1" * len(buffer))

    def close(self) -> None:
        """Give the file and the buffers back."""
        os.close(self.handle)
        for buffer in self.buffers:
            buffer.close()

    def _forget(self) -> None:
        """Start again at the front, with nothing of the file in the page cache."""
        self.at = 0
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
        end = time.perf_counter() + SLICE
        while True:
            if self.at + length > self.size:
                self._forget()
            start = time.perf_counter()
            self.request(length, self.buffers[0], self.at)
            now = time.perf_counter()
            spent += now - start
            count += 1
            self.at += length
            if now >= end:
                return spent / count

    def together(self, pool: ThreadPoolExecutor) -> float:
        """Bytes/s of `READERS` threads that read neighbouring requests."""
        length = REQUESTS[-1]
        step = length * READERS
        if self.at + step > self.size:
            self._forget()
        steps = max(1, (self.size - self.at) // step)
        start = time.perf_counter()
        end = start + SLICE
        first, done = self.at, [0] * READERS

        def read(k: int) -> None:
            for turn in range(steps):
                self.request(length, self.buffers[k], first + turn * step + k * length)
                done[k] += length
                if time.perf_counter() >= end:
                    return

        list(pool.map(read, range(READERS)))
        elapsed = time.perf_counter() - start
        self.at = first + max(done) * READERS
        return sum(done) / elapsed


def reads(path: Path, size: int, rounds: int, *, direct: bool) -> Reads | None:
    """Samples of cold reads of the first `size` bytes of a file, `None` where it cannot be read so.

    Parameters
    ----------
    path, size
        A file whose bytes are on the disk (synced); it is dropped from the page cache first.
    rounds
        Samples of each cell.
    direct
        Around the page cache (`O_DIRECT`), which not every file system offers.

    """
    try:
        reader = Reader(path, size, direct=direct)
    except OSError:
        return None
    times: dict[int, list[float]] = {length: [] for length in REQUESTS}
    rates: list[float] = []
    try:
        reader._forget()  # noqa: SLF001 - of this module
        with ThreadPoolExecutor(READERS) as pool:
            for _ in range(rounds):
                for length in REQUESTS:
                    times[length].append(reader.alone(length))
                rates.append(reader.together(pool))
    except OSError:
        return None
    finally:
        reader.close()
    return Reads({length: summary(found) for length, found in times.items()}, summary(rates))


def write_rate(path: Path, size: int, block: memoryview) -> float:
    """Bytes/s of writing `size` bytes and waiting until they are on the disk.

    The file stays, with `size` bytes of the `block` repeated: it serves the reads afterwards.
    """
    start = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        written = 0
        while written < size:
            written += file.write(block[: min(len(block), size - written)])
        os.fsync(file.fileno())
    return size / (time.perf_counter() - start)


def curve(found: Reads) -> Curve:
    """The curve of one way of reading; its rate is what several readers reach together."""
    first, second = REQUESTS
    t0, t1 = found.alone[first].median, found.alone[second].median
    # The line through both requests meets the axis at the latency of a request.
    latency = min(t0, max(0.0, t0 - (t1 - t0) * first / (second - first)))
    points = tuple(
        Point(size_bytes=size, seconds=seen.median) for size, seen in found.alone.items()
    )
    spread = max(found.together.spread, *(seen.spread for seen in found.alone.values()))
    return Curve(points=points, latency=latency, rate=found.together.median, spread=spread)


def forward(buffered: Reads | None, direct: Reads | None) -> Direction | None:
    """The disk's reading direction, `None` where nothing could be read."""
    curves = {}
    if buffered is not None:
        curves["buffered"] = curve(buffered)
    if direct is not None:
        curves["direct"] = curve(direct)
    if not curves:
        return None
    return Direction(rate=max(c.rate for c in curves.values()), curves=curves)


def backward(rates: Sequence[float]) -> Direction:
    """The disk's writing direction from samples of writing and syncing."""
    seen = summary(rates)
    written = Curve(latency=0.0, rate=seen.median, spread=seen.spread)
    return Direction(rate=seen.median, curves={"buffered": written})
