"""What memory costs before the first byte moves: touch, register, allocate, map, start workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter, sleep
from typing import Final

from planner.engine.backends.base import Backend
from planner.engine.calibration.pause import PAUSE
from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.statistics import middle
from planner.engine.calibration.tables import worker_counts
from planner.engine.memory import HostBuffer, Mapping, Ring, copy_memory
from planner.engine.team import Team
from planner.engine.waits import Stop

MIB: Final = 1 << 20
PAGE: Final = 4096
"""Bytes whose registration is all latency."""
CALLS: Final = 5
"""Such registrations in one sample."""
BLOCKS: Final = (MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB)
"""Bytes of device memory whose allocation is timed; drivers cut small ones out of larger pieces.
From 16 MiB to 1.5 GB it takes 0.3 to 0.6 ms, whatever the size (H200, measured 2026-11-30)."""
EMULATED: Final = 256 * MIB
"""Bytes of an emulated device's memory that are allocated at the most: every page is touched."""
WOKEN: Final = 4 * MIB
"""Bytes of the first chunk of each worker whose waking is timed, as of most rings."""
WAKES: Final = 7
"""Such runs in one sample: threads are late by chance, so a median needs several."""
WAKE_COUNTS: Final = 3
"""Numbers of workers whose waking is timed: the largest ones, where it counts."""
ALONE: Final = 32 * MIB
"""Bytes that one worker touches alone: 7 ms at 4.5 GB/s."""
MAPPED: Final = 256 * MIB
"""Bytes of a cached file that are mapped: minor faults of 256 MiB take some 30 ms."""


