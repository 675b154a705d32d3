"""What a GPU reads in place, managed memory, and memory registered piece by piece.

No copy engine moves these by itself: kernels, page faults, prefetches and the driver's registration
set the pace.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from time import perf_counter
from typing import Final, TypeVar

import numpy as np

from planner.engine.backends.base import Backend, Engine, Lane
from planner.engine.calibration.costs import timed
from planner.engine.calibration.device import Memory
from planner.engine.calibration.rounds import Cell
from planner.engine.memory import HostBuffer, Mapping
from planner.engine.touch import Touch, Touching
from planner.errors import InfeasibleError
from planner.machine.curve import Curve
from planner.model.strategies.touched import ELEMENT, Use, in_place

AnyLane = TypeVar("AnyLane", bound=Lane)
What = TypeVar("What")

KIB: Final = 1 << 10
MIB: Final = 1 << 20
DENSE: Final = (64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB)
"""Bytes of passes over mapped memory: launch at one end, rate at the other."""
STRIDES: Final = (32, 64, 128, 512, 4096)
"""Bytes from one element of 16 to the next: shared sectors, whole sectors, single requests."""
SPARSE: Final = 256 * MIB
"""Bytes over which the elements lie; emulated kernels gather some 100 million elements a second."""
SPARSE_EMULATED: Final = 16 * MIB
MANAGED: Final = (4 * MIB, 64 * MIB, 256 * MIB)
"""Bytes of managed memory: a few blocks of 2 MiB, and many."""
SECTORS: Final = (32, 64, 128)
"""Bytes that a scattered read may move: a sector, two, a whole line."""
SCATTERED: Final = 128
"""Bytes between elements from which each is a request of its own."""
PIECES: Final = (16 * MIB, 64 * MIB, 256 * MIB)
"""Bytes that are registered at a time."""
QUEUED: Final = 64
"""Copies of registered pieces that are under way at the most."""
TOUCHED: Final = 256 * MIB
"""Bytes of ordinary memory that are registered piece by piece: some 15 ms on an H200 machine."""
TOUCHING: Final = 8
"""Threads that touch it first."""
ALLOCATED: Final = 64 * MIB
"""Bytes that the driver allocates, touches and pins in one call."""
READ: Final = 16 * MIB
"""Bytes that the CPU reads to find out what kind of memory it has."""
COMBINED: Final = 1e9
"""Bytes/s: no CPU reads write-combined memory faster, and none ordinary memory slower. A guest may
be handed ordinary memory under that name."""


@dataclass
class InPlace:
    """The probes of one GPU, and what they hold until `close`."""

    backend: Backend
    gpu: int
    host: Memory
    device: Memory
    file: Path
    undo: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def close(self) -> None:
        """Give lanes and memory back."""
        self.undo.close()

    def cells(self, *, maps: bool) -> Iterator[Cell]:
        """All cells; `maps` says whether the device can reach a file's mapping."""
        self.backend.attach(self.gpu)
        if self._can("zero_copy"):
            yield from self._zero_copy()
        if self._can("managed"):
            yield from self._managed()
        yield from self._combined()
        if maps:
            yield from self._file_ahead()
        if maps or not self.backend.emulated:  # emulated memory is registered for next to nothing
            yield from self._memory_ahead()

    def _can(self, strategy: str, across: tuple[str, str] = ("ram", "hbm")) -> bool:
        return self.backend.lacks(strategy, across, [self.gpu]) is None

    def _lane(self, lane: AnyLane) -> AnyLane:
        self.undo.callback(lane.close)
        return lane

    def _waited(self, lane: Lane, issue: Callable[[], object]) -> float:
        """Seconds from before the issue to after the arrival."""
        self.backend.attach(self.gpu)  # other cells of this thread use other GPUs
        start = perf_counter()
        issue()
        lane.wait(0)
        end = perf_counter()
        lane.log.clear()
        return end - start

    def _zero_copy(self) -> Iterator[Cell]:
        """Dense passes both ways, and elements of 16 bytes at growing distances."""
        self.backend.compile(self.gpu)
        lane = self._lane(self.backend.kernel_lane(self.gpu, 1))

        def passed(touch: Touch) -> float:
            return self._waited(lane, lambda: lane.touch(0, touch))

        host, device = self.host.address, self.device.address
        for way, source, target in (("h2d", host, device), ("d2h", device, host)):
            for size in self._fitting(DENSE):
                touch = Touch(target, source, 0, size, size)
                key = (f"{way}{self.gpu}_zero_copy", "alone", size)
                yield _cell(key, passed, touch)
        most = SPARSE_EMULATED if self.backend.emulated else SPARSE
        over = max(self._fitting((MIB, 16 * MIB, most)), default=0)
        for stride in STRIDES if over else ():
            use = Use(ELEMENT / stride, 1, "strided")
            touch = Touching(use).of(over, host, device)
            yield _cell((f"h2d{self.gpu}_strided", over, stride), passed, touch)

    def _fitting(self, sizes: Sequence[int]) -> list[int]:
        room = min(self.host.size, self.device.size)
        return [size for size in sizes if size <= room]

    def _managed(self) -> Iterator[Cell]:
        """Faults of a dense first pass, and prefetches both ways."""
        try:
            buffer = self._managed_buffer(max(self._fitting(MANAGED), default=0))
        except InfeasibleError:
            return
        kernels = self._lane(self.backend.kernel_lane(self.gpu, 1))
        address = buffer.address

        def faults(size: int) -> float:
            self.backend.bring(buffer, None)
            touch = Touch(self.device.address, address, 0, size, size)
            return self._waited(kernels, lambda: kernels.touch(0, touch))

        for size in self._fitting(MANAGED):
            yield _cell((f"h2d{self.gpu}_managed_fault", "alone", size), faults, size)
        ways = (("h2d", ("ram", "hbm"), True), ("d2h", ("hbm", "ram"), False))
        for way, across, inward in ways:
            if not self._can("prefetch", across):
                continue
            lane = self._lane(self.backend.page_lane(self.gpu, 1, inward=inward))

            begin = None if inward else self.gpu

            def moved(size: int, lane: Lane = lane, begin: int | None = begin) -> float:
                self.backend.bring(buffer, begin)
                return self._waited(lane, lambda: lane.copy(0, address, address, size))

            for size in self._fitting(MANAGED):
                yield _cell((f"{way}{self.gpu}_managed_prefetch", "alone", size), moved, size)

    def _managed_buffer(self, size: int) -> HostBuffer:
        """Managed memory that the CPU has touched: untouched pages would not move."""
        buffer = self.backend.managed(self.gpu, size)
        self.undo.callback(buffer.close)
        buffer.touch()
        return buffer

    def _combined(self) -> Iterator[Cell]:
        """How fast the CPU reads write-combined memory, and what it costs to get some."""

        def allocate(size: int) -> float:
            made: list[HostBuffer] = []
            seconds = timed(lambda: made.append(self.backend.combined(size)))
            made[0].close()
            return seconds

        if not self.backend.emulated:
            yield _cell(("setup", "host_alloc", ALLOCATED), allocate, ALLOCATED)
        buffer = self.backend.combined(READ)
        self.undo.callback(buffer.close)
        buffer.fill(1)

        def read(size: int) -> float:
            words = buffer.array[:size].view(np.uint64)
            return size / timed(lambda: np.bitwise_xor.reduce(words))

        yield _cell(("combined", "read"), read, READ, is_rate=True)

    def _file_ahead(self) -> Iterator[Cell]:
        """Pieces of a cached file: mapped anew each time, so its page faults count."""
        length = min(self.device.size, self.file.stat().st_size)

        @contextlib.contextmanager
        def mapped() -> Iterator[int]:
            made = Mapping(str(self.file), 0, length)
            try:
                yield made.address
            finally:
                made.close()

        yield from self._ahead("register_ahead", length, mapped, read_only=True)

    def _memory_ahead(self) -> Iterator[Cell]:
        """Pieces of ordinary memory that was touched before."""
        length = min(self.device.size, TOUCHED)
        buffer = HostBuffer(length)
        self.undo.callback(buffer.close)
        buffer.touch(TOUCHING)

        @contextlib.contextmanager
        def touched() -> Iterator[int]:
            yield buffer.address

        yield from self._ahead("register_memory", length, touched, read_only=False)

    def _ahead(
        self,
        name: str,
        length: int,
        source: Callable[[], contextlib.AbstractContextManager[int]],
        *,
        read_only: bool,
    ) -> Iterator[Cell]:
        """One thread that registers piece after piece of a source, each before its copy.

        What a registration takes is measured while copies are under way, as they are in a transfer.
        """
        pieces = [p for p in PIECES if 2 * p <= length and length // p <= QUEUED]
        if not pieces:
            return
        lane = self._lane(self.backend.lane(Engine("h2d", self.gpu), QUEUED))

        def registered(piece: int) -> float:
            self.backend.attach(self.gpu)  # other cells of this thread use other GPUs
            held: list[int] = []
            spent = 0.0
            with source() as first:
                try:
                    for slot, at in enumerate(range(0, length - piece + 1, piece)):
                        start = perf_counter()
                        self.backend.register(first + at, piece, read_only=read_only)
                        spent += perf_counter() - start
                        held.append(first + at)
                        lane.copy(slot, self.device.address + at, first + at, piece)
                    for slot in range(len(held)):
                        lane.wait(slot)
                finally:
                    lane.settle()
                    lane.log.clear()
                    for address in held:
                        self.backend.unregister(address)
            return spent / len(held)

        for piece in pieces:
            yield _cell((name, "alone", piece), registered, piece)


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
    seen = {
        (c.key[1], c.key[2]): max(1e-9, c.summary().median - curve.latency)
        for c in cells
        if isinstance(c.key, tuple) and c.key[0] == name and c.taken
    }
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
