"""Managed memory on real GPUs: where it lies, how it is moved, and what the driver is advised."""

from __future__ import annotations

from time import perf_counter
from typing import Final

from planner.engine.backends.base import DeviceBuffer
from planner.engine.backends.cuda_driver import HOST, LEGACY
from planner.engine.backends.cuda_lane import CudaLane, Owner
from planner.engine.memory import HostBuffer

_CONCURRENT: Final = 89
"""CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS: the CPU may touch managed memory while the GPU
works."""
_PREFER, _ACCESSED_BY = 3, 5
"""CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_MEM_ADVISE_SET_ACCESSED_BY."""


class CudaManaged:
    """The managed memory of one backend."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._driver = owner.driver
        self._known: dict[int, int] = {}

    def __contains__(self, address: int) -> bool:
        return address in self._known

    def add(self, view: DeviceBuffer) -> None:
        """Managed memory was allocated."""
        self._known[view.address] = view.gpu

    def forget(self, view: DeviceBuffer) -> None:
        """It is about to be freed."""
        self._known.pop(view.address, None)

    def missing(self, gpu: int) -> str | None:
        """Why the device cannot do it."""
        if not self._driver.attribute(_CONCURRENT, gpu):
            return "the device and the CPU cannot use managed memory at the same time"
        return None

    def bring(self, buffer: HostBuffer, gpu: int | None) -> None:
        """Move everything to the device, or to the host, and wait."""
        if not buffer.size:
            return
        self._owner.attach(self._known.get(buffer.address, 0) if gpu is None else gpu)
        to = HOST if gpu is None else gpu
        self._driver.prefetch(buffer.address, buffer.size, to, LEGACY)
        self._driver.wait_stream(LEGACY)

    def keep_on_host(self, buffer: HostBuffer, gpu: int) -> None:
        """Prefer the host, and map it for the device without moving it."""
        self._owner.attach(gpu)
        self._driver.advise(buffer.address, buffer.size, _PREFER, HOST)
        self._driver.advise(buffer.address, buffer.size, _ACCESSED_BY, gpu)


class CudaPageLane(CudaLane):
    """A stream whose copies are prefetches; see `Backend.page_lane`."""

    __slots__ = ()

    def copy(self, slot: int, target: int, source: int, length: int) -> None:  # noqa: ARG002
        """Queue the move of the pages that the bytes at `source` lie in."""
        self._backend.attach(self.engine.gpu)
        self._issued[slot] = perf_counter()
        to = self.engine.gpu if self.engine.kind == "pages_in" else HOST
        self._driver.prefetch(source, length, to, self._ptr)
        self._mark(slot)