@dataclass(slots=True)
class Costs:
    """What the probes need: who registers, who touches, which GPUs are reached, a cached file."""

    backend: Backend
    team: Team
    gpus: Sequence[int]
    size: int
    file: Path

    def ring(self) -> tuple[float, float]:
        """Seconds in which all workers together touch a new ring, and of pinning it."""
        ring = Ring(self.team.size, 1, max(1, self.size // self.team.size))
        try:
            touched = timed(lambda: self.team.run(ring.touch))
            pinned, _ = self.register(ring.buffer)
            return touched, pinned
        finally:
            ring.close()

    def touch_alone(self, size: int) -> float:
        """Seconds in which one worker touches a new ring of its own."""
        ring = Ring(1, 1, size)
        try:
            return timed(lambda: ring.touch(0))
        finally:
            ring.close()

    def register(self, buffer: HostBuffer) -> tuple[float, float]:
        """Seconds of pinning a touched buffer, and of undoing it."""
        address, size = buffer.address, buffer.size
        pinned = timed(lambda: self.backend.register(address, size))
        return pinned, timed(lambda: self.backend.unregister(address))

    def calls(self, buffer: HostBuffer) -> tuple[float, float]:
        """The same of a buffer that is all latency, the medians of a few calls."""
        pinned, undone = zip(*(self.register(buffer) for _ in range(CALLS)), strict=True)
        return middle(pinned), middle(undone)

    def start_workers(self, count: int) -> float:
        """Seconds of starting a team of so many, whose threads reach the GPUs."""

        def attach(_number: int) -> None:
            for gpu in self.gpus:
                self.backend.attach(gpu)

        start = perf_counter()
        team = Team(count, Stop(), "calibration")
        try:
            team.run(attach)
            return perf_counter() - start
        finally:
            team.close()

    def wake(self, count: int, buffer: HostBuffer) -> float:
        """Seconds until the last of `count` idle workers is at its first chunk.

        Each copies a chunk when it has been woken, as in a run: who comes first lets the
        interpreter go for the next one. The workers slept before, as between two runs.
        """
        half = buffer.size // 2
        chunk = min(WOKEN, half // count)
        begun = [0.0] * count

        def work(number: int) -> None:
            begun[number] = perf_counter()
            source = buffer.address + number * chunk
            copy_memory(source + half, source, chunk)

        team = Team(count, Stop(), "calibration")
        try:
            team.run(work)  # starts the threads
            times = []
            for _ in range(WAKES):
                sleep(PAUSE)
                start = perf_counter()
                team.run(work)
                times.append(max(begun) - start)
            return middle(times)
        finally:
            team.close()

    def map(self) -> float:
        """Seconds of mapping the cached file."""
        start = perf_counter()
        made = Mapping(str(self.file), 0, min(MAPPED, self.file.stat().st_size))
        seconds = perf_counter() - start
        made.close()
        return seconds

    def mapping(self) -> tuple[float, float]:
        """Seconds of touching a new mapping of the cached file, and of pinning it then."""
        made = Mapping(str(self.file), 0, min(MAPPED, self.file.stat().st_size))
        region = made.region
        try:
            touched = timed(made.touch)
            pinned = timed(
                lambda: self.backend.register(region.address, region.size, read_only=True)
            )
            self.backend.unregister(region.address)
        finally:
            made.close()
        return touched, pinned

    def maps(self) -> bool:
        """Whether a device can reach a file's mapping.

        Emulated GPUs do not count: host threads reach a mapping for next to nothing, which no
        driver matches, and every load would be planned around it.
        """
        across = ("disk", "ram")
        return (
            not self.backend.emulated
            and self.backend.lacks("mmap", across, list(self.gpus)) is None
        )

    def cells(self) -> Iterator[Cell]:
        """All costs of host memory; every sample counts.

        A plan makes memory ready in the midst of what others do. What the kernel does for it takes
        one of two times, by chance (256 MiB were registered in 12 or in 18 ms, and plans did as in
        18), so that the quiet samples alone were the lucky ones.
        """
        for cell in self._cells():
            cell.waits = True
            yield cell

    def _cells(self) -> Iterator[Cell]:
        buffer = HostBuffer(self.size)
        buffer.touch(self.team.size)
        small = HostBuffer(PAGE)
        small.touch()

        def both(cell: Cell, pair: tuple[float, float]) -> float:
            cell.also.append(pair[1])
            return pair[0]

        touched = Cell(("setup", "touch", self.size), None, threads=self.team.size)
        touched.run = lambda: both(touched, self.ring())
        yield touched
        alone = min(ALONE, self.size)
        yield Cell(("setup", "touch_worker", alone), partial(self.touch_alone, alone))
        pinned = Cell(("setup", "register", self.size), None)
        pinned.run = lambda: both(pinned, self.register(buffer))
        yield pinned
        called = Cell(("setup", "register", PAGE), None)
        called.run = lambda: both(called, self.calls(small))
        yield called
        if (count := self.team.size) > 1:  # a single one is a first flow's (`first.py`)
            yield Cell(("setup", "workers", count), partial(self.start_workers, count), count)
        for count in worker_counts(self.team.size)[-WAKE_COUNTS:]:
            if count > 1:
                yield Cell(("setup", "wake", count), partial(self.wake, count, buffer), count)
        if self.maps():
            yield Cell(("setup", "mmap", PAGE), self.map)
            mapped = Cell(("setup", "map", min(MAPPED, self.file.stat().st_size)), None)
            mapped.run = lambda: both(mapped, self.mapping())
            yield mapped


def timed(work: Callable[[], object]) -> float:
    """Seconds that it takes."""
    start = perf_counter()
    work()
    return perf_counter() - start


def allocation_cells(backend: Backend, gpu: int) -> Iterator[Cell]:
    """Allocations of device memory."""

    def allocate(size: int) -> float:
        start = perf_counter()
        buffer = backend.allocate(gpu, size)
        seconds = perf_counter() - start
        backend.release(buffer)
        return seconds

    free = backend.free_memory(gpu)
    # What others have left of a device must do for them, too; emulated ones are the host's memory.
    most = EMULATED if free is None else free // 2
    for size in BLOCKS:
        if size > most:
            continue

        def run(size: int = size) -> float:
            return allocate(size)

        yield Cell(("allocate", gpu, size), run)


def issue_cell(work: Callable[[], float], gpu: int) -> Cell:
    """What one call of the driver costs its caller, among many small copies."""
    return Cell(("issue", gpu), work)
