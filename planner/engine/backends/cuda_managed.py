"""Managed memory on real GPUs: where it lies, how it is moved, and what the driver is advised.

CuPy for CUDA 13 names only devices as a location. To name the host its wheels need cuda-bindings,
of the same major version.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, Final

from planner.engine.backends.base import DeviceBuffer, Engine
from planner.engine.backends.cuda_lane import CudaLane, Owner
from planner.engine.memory import PAGE, HostBuffer

_CONCURRENT: Final = 89
"""cudaDevAttrConcurrentManagedAccess: the CPU may touch managed memory while the GPU works."""
_PREFER, _ACCESSED_BY = 3, 5
"""cudaMemAdviseSetPreferredLocation, cudaMemAdviseSetAccessedBy."""
_CPU: Final = -1
"""cudaCpuDeviceId, before CUDA 13."""


class Host:
    """The host as a location of managed memory, as far as the installed libraries can name it."""

    def __init__(self, cupy: Any) -> None:
        self._rt = cupy.cuda.runtime
        self.major = int(cupy.cuda.driver.get_build_version()) // 1000
        self.missing = self._find() if self.major >= 13 else None

    def _find(self) -> str | None:
        """Load cuda-bindings; returns why it cannot be used."""
        wanted = (
            f"CuPy for CUDA {self.major} cannot name the host: "
            f"install the extra bindings{self.major}, cuda-bindings"
        )
        try:
            import cuda.bindings
            from cuda.bindings import runtime
        except ImportError:
            return f"{wanted} {self.major}"
        if int(cuda.bindings.__version__.split(".")[0]) != self.major:
            return f"{wanted} {self.major}, not {cuda.bindings.__version__}"
        self._bindings: Any = runtime
        self._location = runtime.cudaMemLocation()
        self._location.type = runtime.cudaMemLocationType.cudaMemLocationTypeHost
        self._location.id = 0
        return None

    def prefetch(self, address: int, size: int, stream: int) -> None:
        """Queue the move of these bytes to the host."""
        if self.major < 13:
            self._rt.memPrefetchAsync(address, size, _CPU, stream)
        else:
            call = self._bindings.cudaMemPrefetchAsync
            self._checked(call(address, size, self._location, 0, stream))

    def prefer(self, address: int, size: int) -> None:
        """Advise that these bytes should stay on the host."""
        if self.major < 13:
            self._rt.memAdvise(address, size, _PREFER, _CPU)
        else:
            advice = self._bindings.cudaMemoryAdvise.cudaMemAdviseSetPreferredLocation
            self._checked(self._bindings.cudaMemAdvise(address, size, advice, self._location))

    def _checked(self, answer: tuple[Any, ...]) -> None:
        """Raise CuPy's error for what a call of cuda-bindings returned."""
        if int(answer[0]) != 0:
            raise self._rt.CUDARuntimeError(int(answer[0]))


class CudaManaged:
    """The managed memory of one backend."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._rt = owner.cupy.cuda.runtime
        self._host: Host | None = None
        self._known: set[int] = set()

    @property
    def host(self) -> Host:
        """The host as a location."""
        self._host = self._host or Host(self._owner.cupy)
        return self._host

    def __contains__(self, address: int) -> bool:
        return address in self._known

    def add(self, view: DeviceBuffer) -> None:
        """Managed memory was allocated."""
        self._known.add(view.address)

    def forget(self, view: DeviceBuffer) -> None:
        """It is about to be freed."""
        self._known.discard(view.address)

    def missing(self, gpu: int, *, to_host: bool) -> str | None:
        """Why the device, or the libraries, cannot do it."""
        if not self._rt.deviceGetAttribute(_CONCURRENT, gpu):
            return "the device and the CPU cannot use managed memory at the same time"
        return self.host.missing if to_host else None

    def bring(self, buffer: HostBuffer, gpu: int | None) -> None:
        """Move everything to the device, or to the host, and wait."""
        if not buffer.size:
            return
        if gpu is not None:
            self._owner.attach(gpu)
            self._rt.memPrefetchAsync(buffer.address, buffer.size, gpu, 0)
        elif self.host.missing is None:
            self.host.prefetch(buffer.address, buffer.size, 0)
        else:
            int(buffer.array[::PAGE].max())  # the CPU's page faults bring it back, too
        self._rt.streamSynchronize(0)

    def keep_on_host(self, buffer: HostBuffer, gpu: int) -> None:
        """Prefer the host, and map it for the device without moving it."""
        self._owner.attach(gpu)
        self.host.prefer(buffer.address, buffer.size)
        self._rt.memAdvise(buffer.address, buffer.size, _ACCESSED_BY, gpu)


class CudaPageLane(CudaLane):
    """A stream whose copies are prefetches; see `Backend.page_lane`."""

    __slots__ = ("_managed",)

    def __init__(
        self, owner: Owner, managed: CudaManaged, engine: Engine, slots: int, *, spin: bool
    ) -> None:
        super().__init__(owner, engine, slots, spin=spin)
        self._managed = managed

    def copy(self, slot: int, target: int, source: int, length: int) -> None:  # noqa: ARG002
        """Queue the move of the pages that the bytes at `source` lie in."""
        self._backend.attach(self.engine.gpu)
        self._issued[slot] = perf_counter()
        if self.engine.kind == "pages_in":
            self._rt.memPrefetchAsync(source, length, self.engine.gpu, self._ptr)
        else:
            self._managed.host.prefetch(source, length, self._ptr)
        self._mark(slot)
