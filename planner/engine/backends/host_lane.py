"""The lanes of the host backend, and the threads that stand for the engines."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from queue import SimpleQueue
from threading import Lock, Thread
from time import perf_counter
from typing import Any, cast

from planner.engine.backends.base import Engine, Lane, Part, SlotCopy
from planner.engine.backends.host_touch import Find, carry_out
from planner.engine.memory import copy_memory
from planner.engine.touch import Touch

_Job = tuple["HostLane", int, Sequence[Any]]
"""A lane, its slot, and what its engine is to do."""


class Server:
    """One emulated copy engine."""

    def __init__(self, name: str) -> None:
        self.queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            job = self.queue.get()
            if job is None:
                return
            lane, slot, parts = job
            start = perf_counter()
            error: BaseException | None = None
            try:
                lane.serve(parts)
            except BaseException as found:  # noqa: BLE001 - raised to whoever waits for the slot
                error = found
            lane.arrive(slot, start, perf_counter(), error)
            del job, lane, parts, error

    def close(self) -> None:
        """End the thread, behind what is queued."""
        self.queue.put(None)
        self._thread.join()


class HostLane:
    """A lane on an emulated engine; see `backends.base.Lane`.

    A slot's lock is held while its copy is in flight: the engine's thread lets it go.
    """

    __slots__ = (
        "_after",
        "_busy",
        "_failed",
        "_flying",
        "_guard",
        "_landed",
        "_put",
        "_then",
        "engine",
        "log",
    )

    def __init__(self, engine: Engine, server: Server, slots: int) -> None:
        self.engine = engine
        self.log: list[float] = []
        self._put = server.queue.put
        self._flying = [False] * slots
        self._landed = [Lock() for _ in range(slots)]
        self._failed: list[BaseException | None] = [None] * slots
        self._busy = [False] * slots
        self._after: list[HostLane | None] = [None] * slots
        # What to issue when a slot arrives: the copy of another lane that follows it.
        self._then: list[tuple[HostLane, _Job] | None] = [None] * slots
        self._guard = Lock()

    def copy(self, slot: int, target: int, source: int, length: int) -> None:
        """Queue one copy."""
        self.copy_parts(slot, ((target, source, length),))

    def serve(self, parts: Sequence[Any]) -> None:
        """What the engine does of a job; called by its thread."""
        for target, source, length in parts:
            copy_memory(target, source, length)

    def copy_parts(self, slot: int, parts: Sequence[Part]) -> None:
        """Queue copies; behind another lane's slot where `follow` said so."""
        self._queue(slot, parts)

    def copy_slots(self, copies: Sequence[SlotCopy]) -> None:
        """One after another: an emulated engine gains nothing by more at a time."""
        for slot, target, source, length in copies:
            self.copy(slot, target, source, length)

    def _queue(self, slot: int, parts: Sequence[Any]) -> None:
        self._flying[slot] = True
        self._landed[slot].acquire()
        self._busy[slot] = True
        other, self._after[slot] = self._after[slot], None
        job = (self, slot, parts)
        if other is None or not other._defer(slot, (self, job)):  # noqa: SLF001 - its own kind
            self._put(job)

    def _defer(self, slot: int, then: tuple[HostLane, _Job]) -> bool:
        """Have a job issued when the slot arrives; false if it has arrived already."""
        with self._guard:
            if not self._busy[slot]:
                return False
            self._then[slot] = then
            return True

    def arrive(self, slot: int, start: float, end: float, error: BaseException | None) -> None:
        """Called by the engine's thread when the slot's bytes are there, or will not come."""
        self.log.append(start)
        self.log.append(end)
        self._failed[slot] = error
        with self._guard:
            then, self._then[slot] = self._then[slot], None
            self._busy[slot] = False
            self._landed[slot].release()
        if then is not None:
            lane, job = then
            lane._put(job)  # noqa: SLF001 - its own kind

    def copy_now(self, target: int, source: int, length: int) -> None:
        """One copy that the caller waits for."""
        self.copy(0, target, source, length)
        self.wait(0)

    def follow(self, slot: int, other: Lane) -> None:
        """See `Lane.follow`."""
        self._after[slot] = cast("HostLane", other)

    def wait(self, slot: int) -> None:
        """Block until the slot has arrived."""
        if self._flying[slot]:
            landed = self._landed[slot]
            landed.acquire()
            landed.release()
            self._take(slot)

    def _take(self, slot: int) -> None:
        """The slot is the worker's again; raises what its copy failed with."""
        self._flying[slot] = False
        error, self._failed[slot] = self._failed[slot], None
        if error is not None:
            raise error

    def landed(self, slot: int) -> bool:
        """Whether the slot has arrived."""
        if self._flying[slot]:
            landed = self._landed[slot]
            if not landed.acquire(blocking=False):
                return False
            landed.release()
            self._take(slot)
        return True

    def arrived(self, slot: int) -> None:
        """Block until the slot has arrived, without taking it off the worker's hands."""
        landed = self._landed[slot]
        landed.acquire()
        landed.release()

    def settle(self) -> None:
        """Wait for all slots, whatever became of them."""
        for slot in range(len(self._flying)):
            with contextlib.suppress(Exception):
                self.wait(slot)

    def close(self) -> None:
        """Nothing to give back."""


class HostKernelLane(HostLane):
    """Kernels: what they touch of managed memory comes first."""

    __slots__ = ("_find",)

    def __init__(self, engine: Engine, server: Server, slots: int, find: Find) -> None:
        super().__init__(engine, server, slots)
        self._find = find

    def serve(self, parts: Sequence[Any]) -> None:
        """Carry out each pass."""
        for touch in parts:
            carry_out(touch, self._find)

    def touch(self, slot: int, touch: Touch, reads: int = 1) -> None:
        """See `KernelLane.touch`."""
        self._queue(slot, [touch, *[touch._replace(target=0)] * (reads - 1)])


class HostPageLane(HostLane):
    """Moves of managed pages: a chunk's regions go over, those that it shares with the next too."""

    __slots__ = ("_find",)

    def __init__(self, engine: Engine, server: Server, slots: int, find: Find) -> None:
        super().__init__(engine, server, slots)
        self._find = find

    def serve(self, parts: Sequence[Any]) -> None:
        """Move the regions that the bytes lie in."""
        for _, address, length in parts:
            managed = self._find(address)
            if managed is None:
                raise RuntimeError("only managed memory moves by page")
            managed.move_range(address, length, inward=self.engine.kind == "pages_in")
