"""What a machine does without the loader: one big copy, an allocation, and the stage before copies.

A load can be no faster than the slower of its two stages. One is the copy into the GPU; the other
brings the bytes to where the copy takes them from: workers read the file, or copy memory, into
their slots, or one thread registers the file's pages region by region. Each is measured alone, by
the threads, the chunk and the slots that the load has used.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Barrier
from time import perf_counter
from typing import Final

import numpy as np

from planner.engine.backends.base import Backend, Engine, Lane
from planner.engine.memory import PAGE, HostBuffer, Mapping, round_up
from planner.engine.serving.shape import Shape

PINNED: Final = 1 << 30
"""Bytes of the memory that the big copy comes out of, over and over."""
SHIFT: Final = 8
"""Bytes that a copy is shifted by: the data of a file begins at a multiple of eight."""

Take = Callable[[memoryview, int], None]
"""`take(slot, at)` fills the slot with the bytes from `at`."""


class Controls:
    """A big copy and an allocation, of the GPU that the loads go to.

    The copy goes to memory that stays: a control that gives 8 GB back right before each load would
    have the driver clean up beside it.
    """

    def __init__(self, backend: Backend, gpu: int) -> None:
        self.backend, self.gpu = backend, gpu
        backend.attach(gpu)
        self.memory = HostBuffer(PINNED + SHIFT)
        self.memory.touch(8)
        backend.register(self.memory.address, self.memory.size)
        self.target = backend.allocate(gpu, PINNED + SHIFT)
        self.lane: Lane = backend.lane(Engine("h2d", gpu), 1)

    def copy(self, size: int) -> float:
        """Seconds of a copy of so many bytes."""
        return self._run(size, 0, 0)

    def shifted(self) -> dict[str, float]:
        """Rates of copies whose source or target is not aligned, and of one where both are."""
        ways = {"aligned": (0, 0), "source": (SHIFT, 0), "target": (0, SHIFT)}
        return {
            name: PINNED / min(self._run(PINNED, a, b) for _ in range(3))
            for name, (a, b) in ways.items()
        }

    def _run(self, size: int, source: int, target: int) -> float:
        to, at = self.target.address + target, self.memory.address + source
        parts = [(to, at, min(PINNED, size - low)) for low in range(0, size, PINNED)]
        self.lane.copy_parts(0, parts[:1])
        self.lane.wait(0)
        start = perf_counter()
        self.lane.copy_parts(0, parts)
        self.lane.wait(0)
        return perf_counter() - start

    def allocate(self, size: int) -> tuple[float, float]:
        """Seconds of an allocation behind a release of as much, and of its own release."""
        self.backend.release(self.backend.allocate(self.gpu, size))
        start = perf_counter()
        buffer = self.backend.allocate(self.gpu, size)
        made = perf_counter()
        self.backend.release(buffer)
        return made - start, perf_counter() - made

    def registering(self, path: Path, region: int) -> float:
        """Seconds to register a cached file's pages, region by region, without a copy."""
        with contextlib.closing(Mapping(str(path), 0, path.stat().st_size)) as mapping:
            held: list[int] = []
            try:
                start = perf_counter()
                whole = round_up(mapping.size, PAGE)
                for at in range(0, whole, region):
                    low = mapping.address + at
                    self.backend.register(low, min(region, whole - at), read_only=True)
                    held.append(low)
                return perf_counter() - start
            finally:
                for low in held:
                    self.backend.unregister(low)

    def close(self) -> None:
        """Give everything back."""
        self.lane.close()
        self.backend.release(self.target)
        self.backend.close()
        self.memory.close()


def filling(size: int, shape: Shape, take: Take) -> float:
    """Seconds in which a shape's workers take `size` bytes into their slots, one after another."""
    chunk, depth = shape.chunk_bytes, shape.depth
    with contextlib.closing(HostBuffer(shape.workers * depth * chunk)) as ring:
        ring.touch(shape.workers)
        turns = count()

        def work(number: int) -> None:
            own = range(number * depth * chunk, (number + 1) * depth * chunk, chunk)
            for slot in _round_and_round(own):
                at = next(turns) * chunk
                if at >= size:
                    return
                take(ring.view[slot : slot + min(chunk, size - at)], at)

        with ThreadPoolExecutor(shape.workers) as pool:
            all_up = Barrier(shape.workers)
            list(pool.map(lambda _number: all_up.wait(), range(shape.workers)))
            start = perf_counter()
            list(pool.map(work, range(shape.workers)))
            return perf_counter() - start


def _round_and_round(slots: range) -> Iterator[int]:
    while True:
        yield from slots


@contextlib.contextmanager
def from_file(path: Path) -> Iterator[Take]:
    """Reads of a file through the page cache."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def take(slot: memoryview, at: int) -> None:
        if os.preadv(fd, [slot], at) != len(slot):
            raise OSError(f"{path}: a short read at byte {at}")

    try:
        yield take
    finally:
        os.close(fd)


def from_memory(source: HostBuffer) -> Take:
    """Copies of memory."""

    def take(slot: memoryview, at: int) -> None:
        np.copyto(np.frombuffer(slot, np.uint8), source.array[at : at + len(slot)])

    return take
