"""What a GPU reads in place, managed memory, and memory registered piece by piece.

No copy engine moves these by itself: kernels, page faults, prefetches and the driver's registration
set the pace.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import log
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from planner.engine.awake import Waker
from planner.engine.backends.base import Backend, DeviceBuffer
from planner.engine.caches import THROUGH
from planner.engine.calibration.ahead import Ahead
from planner.engine.calibration.costs import PAGE, timed
from planner.engine.calibration.device import Memory
from planner.engine.calibration.managed import Managed
from planner.engine.calibration.once import Move, Once, cleared
from planner.engine.calibration.rounds import Cell
from planner.engine.memory import HostBuffer, copy_memory
from planner.engine.places import DevicePlace, HostPlace
from planner.engine.strategies.in_place import IN_PLACE_IN, IN_PLACE_OUT
from planner.engine.terms import Terms
from planner.machine.curve import Curve
from planner.model.touched import ELEMENT, Use, in_place

What = TypeVar("What")

KIB: Final = 1 << 10
MIB: Final = 1 << 20
DENSE: Final = (64 * KIB, MIB, 4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB, 64 * MIB, 256 * MIB)
"""Bytes of passes over mapped memory: launch at one end, rate at the other."""
STRIDES: Final = (32, 64, 128, 512, 4096)
"""Bytes from one element of 16 to the next: shared sectors, whole sectors, single requests."""
SPARSE: Final = 256 * MIB
"""Bytes over which the elements lie; emulated kernels gather some 100 million elements a second."""
SPARSE_EMULATED: Final = 16 * MIB
SECTORS: Final = (32, 64, 128)
"""Bytes that a scattered read may move: a sector, two, a whole line."""
SCATTERED: Final = 128
"""Bytes between elements from which each is a request of its own."""
THREADS: Final = 2
"""Threads of a sample: the run has one of its own."""
OWN: Final = 4 * MIB
"""Bytes that the caller copies before each run at the most: what the private caches of a core
hold."""
ALLOCATED: Final = 64 * MIB
"""Bytes that the driver allocates, touches and pins in one call."""
READ: Final = 16 * MIB
"""Bytes that the CPU reads to find out what kind of memory it has."""
COMBINED: Final = 1e9
"""Bytes/s: no CPU reads write-combined memory faster, and none ordinary memory slower. A guest may
be handed ordinary memory under that name."""


def _none() -> None:
    """Nothing has to be brought back."""


@dataclass
class InPlace:
    """The probes of one GPU, and what they hold until `close`."""

    backend: Backend
    gpu: int
    host: Memory
    device: Memory
    file: Path
    undo: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __post_init__(self) -> None:
        """Make what the caller goes through between two runs."""
        self._own = HostBuffer(2 * OWN)
        self._waker = Waker(self.backend)
        self._paused: set[str] = set()

    def close(self) -> None:
        """Give lanes and memory back."""
        self.undo.close()
        self._waker.close()
        self._own.close()

    def cells(self, *, maps: bool) -> Iterator[Cell]:
        """All cells; `maps` says whether the device can reach a file's mapping."""
        self.backend.attach(self.gpu)
        self._own.touch()
        if self._can("zero_copy"):
            yield from self._zero_copy()
        if self._can("managed"):
            yield from self._managed().cells(
                inward=self._can("prefetch"), outward=self._can("prefetch", ("hbm", "ram"))
            )
        yield from self._combined()
        ahead = Ahead(self.backend, self.gpu, self._device(), self.host, self.undo)
        if maps:
            yield from ahead.file_cells(self.file)
        if maps or not self.backend.emulated:  # emulated memory is registered for next to nothing
            yield from ahead.memory_cells()

    def _can(self, strategy: str, across: tuple[str, str] = ("ram", "hbm")) -> bool:
        return self.backend.lacks(strategy, across, [self.gpu]) is None

    def _between(self, size: int) -> None:
        """What lies between two runs: the caller's own caches hold other bytes."""
        copy_memory(self._own.address + OWN, self._own.address, min(OWN, THROUGH * size))

    def _once(self, move: Move, waker: Waker | None, back: Callable[[], object] = _none) -> Once:
        """A movement that runs once a sample; `back` brings back what the run before moved."""

        def before() -> None:
            back()
            self._between(move.size)

        made = Once(self.backend, self.gpu, move, waker, before)
        self.undo.callback(made.close)
        return made

    def _runs(self, name: str, move: Move, back: Callable[[], object] = _none) -> Iterator[Cell]:
        """A steady run, and of the first size of a curve one after a pause."""
        yield Cell((name, "alone", move.size), self._once(move, self._waker, back), THREADS)
        if name not in self._paused:
            self._paused.add(name)
            yield Cell(("idle", name, move.size), self._once(move, None, back), THREADS)

    def _device(self) -> DevicePlace:
        block = self.device
        return DevicePlace(self.gpu, DeviceBuffer(self.gpu, block.address, block.size))

    def _zero_copy(self) -> Iterator[Cell]:
        """Dense passes both ways, and elements of 16 bytes at growing distances."""
        self.backend.compile(self.gpu)
        host = HostPlace(self.host.owner)
        reads, writes = IN_PLACE_IN["zero_copy"](self.gpu), IN_PLACE_OUT["zero_copy"](self.gpu)

        def read(size: int, use: Use) -> Move:
            return Move("zero_copy", reads, host, self._device(), size, terms=Terms(use))

        for size in self._fitting(DENSE):
            yield from self._runs(f"h2d{self.gpu}_zero_copy", read(size, Use()))
            write = Move("zero_copy", writes, self._device(), host, size)
            yield from self._runs(f"d2h{self.gpu}_zero_copy", write, partial(cleared, host, size))
        most = SPARSE_EMULATED if self.backend.emulated else SPARSE
        over = max(self._fitting((MIB, 16 * MIB, most)), default=0)
        for stride in STRIDES if over else ():
            strided = read(over, Use(ELEMENT / stride, 1, "strided"))
            run = self._once(strided, self._waker)
            yield Cell((f"h2d{self.gpu}_strided", over, stride), run, THREADS)

    def _fitting(self, sizes: Sequence[int]) -> list[int]:
        room = min(self.host.size, self.device.size)
        return [size for size in sizes if size <= room]

    def _managed(self) -> Managed:
        return Managed(self.backend, self.gpu, self.host, self.device, self._runs, self.undo)

    def _combined(self) -> Iterator[Cell]:
        """How fast the CPU reads write-combined memory, and what it costs to get some."""

        def allocate(size: int) -> float:
            made: list[HostBuffer] = []
            seconds = timed(lambda: made.append(self.backend.combined(size)))
            made[0].close()
            return seconds

        if not self.backend.emulated:
            for size in (PAGE, ALLOCATED):
                yield _cell(("setup", "host_alloc", size), allocate, size)
        buffer = self.backend.combined(READ)
        self.undo.callback(buffer.close)
        buffer.fill(1)

        def read(size: int) -> float:
            words = buffer.array[:size].view(np.uint64)
            return size / timed(lambda: np.bitwise_xor.reduce(words))

        yield _cell(("combined", "read"), read, READ, is_rate=True)


