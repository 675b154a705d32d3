"""Memory whose end is its last user's: freed when no view of it is left.

A finaliser may run at any point of any thread, also in the middle of a call into the backend whose
lock it would need. There it only leaves the memory to whoever comes by next.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Final

from planner.engine.backends.base import Backend, DeviceBuffer
from planner.engine.memory import HostBuffer
from planner.engine.serving import dlpack
from planner.errors import InfeasibleError, UnavailableError

REFUSALS: Final = (OSError, RuntimeError, UnavailableError)
"""What a backend raises that takes nothing back: its system, its driver, or a device that is gone.
Nobody hears it in a finaliser, or behind a call that has its answer; the next call is told."""

_here = threading.local()


@contextlib.contextmanager
def in_backend() -> Iterator[None]:
    """Mark that the calling thread may hold the backend's locks."""
    before = getattr(_here, "inside", False)
    _here.inside = True
    try:
        yield
    finally:
        _here.inside = before


class Memory:
    """`size` bytes at `address`, on a DLPack `device`; whoever holds this holds the bytes.

    `gpu` is the index of the GPU, or of the emulated one, that `bank` took them from.
    """

    __slots__ = ("__weakref__", "address", "bank", "device", "gpu", "size")

    def __init__(
        self,
        address: int,
        size: int,
        device: tuple[int, int],
        bank: Bank | None = None,
        gpu: int | None = None,
    ) -> None:
        self.address, self.size, self.device = address, size, device
        self.bank, self.gpu = bank, gpu


def host_memory(size: int) -> tuple[Memory, HostBuffer]:
    """Plain memory of the host, not touched yet."""
    buffer = HostBuffer(size)
    memory = Memory(buffer.address, size, (dlpack.CPU, 0))
    weakref.finalize(memory, buffer.close).atexit = False
    return memory, buffer


class Bank:
    """The device memory of one backend, which stays open until the last of it was given back."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._guard = threading.RLock()
        self._left: deque[DeviceBuffer] = deque()
        self._live = 0
        self._retired = False
        self._process = os.getpid()

    def allocate(self, gpu: int, size: int) -> Memory:
        """Memory of a GPU (of its emulation: the host's); raises `InfeasibleError`."""
        self.tidy()
        with in_backend():
            try:
                buffer = self.backend.allocate(gpu, size)
            except InfeasibleError:
                if not self.tidy():
                    raise
                buffer = self.backend.allocate(gpu, size)
        with self._guard:
            self._live += 1
        device = (dlpack.CPU, 0) if self.backend.emulated else (dlpack.CUDA, gpu)
        memory = Memory(buffer.address, size, device, self, gpu)
        # The process's end gives everything back by itself.
        weakref.finalize(memory, self._give_back, buffer).atexit = False
        return memory

    def _give_back(self, buffer: DeviceBuffer) -> None:
        if os.getpid() != self._process:  # forked: it is the parent's, and so is the driver
            return
        self._left.append(buffer)
        if not getattr(_here, "inside", False):
            self.tidy()

    @property
    def live(self) -> int:
        """How many pieces of memory are still used."""
        return self._live

    def tidy(self) -> int:
        """Free what finalisers left; returns how many buffers that were.

        A driver that refuses has lost its context, and all memory of it: the next call tells that.
        """
        freed = 0
        while True:
            try:
                buffer = self._left.popleft()
            except IndexError:
                break
            with contextlib.suppress(*REFUSALS), self.quietly():
                self.backend.release(buffer)
            freed += 1
            with self._guard:
                self._live -= 1
        self._close_if_empty()
        return freed

    @contextlib.contextmanager
    def quietly(self) -> Iterator[None]:
        """Call the backend from any thread, whose current device stays what it was."""
        with in_backend(), contextlib.ExitStack() as undo:
            if not self.backend.emulated:
                from planner.engine.backends.cuda_foreign import kept_device

                undo.enter_context(kept_device())
            yield

    def retire(self) -> None:
        """Allocate no more: close the backend now, or with the last memory that is still used."""
        self._retired = True
        self.tidy()

    def _close_if_empty(self) -> None:
        with self._guard:
            if not self._retired or self._live:
                return
            self._retired = False
        # A finaliser may be here, in any thread: there is nobody to tell.
        with contextlib.suppress(*REFUSALS), self.quietly():
            self.backend.close()
