"""The driver's copies of ordinary memory, by size: as runs of the engine, cold and hot.

One thread of the CPU copies, so what is in caches sets the pace, and how awake the memory is. Cold
bytes are those that other bytes have pushed out of all caches, hot ones were just written by the
CPU, behind the same sweep as in a plan. Back to back, copies of cold memory were a fifth slower
than the runs of plans in both directions, and so were hot ones of 0.7 to 3 MB behind a pause
without a sweep (H200 machine, measured 2026-11-29): nobody else kept the memory busy before each.
All that is to be seen of other threads meanwhile is the sweep, so every sample counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

from planner.engine.awake import Waker
from planner.engine.backends.base import DeviceBuffer
from planner.engine.caches import THREADS, enough, sweep
from planner.engine.calibration.bench import Way
from planner.engine.calibration.copies import Walk
from planner.engine.calibration.device import DeviceBench, Memory
from planner.engine.calibration.first import SIZE, First
from planner.engine.calibration.once import FEW_IN_A_ROW, Move, Once
from planner.engine.calibration.rounds import Cell
from planner.engine.pattern import Pattern
from planner.engine.places import DevicePlace, HostPlace
from planner.engine.strategies.host_gpu import INTO_GPU, OUT_OF_GPU
from planner.machine.schema import Machine

WRITTEN: Final = Pattern(3)
"""What hot memory was just written with."""


@dataclass(frozen=True, slots=True)
class Pageable:
    """The copies of one GPU; `through` is memory that may be written between two runs."""

    bench: DeviceBench
    machine: Machine
    gpu: int
    host: Memory
    device: Memory
    through: Memory
    undo: ExitStack

    def cells(self, way: Way, cold: Sequence[int], hot: Sequence[int]) -> Iterator[Cell]:
        """Copies of these sizes one way, and a hot one by a new flow."""
        name = f"{way}_pageable{self.gpu}"
        room = min(self.host.size, self.device.size)
        waker = Waker(self.bench.backend)
        self.undo.callback(waker.close)
        for size in cold:
            if size <= room:
                run = self._run(way, size, waker, self._chilled)
                yield Cell((name, "alone", size), run, THREADS, waits=True)
        for size in hot:
            if size <= room:
                run = self._run(way, size, waker, partial(self._written, size))
                yield Cell((f"{name}_hot", "alone", size), run, THREADS, waits=True)
        inward = way == "h2d"
        walk = Walk(self.device, self.host) if inward else Walk(self.host, self.device)
        size = min(SIZE, room)
        written = partial(self._written, size)
        first = First(self.bench.backend, self.machine, self.gpu, walk, written)
        yield Cell(("idle", name, first.size), first.moved, THREADS, waits=True)

    def _run(self, way: Way, size: int, waker: Waker, before: Callable[[], None]) -> Once:
        host = HostPlace(self.host.owner)
        device = DevicePlace(self.gpu, DeviceBuffer(self.gpu, self.device.address, size))
        if way == "h2d":
            move = Move("pageable", INTO_GPU["pageable"](self.gpu), host, device, size)
        else:
            move = Move("pageable", OUT_OF_GPU["pageable"](self.gpu), device, host, size)
        run = Once(self.bench.backend, self.gpu, move, waker, before, in_a_row=FEW_IN_A_ROW)
        self.undo.callback(run.close)
        return run

    def _chilled(self) -> None:
        sweep(self.through.address, min(self.through.size, enough()))

    def _written(self, size: int) -> None:
        self._chilled()
        WRITTEN.fill(self.host.owner.array[:size], THREADS)
