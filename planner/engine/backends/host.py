"""The host backend: GPU memory is emulated in RAM, and each copy engine by a thread.

An engine serves its copies one after another, in the order in which they were issued, while the
workers go on: overlap, queueing and the ring are real, only the wire is the memory bus. It is said
wherever a result is shown (`emulated`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Lock, Thread
from time import perf_counter, sleep
from typing import Final, cast

from planner.engine.backends.base import (
    Description,
    DeviceBuffer,
    Engine,
    Lane,
    Name,
    Part,
)
from planner.engine.memory import HostBuffer, copy_memory
from planner.engine.waits import TICK_S

_THREADS: Final = 4
"""Threads that touch emulated memory when it is allocated."""
_Job = tuple["HostLane", int, Sequence[Part]]


class _Server:
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
            for target, source, length in parts:
                copy_memory(target, source, length)
            lane.arrive(slot, start, perf_counter())
            del job, lane, parts

    def close(self) -> None:
        self.queue.put(None)
        self._thread.join()


class HostLane:
    """A lane on an emulated engine; see `backends.base.Lane`.

    A slot's lock is held while its copy is in flight: the engine's thread lets it go.
    """

    __slots__ = (
        "_after",
        "_busy",
        "_flying",
        "_guard",
        "_landed",
        "_put",
        "_then",
        "engine",
        "log",
    )

    def __init__(self, engine: Engine, server: _Server, slots: int) -> None:
        self.engine = engine
        self.log: list[float] = []
        self._put = server.queue.put
        self._flying = [False] * slots
        self._landed = [Lock() for _ in range(slots)]
        self._busy = [False] * slots
        self._after: list[HostLane | None] = [None] * slots
        # What to issue when a slot arrives: the copy of another lane that follows it.
        self._then: list[tuple[HostLane, _Job] | None] = [None] * slots
        self._guard = Lock()

    def copy(self, slot: int, target: int, source: int, length: int) -> None:
        """Queue one copy."""
        self.copy_parts(slot, ((target, source, length),))

    def copy_parts(self, slot: int, parts: Sequence[Part]) -> None:
        """Queue copies; behind another lane's slot where `follow` said so."""
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

    def arrive(self, slot: int, start: float, end: float) -> None:
        """Called by the engine's thread when the slot's bytes are there."""
        self.log.append(start)
        self.log.append(end)
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
            self._flying[slot] = False

    def arrived(self, slot: int) -> None:
        """Block until the slot has arrived, without taking it off the worker's hands."""
        landed = self._landed[slot]
        landed.acquire()
        landed.release()

    def settle(self) -> None:
        """Wait for all slots."""
        for slot in range(len(self._flying)):
            self.wait(slot)

    def close(self) -> None:
        """Nothing to give back."""


def _lock(call: str, address: int, size: int) -> None:
    """mlock(2) or munlock(2); a refusal is no error here."""
    libc = ctypes.CDLL(None)
    getattr(libc, call)(ctypes.c_void_p(address), ctypes.c_size_t(size))


class HostBackend:
    """See `backends.base.Backend`.

    Emulated GPUs have any index; `gpus` only names those that the machine has, for the record.
    """

    name: Final[Name] = "host"
    emulated: Final = True

    def __init__(self) -> None:
        self._servers: dict[tuple[str, int], _Server] = {}
        self._locked: dict[int, int] = {}
        self._guard = Lock()

    def describe(self, gpus: Sequence[int]) -> Description:
        """Names that say what they are."""
        return Description(tuple(f"emulated in RAM (gpu{index})" for index in gpus))

    def lacks(self, strategy: str, across: tuple[str, str], gpus: Sequence[int]) -> str | None:  # noqa: ARG002
        """Nothing that the engine can do is lacking."""
        return None

    def attach(self, gpu: int) -> None:
        """Nothing to do."""

    def free_memory(self, gpu: int) -> int | None:  # noqa: ARG002
        """The emulated memory is the host's: who asks looks there."""
        return None

    def allocate(self, gpu: int, size: int) -> DeviceBuffer:
        """Host memory."""
        memory = HostBuffer(size)
        memory.touch(_THREADS)  # a GPU's memory has no first touch either
        return DeviceBuffer(gpu, memory.address, size, memory)

    def release(self, buffer: DeviceBuffer) -> None:
        """Give it back."""
        if buffer.owner is not None:
            cast("HostBuffer", buffer.owner).close()
            buffer.owner = None

    def register(self, address: int, size: int, *, read_only: bool = False) -> None:  # noqa: ARG002
        """Lock the pages with mlock(2): what registration does first, at a price like its own.

        Host threads reach any memory, so where a limit forbids the lock the copy goes on without.
        """
        with self._guard:
            self._locked[address] = size
        _lock("mlock", address, size)

    def unregister(self, address: int) -> None:
        """Unlock what `register` locked."""
        with self._guard:
            size = self._locked.pop(address, None)
        if size is not None:
            _lock("munlock", address, size)

    def lane(self, engine: Engine, slots: int, *, spin: bool = True) -> HostLane:  # noqa: ARG002
        """A lane; its engine's thread starts with the first."""
        with self._guard:
            server = self._servers.get(engine.server)
            if server is None:
                server = _Server(f"{engine.kind} of emulated gpu{engine.gpu}")
                self._servers[engine.server] = server
        return HostLane(engine, server, slots)

    def open_peer(self, gpu: int, peer: int) -> None:
        """All emulated memory is reachable."""

    def start_clock(self) -> None:
        """There is one clock."""

    def fill(self, buffer: DeviceBuffer, value: int) -> None:
        """Set every byte."""
        ctypes.memset(buffer.address, value, buffer.size)

    def read(self, buffer: DeviceBuffer, offset: int, address: int, length: int) -> None:
        """Copy out."""
        copy_memory(address, buffer.address + offset, length)

    def write(self, buffer: DeviceBuffer, offset: int, address: int, length: int) -> None:
        """Copy in."""
        copy_memory(buffer.address + offset, address, length)

    def compute(self, gpu: int, check: Callable[[], None]) -> Callable[[float], None]:  # noqa: ARG002
        """A timer: emulated work takes its time and no core."""

        def wait(seconds: float) -> None:
            end = perf_counter() + seconds
            while (left := end - perf_counter()) > 0:
                check()
                sleep(min(left, TICK_S))

        return wait

    def close(self) -> None:
        """End the engines' threads."""
        with self._guard:
            servers = list(self._servers.values())
            self._servers.clear()
        for server in servers:
            server.close()
