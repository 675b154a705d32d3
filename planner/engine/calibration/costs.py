"""What memory costs before the first byte moves: touch, register, allocate, map, start workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

from planner.engine.backends.base import Backend
from planner.engine.memory import HostBuffer, Mapping, Ring
from planner.engine.team import Team
from planner.engine.waits import Stop
from planner.machine.curve import Curve, Point
from planner.machine.schema import Setup

MIB: Final = 1 << 20
FREE: Final = 1e15
"""Bytes/s that stand for a call that does nothing: a petabyte in a second."""
ROUNDS: Final = 3


def _timed(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def _rate(size: int, seconds: float) -> float:
    return min(FREE, size / seconds) if seconds > 0 else FREE


def touches(team: Team, size: int) -> list[float]:
    """Seconds of touching `size` bytes by all workers together, each time in new memory."""
    found = []
    for _ in range(ROUNDS):
        slot = max(1, size // team.size)
        ring = Ring(team.size, 1, slot)
        start = perf_counter()
        team.run(ring.touch)
        found.append(perf_counter() - start)
        ring.close()
    return found


def start_workers(count: int, gpus: list[int], backend: Backend) -> float:
    """Seconds of starting a team whose threads reach the GPUs: the median of a few."""

    def attach(_number: int) -> None:
        for gpu in gpus:
            backend.attach(gpu)

    def start() -> None:
        team = Team(count, Stop(), "calibration")
        team.run(attach)
        found.append(team)

    found: list[Team] = []
    seconds = median(_timed(start) for _ in range(ROUNDS))
    for team in found:
        team.close()
    return seconds


def setup(backend: Backend, team: Team, gpus: list[int], size: int, file: Path) -> Setup:
    """All costs of host memory, for `size` bytes.

    Parameters
    ----------
    backend, team, gpus
        What registers, who touches, and which GPUs the workers reach.
    size
        Bytes to touch and register.
    file
        A file in the page cache to map; its first `size` bytes, or all.

    """
    touched = touches(team, size)
    buffer = HostBuffer(size)
    buffer.touch(team.size)
    registered, undone = [], []
    for _ in range(ROUNDS):
        registered.append(_timed(lambda: backend.register(buffer.address, size)))
        undone.append(_timed(lambda: backend.unregister(buffer.address)))
    small = []
    for _ in range(5):
        small.append(_timed(lambda: backend.register(buffer.address, 4096)))
        backend.unregister(buffer.address)
    buffer.close()
    latency = min(median(small), min(registered) / 2)
    return Setup(
        touch_fresh=_rate(size, touched[0]),
        touch_recycled=_rate(size, median(touched[1:])),
        register_rate=_rate(size, median(registered) - latency),
        register_latency=latency,
        unregister=_rate(size, median(undone)),
        register_file=_map_rate(backend, file, gpus),
        workers=start_workers(team.size, gpus, backend),
        spread=(max(touched) - min(touched)) / 2 / median(touched),
    )


def _map_rate(backend: Backend, file: Path, gpus: list[int]) -> float | None:
    """Bytes/s of mapping a cached file and registering it in place, where the device can.

    Not offered with emulated GPUs: host threads reach a mapping for next to nothing, which no
    driver matches, and every load would be planned around it.
    """
    if backend.emulated or backend.lacks("mmap", ("disk", "ram"), gpus) is not None:
        return None
    size = file.stat().st_size

    def work() -> None:
        one = Mapping(str(file), 0, size)
        one.touch()
        backend.register(one.region.address, one.region.size, read_only=True)
        made.append(one)

    made: list[Mapping] = []
    times = []
    for _ in range(ROUNDS):
        times.append(_timed(work))
        backend.unregister(made[-1].region.address)
        made[-1].close()
    return _rate(size, median(times))


def allocation(backend: Backend, gpu: int, sizes: tuple[int, ...]) -> Curve:
    """Seconds of allocating device memory by bytes."""
    times: dict[int, float] = {}
    for size in sizes:
        found = []
        for _ in range(ROUNDS):
            start = perf_counter()
            buffer = backend.allocate(gpu, size)
            found.append(perf_counter() - start)
            backend.release(buffer)
        times[size] = median(found)
    small, large = min(sizes), max(sizes)
    rate = _rate(large - small, max(times[large] - times[small], 1e-12))
    return Curve(
        points=tuple(Point(size_bytes=s, seconds=max(times[s], 1e-9)) for s in sizes),
        latency=max(1e-9, min(times.values())),
        rate=rate,
    )
