"""The host backend: GPU memory is emulated in RAM, and each copy engine by a thread.

An engine serves its copies one after another, in the order in which they were issued, while the
workers go on: overlap, queueing and the ring are real, only the wire is the memory bus. It is said
wherever a result is shown (`emulated`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from threading import Lock
from time import perf_counter, sleep
from typing import Final, cast

from planner.engine.backends.base import Description, DeviceBuffer, Engine, Name
from planner.engine.backends.host_lane import HostKernelLane, HostLane, HostPageLane, Server
from planner.engine.backends.host_managed import Managed
from planner.engine.backends.host_storage import HostStorage
from planner.engine.backends.managed_limit import require_managed
from planner.engine.memory import HostBuffer, copy_memory
from planner.engine.waits import TICK_S

_THREADS: Final = 4
"""Threads that touch emulated memory when it is allocated."""


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
        self._servers: dict[tuple[str, int], Server] = {}
        self._locked: dict[int, int] = {}
        self._managed: dict[int, Managed] = {}
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

    def lane(
        self,
        engine: Engine,
        slots: int,
        *,
        spin: bool = True,  # noqa: ARG002
        timed: bool = True,  # noqa: ARG002 - the engine's thread looks at the clock anyway
    ) -> HostLane:
        """A lane; its engine's thread starts with the first."""
        return HostLane(engine, self._server(engine), slots)

    def _server(self, engine: Engine) -> Server:
        with self._guard:
            server = self._servers.get(engine.server)
            if server is None:
                server = Server(f"{engine.kind} of emulated gpu{engine.gpu}")
                self._servers[engine.server] = server
            return server

    def kernel_lane(self, gpu: int, slots: int, *, spin: bool = True) -> HostKernelLane:  # noqa: ARG002
        """Kernels of one GPU run one after another."""
        engine = Engine("kernel", gpu)
        return HostKernelLane(engine, self._server(engine), slots, self._managed_at)

    def page_lane(self, gpu: int, slots: int, *, inward: bool, spin: bool = True) -> HostPageLane:  # noqa: ARG002
        """Moves of managed memory."""
        engine = Engine("pages_in" if inward else "pages_out", gpu)
        return HostPageLane(engine, self._server(engine), slots, self._managed_at)

    def compile(self, gpu: int) -> None:
        """Nothing to compile."""

    def combined(self, size: int) -> HostBuffer:
        """Ordinary memory: whoever asks how fast the CPU reads it is told the truth."""
        return HostBuffer(size)

    def managed(self, gpu: int, size: int) -> Managed:
        """Memory with two sides."""
        require_managed(gpu, size, self.free_memory(gpu))
        found = Managed(size, self._forget)
        with self._guard:
            self._managed[found.address] = found
        return found

    def _forget(self, address: int) -> None:
        with self._guard:
            self._managed.pop(address, None)

    def _managed_at(self, address: int) -> Managed | None:
        with self._guard:
            found = list(self._managed.values())
        return next((m for m in found if m.address <= address < m.address + max(m.size, 1)), None)

    def seen_by(self, gpu: int, buffer: HostBuffer) -> DeviceBuffer:
        """The GPU's side."""
        return DeviceBuffer(gpu, cast("Managed", buffer).away.address, buffer.size)

    def bring(self, buffer: HostBuffer, gpu: int | None) -> None:
        """Copy what lies on the other side."""
        cast("Managed", buffer).move(None, inward=gpu is not None)

    def keep_on_host(self, buffer: HostBuffer, gpu: int) -> None:  # noqa: ARG002
        """Nothing of it faults any more."""
        cast("Managed", buffer).stays = True

    def storage(self, path: str, *, writes: bool = False) -> HostStorage:
        """A file."""
        return HostStorage(path, writes=writes)

    def open_peer(self, gpu: int, peer: int) -> None:
        """All emulated memory is reachable."""

    def close_peer(self, gpu: int, peer: int) -> None:
        """And stays so."""

    def peer_is_open(self, gpu: int, peer: int) -> bool:  # noqa: ARG002
        """There is no such access to be on or off."""
        return False

    def numa_node(self, gpu: int) -> int | None:  # noqa: ARG002
        """Emulated memory lies wherever its pages are."""
        return None

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