def _cell(
    key: tuple[object, ...], run: Callable[[What], float], what: What, *, is_rate: bool = False
) -> Cell:
    return Cell(key, lambda: run(what), is_rate=is_rate)


def scattered(cells: Sequence[Cell], gpu: int, curve: Curve) -> tuple[float, int] | None:
    """Requests per second, and bytes that one moves at the least; `None` where not sampled.

    Where elements lie far apart each is a request, and requests bind: their rate is the best that
    was seen. The sector is the one with which the model's own formula comes nearest to the times of
    the elements that lie closer together.
    """
    name = f"h2d{gpu}_strided"
    every = {
        (c.key[1], c.key[2]): max(1e-9, c.summary().median - curve.latency)
        for c in cells
        if isinstance(c.key, tuple) and c.key[0] == name and c.taken
    }
    # What takes less than launch and pause before it says more of their noise than of requests.
    seen = {key: t for key, t in every.items() if t > curve.latency} or every
    far = [over / stride / t for (over, stride), t in seen.items() if stride >= SCATTERED]
    if not far:
        return None
    requests = max(far)

    def miss(sector: int) -> float:
        total = 0.0
        for (over, stride), seconds in seen.items():
            touch = in_place(over, Use(ELEMENT / stride, 1, "strided"), sector)
            told = max(curve.seconds(touch.size) - curve.latency, touch.requests / requests)
            total += abs(log(told / seconds))
        return total

    return requests, min(SECTORS, key=miss)
