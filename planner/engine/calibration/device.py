"""The bench of a calibration on a backend: the same lanes and calls that a transfer uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

from planner.engine.backends.base import Backend, DeviceBuffer, Engine, Lane
from planner.engine.calibration.copies import BATCH
from planner.engine.memory import HostBuffer

THREADS: Final = 8
"""Threads that touch memory before anything is timed, at most."""


@dataclass(eq=False)
class Memory:
    """A stretch of memory of any kind; `gpu` is -1 in host memory."""

    size: int
    address: int
    view: memoryview | None
    gpu: int = -1
    pinned: bool = False
    owner: Any = None


class DeviceBench:
    """See `bench.Bench`."""

    def __init__(self, backend: Backend, threads: int = THREADS) -> None:
        self.backend = backend
        self.threads = threads
        self.emulated = backend.emulated
        self._lanes: dict[Engine, Lane] = {}
        self._blocks: list[Memory] = []
        backend.start_clock()

    def pinned(self, size: int) -> Memory:
        """Page-locked host memory."""
        block = self.pageable(size)
        self.backend.register(block.address, size)
        block.pinned = True
        return block

    def pageable(self, size: int) -> Memory:
        """Ordinary host memory, touched."""
        buffer = HostBuffer(size)
        buffer.touch(self.threads)
        block = Memory(size, buffer.address, buffer.view, owner=buffer)
        self._blocks.append(block)
        return block

    def device(self, gpu: int, size: int) -> Memory:
        """Memory of a GPU."""
        self.backend.attach(gpu)
        buffer = self.backend.allocate(gpu, size)
        self.backend.fill(buffer, 1)
        view = buffer.owner.view if isinstance(buffer.owner, HostBuffer) else None
        block = Memory(size, buffer.address, view, gpu=gpu, owner=buffer)
        self._blocks.append(block)
        return block

    def release(self, block: Any) -> None:
        """Give memory back."""
        self._blocks.remove(block)
        if block.pinned:
            self.backend.unregister(block.address)
        if isinstance(block.owner, DeviceBuffer):
            self.backend.release(block.owner)
        elif block.owner is not None:
            block.view = None
            block.owner.close()

    def copies(self, gpu: int, pairs: Sequence[tuple[Any, int, Any, int]], size: int) -> float:
        """Seconds from before the first issue to after the last arrival."""
        target, source = pairs[0][0], pairs[0][2]
        lane = self._lane(gpu, target, source)
        host = target if target.gpu < 0 else source
        ordinary = host.gpu < 0 and not host.pinned
        addresses = _places(pairs)
        start = perf_counter()
        if ordinary:
            for to, origin in addresses:
                lane.copy_now(to, origin, size)
        else:
            _queued(lane, addresses, size)
        end = perf_counter()
        lane.log.clear()
        return end - start

    def spaced(self, gpu: int, pairs: Sequence[tuple[Any, int, Any, int]], size: int) -> float:
        """Seconds from the first arrival to the last; all are issued before any is waited for."""
        lane = self._lane(gpu, pairs[0][0], pairs[0][2])
        _queued(lane, _places(pairs), size)
        ends = lane.log[1::2]
        lane.log.clear()
        return ends[-1] - ends[0]

    def queue(
        self, gpu: int, pairs: Sequence[tuple[Any, int, Any, int]], size: int, slot: int
    ) -> None:
        """Issue copies of page-locked memory as one batch, and go on at once."""
        lane = self._lane(gpu, pairs[0][0], pairs[0][2])
        lane.copy_parts(slot, [(to, origin, size) for to, origin in _places(pairs)])

    def arrived(self, gpu: int, pair: tuple[Any, int, Any, int], slot: int) -> None:
        """Wait for a batch, if it is under way."""
        lane = self._lane(gpu, pair[0], pair[2])
        lane.wait(slot)
        lane.log.clear()

    def issue(self, gpu: int, pairs: Sequence[tuple[Any, int, Any, int]], size: int) -> float:
        """Seconds that issuing each copy takes its caller."""
        lane = self._lane(gpu, pairs[0][0], pairs[0][2])
        parts = [(to, origin, size) for to, origin in _places(pairs)]
        start = perf_counter()
        lane.copy_parts(0, parts)
        end = perf_counter()
        lane.wait(0)
        lane.log.clear()
        return (end - start) / len(parts)

    def _lane(self, gpu: int, target: Memory, source: Memory) -> Lane:
        """The lane for a pair of blocks, made when it is first needed; any thread may use it."""
        engine = engine_for(gpu, target, source)
        self.backend.attach(engine.gpu)
        if engine not in self._lanes:
            self._lanes[engine] = self.backend.lane(engine, BATCH)
        return self._lanes[engine]

    def close(self) -> None:
        """Give everything back."""
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()
        for block in list(self._blocks):
            self.release(block)


def _places(pairs: Sequence[tuple[Any, int, Any, int]]) -> list[tuple[int, int]]:
    """Where each copy goes to and comes from."""
    return [(target.address + i, source.address + j) for target, i, source, j in pairs]


def _queued(lane: Lane, places: Sequence[tuple[int, int]], size: int) -> None:
    """Issue all copies, each in a slot of its own, and wait until all have arrived."""
    for slot, (to, origin) in enumerate(places):
        lane.copy(slot, to, origin, size)
    for slot in range(len(places)):
        lane.wait(slot)


def engine_for(gpu: int, target: Memory, source: Memory) -> Engine:
    """The copy engine between two blocks."""
    if source.gpu < 0:
        return Engine("h2d", gpu)
    if target.gpu < 0:
        return Engine("d2h", gpu)
    if source.gpu == target.gpu:
        return Engine("local", source.gpu)
    return Engine("peer", source.gpu, target.gpu)
