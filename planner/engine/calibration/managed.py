"""Managed memory: page faults of first passes, prefetches both ways, and what making it costs.

Each size has a buffer of its own, as a flow has: what is brought back between two runs is what the
run has moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from planner.engine.backends.base import Backend, DeviceBuffer
from planner.engine.calibration.costs import timed
from planner.engine.calibration.device import Memory
from planner.engine.calibration.once import Move
from planner.engine.calibration.rounds import Cell
from planner.engine.ends import THREADS
from planner.engine.in_place import copy_all
from planner.engine.memory import HostBuffer, LentBuffer
from planner.engine.places import DevicePlace, HostPlace
from planner.engine.strategies.in_place import IN_PLACE_IN
from planner.engine.strategies.prefetch import PREFETCH_IN, PREFETCH_OUT
from planner.engine.terms import Terms
from planner.errors import InfeasibleError
from planner.model.touched import Use

MIB: Final = 1 << 20
BLOCK: Final = 2 * MIB
"""Bytes that the driver keeps and moves together."""
REST: Final = 700 << 10
"""Bytes of the last block, which hardly any buffer fills: it is moved in smaller parts, and took 30
us more of a prefetch and 200 of a pass than a line through whole blocks says (two H200 machines,
measured 2026-12-01)."""
SIZES: Final = tuple(n * BLOCK + REST for n in (0, 2, 8, 32, 128))
"""Bytes of managed memory: a part of a block, a few blocks, and many."""
SCATTERED: Final = Use(1 / 8, 1, "random")
"""A pass that comes to every region of every block at once, in no order: with sectors of 32 bytes
each region of 64 KiB has 256 that are touched."""


class Runs(Protocol):
    """Gives the cells of a movement: `back` brings back what the run before moved."""

    def __call__(self, name: str, move: Move, back: Callable[[], object]) -> Iterator[Cell]:
        """A steady run, and for each name one after a pause."""


@dataclass(frozen=True, slots=True)
class Managed:
    """The cells of one GPU; `host` is memory that managed memory may be filled from."""

    backend: Backend
    gpu: int
    host: Memory
    device: Memory
    runs: Runs
    undo: ExitStack

    def cells(self, *, inward: bool, outward: bool) -> Iterator[Cell]:
        """All of them; prefetches only the ways that the device can do."""
        self.backend.compile(self.gpu)
        room = min(self.host.size, self.device.size)
        sizes = [size for size in SIZES if size <= room]
        for size in sizes:
            try:
                buffer = self._buffer(size)
            except InfeasibleError:
                return
            self.undo.callback(buffer.close)
            yield from self._moves(buffer, inward=inward, outward=outward)
        yield from self._made(sizes)

    def _moves(self, buffer: HostBuffer, *, inward: bool, outward: bool) -> Iterator[Cell]:
        gpu, size, name = self.gpu, buffer.size, f"{self.gpu}_managed"
        host, seen = HostPlace(buffer), self.backend.seen_by(gpu, buffer)
        back = partial(self.backend.bring, buffer, None)
        for kind, use in (("fault", Use()), ("scattered", SCATTERED)):
            target = DevicePlace(gpu, DeviceBuffer(gpu, self.device.address, self.device.size))
            stages = IN_PLACE_IN["managed"](gpu)
            faults = Move("managed", stages, host, target, size, terms=Terms(use))
            yield from self.runs(f"h2d{name}_{kind}", faults, back)
        there = DevicePlace(gpu, seen)
        if inward:
            moved = Move("prefetch", PREFETCH_IN["prefetch"](gpu), host, there, size)
            yield from self.runs(f"h2d{name}_prefetch", moved, back)
        if outward:
            moved = Move("prefetch", PREFETCH_OUT["prefetch"](gpu), there, host, size)
            again = partial(self.backend.bring, buffer, gpu)
            yield from self.runs(f"d2h{name}_prefetch", moved, again)

    def _buffer(self, size: int) -> HostBuffer:
        """Managed memory that the CPU has touched: untouched pages would not move."""
        buffer = self.backend.managed(self.gpu, size)
        buffer.touch(THREADS)
        return buffer

    def _made(self, sizes: Sequence[int]) -> Iterator[Cell]:
        """What a flow pays once: making and filling managed memory, or mapping what there is.

        It fills it from ordinary memory, and maps for the GPU what is to stay on the host.
        """

        def touched(size: int) -> float:
            made: list[HostBuffer] = []
            try:
                return timed(lambda: made.append(self._buffer(size)))
            finally:
                for buffer in made:
                    buffer.close()

        def filled(size: int) -> float:
            buffer = self._buffer(size)
            source = LentBuffer(self.host.address, size, lambda: None)
            try:
                return timed(lambda: copy_all(buffer, source))
            finally:
                source.close()
                buffer.close()

        def mapped(size: int) -> float:
            buffer = self._buffer(size)
            try:
                return timed(lambda: self.backend.keep_on_host(buffer, self.gpu))
            finally:
                buffer.close()

        for size in sizes:
            yield Cell(("managed_map", "alone", size), partial(mapped, size), THREADS)
            yield Cell(("managed_touch", "alone", size), partial(touched, size), THREADS)
            yield Cell(("managed_fill", "alone", size), partial(filled, size), THREADS)
