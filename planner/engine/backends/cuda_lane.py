"""A lane of the cuda backend: one stream, and one event a slot.

What is called for each chunk keeps the interpreter's lock while it is short, and lets other threads
run where it waits (`cuda_quick`). Nothing synchronises a device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Final, Protocol

from planner.engine.backends.base import Engine, Lane, Part
from planner.engine.backends.cuda_quick import quick_calls

KIND: Final = {"h2d": 1, "d2h": 2, "local": 3}
"""cudaMemcpyKind."""


class Owner(Protocol):
    """What a lane needs of its backend."""

    cupy: Any

    def attach(self, gpu: int) -> None:
        """Make the device current in the calling thread."""

    def when(self, gpu: int, event: int) -> float:
        """The instant on the host's clock at which an event of the device happened."""


class CudaLane:
    """A stream with an event for each slot; see `backends.base.Lane`."""

    __slots__ = (
        "_backend",
        "_events",
        "_flying",
        "_holders",
        "_issued",
        "_kind",
        "_ptr",
        "_quick",
        "_rt",
        "_stream",
        "_timed",
        "engine",
        "log",
    )

    def __init__(
        self, backend: Owner, engine: Engine, slots: int, *, spin: bool, timed: bool = True
    ) -> None:
        cupy = backend.cupy
        backend.attach(engine.gpu)
        self._backend = backend
        self._rt = cupy.cuda.runtime
        self._quick = quick_calls()
        self.engine = engine
        self.log: list[float] = []
        self._kind = KIND.get(engine.kind, 0)
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._ptr = self._stream.ptr
        # An event that blocks lets the core go while it waits, and answers some 20 us later.
        self._timed = timed
        self._holders = [
            cupy.cuda.Event(block=not spin, disable_timing=not timed) for _ in range(slots)
        ]
        self._events = [event.ptr for event in self._holders]
        self._flying = [False] * slots
        self._issued = [0.0] * slots
        # What the driver makes on first use belongs to the setup, not to the first copy.
        for event in self._events:
            self._quick.record(event, self._ptr)
        self._rt.streamSynchronize(self._ptr)

    def copy(self, slot: int, target: int, source: int, length: int) -> None:
        """Queue one copy."""
        self._issued[slot] = perf_counter()
        self._enqueue(target, source, length)
        self._quick.record(self._events[slot], self._ptr)
        self._flying[slot] = True

    def copy_parts(self, slot: int, parts: Sequence[Part]) -> None:
        """Queue several copies behind one event."""
        self._issued[slot] = perf_counter()
        for target, source, length in parts:
            self._enqueue(target, source, length)
        self._quick.record(self._events[slot], self._ptr)
        self._flying[slot] = True

    def _enqueue(self, target: int, source: int, length: int) -> None:
        if self.engine.kind == "peer":
            peer, gpu = self.engine.peer, self.engine.gpu
            self._rt.memcpyPeerAsync(target, peer, source, gpu, length, self._ptr)
        else:
            self._quick.copy(target, source, length, self._ptr)

    def copy_now(self, target: int, source: int, length: int) -> None:
        """The driver's copy of ordinary memory.

        Small copies may return before the bytes are there, so the legacy stream that they ran in
        is waited for.
        """
        self._backend.attach(self.engine.gpu)
        start = perf_counter()
        self._rt.memcpy(target, source, length, self._kind)
        self._rt.streamSynchronize(0)
        self.log.append(start)
        self.log.append(perf_counter())

    def follow(self, slot: int, other: Lane) -> None:
        """Let the stream wait for the same slot of the other lane, on the GPU's side."""
        self._rt.streamWaitEvent(self._ptr, other._events[slot])  # type: ignore[attr-defined] # noqa: SLF001

    def wait(self, slot: int) -> None:
        """Block until the slot has arrived, and log when."""
        if self._flying[slot]:
            self._quick.wait(self._events[slot])
            self._flying[slot] = False
            if self._timed:
                self.log.append(self._issued[slot])
                self.log.append(self._backend.when(self.engine.gpu, self._events[slot]))

    def arrived(self, slot: int) -> None:
        """Block until the slot's copy has arrived, without taking it off the worker's hands."""
        self._rt.eventSynchronize(self._events[slot])

    def settle(self) -> None:
        """Wait for everything, whatever became of it."""
        with contextlib.suppress(self._rt.CUDARuntimeError):
            self._rt.streamSynchronize(self._ptr)
        self._flying = [False] * len(self._flying)

    def close(self) -> None:
        """Give stream and events back."""
        self.settle()
        self._holders.clear()
        self._events.clear()
        self._stream = None
