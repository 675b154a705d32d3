"""What memory costs before the first byte moves: touch, register, allocate, map, start workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping as Table, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter, sleep
from typing import Final

from planner.engine.backends.base import Backend, Engine, Lane
from planner.engine.calibration.pause import PAUSE
from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.statistics import Summary, middle, typical
from planner.engine.calibration.tables import worker_counts
from planner.engine.memory import HostBuffer, Mapping, Ring, copy_memory
from planner.engine.team import Team
from planner.engine.waits import Stop
from planner.machine.curve import Curve, Point
from planner.machine.schema import Setup

MIB: Final = 1 << 20
FREE: Final = 1e15
"""Bytes/s that stand for a call that does nothing: a petabyte in a second."""
PAGE: Final = 4096
"""Bytes whose registration is all latency."""
CALLS: Final = 5
"""Such registrations in one sample."""
BLOCKS: Final = (MIB, 64 * MIB, 256 * MIB)
"""Bytes of device memory whose allocation is timed."""
SLOTS: Final = 2
"""Slots of the lanes whose making is timed, as most rings have them."""
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

    def open_lane(self) -> float:
        """Seconds of one lane with two slots where every worker opens one: they take turns."""
        made: list[Lane] = []
        engine = Engine("h2d", self.gpus[0])

        def make(_number: int) -> None:
            self.backend.attach(engine.gpu)
            made.append(self.backend.lane(engine, SLOTS))

        try:
            return timed(lambda: self.team.run(make)) / self.team.size
        finally:
            for lane in made:
                lane.close()

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
        """All costs of host memory."""
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
        yield Cell(
            ("setup", "register", PAGE),
            lambda: middle(self.register(small)[0] for _ in range(CALLS)),
        )
        if (count := self.team.size) > 1:  # a single one is a first flow's (`first.py`)
            yield Cell(("setup", "workers", count), partial(self.start_workers, count), count)
        yield Cell(("setup", "lane", self.team.size), self.open_lane, self.team.size)
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


def _rate(size: int, seconds: float) -> float:
    return min(FREE, size / seconds) if seconds > 0 else FREE


def setup_of(cells: Sequence[Cell]) -> Setup:
    """The block of the machine file from the cells of this module."""
    own = {c.key[1:]: c for c in cells if isinstance(c.key, tuple) and c.key[0] == "setup"}
    seen: dict[str, tuple[int, Summary, float | None]] = {
        name: (size, cell.summary(), cell.second())
        for (name, size), cell in own.items()
        if size != PAGE and cell.taken and name not in ("workers", "wake")
    }
    small = own.get(("register", PAGE))
    latency = small.summary().median if small is not None and small.taken else 0.0
    rates = {name: _rate(size, found.median) for name, (size, found, _) in seen.items()}
    if "register" in seen:
        size, found, undone = seen["register"]
        latency = min(latency, found.median / 2)
        rates["register"] = _rate(size, found.median - latency)
        rates["unregister"] = _rate(size, undone or 0.0)
    if "touch" in seen and (pinned := seen["touch"][2]) is not None:
        rates["register_ring"] = _rate(seen["touch"][0], pinned - min(latency, pinned / 2))
    if "map" in seen:
        size, found, pinned = seen["map"]
        rates["map_touch"] = _rate(size, found.median)
        rates["register_file"] = _rate(size, found.median + (pinned or 0.0))
    mapped = own.get(("mmap", PAGE))
    start, worker = _teams(own)
    return Setup(
        touch_fresh=rates.get("fresh"),
        touch_recycled=rates.get("touch"),
        touch_worker=rates.get("touch_worker"),
        register_rate=rates.get("register"),
        register_ring=rates.get("register_ring"),
        register_latency=latency,
        unregister=rates.get("unregister"),
        unregister_file=_undone(cells),
        register_file=rates.get("register_file"),
        host_alloc=rates.get("host_alloc"),
        map_latency=mapped.summary().median if mapped is not None and mapped.taken else 0.0,
        map_touch=rates.get("map_touch"),
        start=start,
        worker=worker,
        lane=seen["lane"][1].median if "lane" in seen else 0.0,
        ready=seen["ready"][1].median if "ready" in seen else 0.0,
        wake=_wake(own),
        spread=typical(found.spread for _, found, _ in seen.values()),
    )


def _undone(cells: Sequence[Cell]) -> float | None:
    """Bytes/s of giving registered pieces of a file back, `None` where none were registered."""
    found = [
        cell.key[2] / seconds
        for cell in cells
        if isinstance(cell.key, tuple) and cell.key[:2] == ("register_ahead", "alone")
        if (seconds := cell.second())
    ]
    return middle(found) if found else None


def _teams(cells: Table[tuple[object, ...], Cell]) -> tuple[float, float]:
    """Seconds of a team of one, and of each further worker."""
    found = {
        int(size): cell.summary().median
        for (name, size), cell in cells.items()
        if name == "workers" and cell.taken and isinstance(size, int)
    }
    if not found:
        return 0.0, 0.0
    few, many = min(found), max(found)
    each = max(0.0, found[many] - found[few]) / max(1, many - few)
    return max(0.0, found[few] - (few - 1) * each), each


def _wake(cells: Table[tuple[object, ...], Cell]) -> float:
    """Seconds that each worker after the first adds until all are at it, by least squares."""
    found = {
        int(count) - 1: cell.summary().median
        for (name, count), cell in cells.items()
        if name == "wake" and cell.taken and isinstance(count, int)
    }
    if not found:
        return 0.0
    return sum(n * seconds for n, seconds in found.items()) / sum(n * n for n in found)


def allocation_cells(backend: Backend, gpu: int) -> Iterator[Cell]:
    """Allocations of device memory."""

    def allocate(size: int) -> float:
        start = perf_counter()
        buffer = backend.allocate(gpu, size)
        seconds = perf_counter() - start
        backend.release(buffer)
        return seconds

    for size in BLOCKS:

        def run(size: int = size) -> float:
            return allocate(size)

        yield Cell(("allocate", gpu, size), run)


def allocation(cells: Sequence[Cell], gpu: int) -> Curve | None:
    """Seconds of allocating device memory by bytes, `None` where that was not sampled."""
    times: Table[int, float] = {
        c.key[2]: c.summary().median
        for c in cells
        if isinstance(c.key, tuple) and c.key[:2] == ("allocate", gpu) and c.taken
    }
    if not times:
        return None
    small, large = min(times), max(times)
    rate = _rate(max(1, large - small), max(times[large] - times[small], 1e-12))
    return Curve(
        points=tuple(Point(size_bytes=s, seconds=max(times[s], 1e-9)) for s in sorted(times)),
        latency=max(1e-9, min(times.values())),
        rate=rate,
    )


def issue_cell(work: Callable[[], float], gpu: int) -> Cell:
    """What one call of the driver costs its caller, among many small copies."""
    return Cell(("issue", gpu), work)
