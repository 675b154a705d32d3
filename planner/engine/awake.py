"""Copies of no meaning that wake caller, engine and link before a sample is timed.

Between two samples bytes are verified and targets made unrecognisable: for milliseconds no engine
copies. What sleeps meanwhile costs the next copy some 50 us on a PCIe link, and a sleeping NVLink
copies at a quarter of its rate for a few hundred us (8.8, 36 and 113 MB took 0.13, 0.36 and 0.35 ms
between two H200s, the last without a pause before it). A steady run is one that follows another, so
its engines are at work until right before it; the first run pays for waking them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from time import perf_counter
from typing import Final

from planner.engine.backends.base import Backend, DeviceBuffer, Engine, Lane
from planner.engine.memory import HostBuffer

SECONDS: Final = 1e-3
"""How long engines are kept at work: a link wakes in some tens of microseconds, NVLink in some
hundred."""
SIZE: Final = 256 << 10
"""Bytes of a copy: enough to go through the copy engine, little for every memory."""
COPIED: Final = ("h2d", "d2h", "peer", "local")
"""Kinds of engines that copy; the others (kernels, pages) reach the host over the link inward."""


class Waker:
    """Scratch memory and a lane for each engine that was ever asked for; one flow's own."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._undo = contextlib.ExitStack()
        self._lanes: dict[Engine, tuple[Lane, int, int]] = {}
        self._buffers: dict[int, DeviceBuffer] = {}
        self._host: HostBuffer | None = None

    def __call__(self, engines: Iterable[Engine], seconds: float = SECONDS) -> None:
        """Keep the engines at work for so long, in the thread that is going to use them."""
        lanes = [self._lane(engine) for engine in dict.fromkeys(map(_copying, engines))]
        end = perf_counter() + seconds
        while lanes and perf_counter() < end:
            for lane, target, source in lanes:
                lane.copy(0, target, source, SIZE)
            for lane, _, _ in lanes:
                lane.wait(0)
                lane.log.clear()

    def _lane(self, engine: Engine) -> tuple[Lane, int, int]:
        """A lane of the engine, and where it copies to and from; any thread may use it."""
        gpu = engine.gpu
        self._backend.attach(gpu)  # each sample has threads of its own
        if engine not in self._lanes:
            lane = self._backend.lane(engine, 1)
            self._undo.callback(lane.close)
            here = self._on(gpu)
            ends = {
                "h2d": lambda: (here, self._in_host()),
                "d2h": lambda: (self._in_host(), here),
                "local": lambda: (here + SIZE, here),
                "peer": lambda: (self._on(gpu if engine.peer is None else engine.peer), here),
            }
            self._lanes[engine] = (lane, *ends[engine.kind]())
        return self._lanes[engine]

    def _on(self, gpu: int) -> int:
        """Address of scratch memory of a GPU, for two copies."""
        if gpu not in self._buffers:
            self._backend.attach(gpu)
            made = self._buffers[gpu] = self._backend.allocate(gpu, 2 * SIZE)
            self._undo.callback(self._backend.release, made)
        return self._buffers[gpu].address

    def _in_host(self) -> int:
        """Address of scratch memory of the host: not registered, so that no budget is touched."""
        if self._host is None:
            self._host = HostBuffer(SIZE)
            self._undo.callback(self._host.close)
            self._host.touch()
        return self._host.address

    def close(self) -> None:
        """Give lanes and memory back."""
        self._undo.close()
        self._lanes.clear()
        self._buffers.clear()
        self._host = None


def _copying(engine: Engine) -> Engine:
    return engine if engine.kind in COPIED else Engine("h2d", engine.gpu)
