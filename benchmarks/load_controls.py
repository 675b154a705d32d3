"""What a machine does without the loader: one big copy, an allocation, and the stage before copies.

A load can be no faster than the slower of its two stages. One is the copy into the GPU; the other
brings the bytes to where the copy takes them from: workers read the file, or copy memory, into
their slots, or one thread registers the file's pages region by region. Each is measured alone, with
the workers, the chunk and the slots that the load has used, and by the same threads: files are read
by those of the C library where loads are (`planner.native`), else by threads of Python.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Barrier
from time import perf_counter
from typing import Final

import numpy as np

from planner.engine import aio
from planner.engine.aio import Read, Reads
from planner.engine.backends.base import Backend, Engine, Lane
from planner.engine.dispatch import Dispatcher
from planner.engine.memory import PAGE, HostBuffer, Mapping, round_up
from planner.engine.serving.shape import Shape
from planner.engine.waits import Stop
from planner.native import native

PINNED: Final = 1 << 30
"""Bytes of the memory that the big copy comes out of, over and over."""
SHIFT: Final = 8
"""Bytes that a copy is shifted by: the data of a file begins at a multiple of eight."""

LIBRARY: Final = "the C library's threads"
PYTHON: Final = "threads of Python"
"""By whom a stage is done."""

Take = Callable[[memoryview, int], None]
"""`take(slot, at)` fills the slot with the bytes from `at`."""


class Controls:
    """A big copy and an allocation, of the GPU that the loads go to.

    The copy goes to memory that stays: a control that gives 8 GB back right before each load would
    have the driver clean up beside it. For the same reason it is noted here when memory of the GPU
    was last given back.
    """

    def __init__(self, backend: Backend, gpu: int) -> None:
        self.backend, self.gpu = backend, gpu
        backend.attach(gpu)
        self.memory = HostBuffer(PINNED + SHIFT)
        self.memory.touch(8)
        backend.register(self.memory.address, self.memory.size)
        self.target = backend.allocate(gpu, PINNED + SHIFT)
        self.lane: Lane = backend.lane(Engine("h2d", gpu), 1)
        self._released: float | None = None

    def note_release(self) -> None:
        """Memory of the GPU was given back."""
        self._released = perf_counter()

    def since_release(self) -> float | None:
        """Seconds since memory of the GPU was given back, `None` if none was yet."""
        return None if self._released is None else perf_counter() - self._released

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
        released = perf_counter() - made
        self.note_release()
        return made - start, released

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


def reading(path: Path, size: int, shape: Shape) -> tuple[str, float]:
    """By whom a load of this shape has a file read, and seconds to read so many bytes likewise."""
    cores = len(os.sched_getaffinity(0))
    if native(shape.workers, shape.chunk_bytes, cores) and aio.usable():
        return LIBRARY, handing(path, size, shape)
    with from_file(path) as take:
        return PYTHON, filling(size, shape, take)


def handing(path: Path, size: int, shape: Shape) -> float:
    """Seconds in which the C library's threads read a file's bytes into a shape's slots.

    One thread hands chunks on, as in a load; there are no copies, so what was read is done with.
    """
    workers, depth, chunk = shape.workers, shape.depth, shape.chunk_bytes
    with (
        contextlib.closing(HostBuffer(workers * depth * chunk)) as ring,
        path.open("rb", buffering=0) as file,
    ):
        ring.touch(workers)
        parts = [(at, min(chunk, size - at)) for at in range(0, size, chunk)]
        slots = range(ring.address, ring.address + ring.size, chunk)
        members = [
            _Reader(file.fileno(), slots[k * depth : (k + 1) * depth], parts)
            for k in range(workers)
        ]
        reads = Reads(workers, depth)

        def run(chunks: int) -> None:
            Dispatcher(members, depth, iter(range(chunks)), reads, Stop()).run()

        run(min(workers, len(parts)))  # the threads are up, as behind the first load
        start = perf_counter()
        run(len(parts))
        return perf_counter() - start


class _Reader:
    """A worker of `handing`: its slots' addresses, and every chunk's (offset, size)."""

    first: Sequence[int] = ()
    further: Sequence[int] = ()

    def __init__(self, fd: int, slots: Sequence[int], parts: Sequence[tuple[int, int]]) -> None:
        self._fd, self._slots, self._parts = fd, slots, parts

    def ask(self, slot: int, chunk: int) -> Read:
        at, size = self._parts[chunk]
        return Read(self._fd, self._slots[slot], size, at)

    def take(self, _slot: int, chunk: int, done: int) -> None:
        at, size = self._parts[chunk]
        if done != size:
            raise OSError(f"a short read at byte {at}")

    def hand_on(self, _slot: int, _chunk: int, _code: int) -> None:
        """Nothing: there are no engines."""

    def sent(self) -> None:
        """Nobody waits for that."""

    def landed(self, _slot: int) -> bool:
        return True

    def wait(self, _slot: int) -> None:
        """Nothing is on its way out of a slot."""


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
