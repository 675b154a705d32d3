"""The cuda backend: CuPy's runtime calls; its lanes stand in `cuda_lane`.

Device memory comes from plain `cudaMalloc`: memory of a pool would ignore peer access.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, Final

from planner.engine.backends.base import Description, DeviceBuffer, Engine, Name
from planner.engine.backends.cuda_kernels import CudaKernelLane, Kernels
from planner.engine.backends.cuda_lane import KIND, CudaLane
from planner.engine.backends.cuda_managed import CudaManaged, CudaPageLane
from planner.engine.backends.cuda_peer import Peers
from planner.engine.backends.cuda_quick import quick_calls
from planner.engine.backends.cuda_spin import spinner
from planner.engine.backends.cuda_storage import CudaStorage, no_storage
from planner.engine.backends.managed_limit import require_managed
from planner.engine.memory import HostBuffer, LentBuffer
from planner.errors import InfeasibleError, UnavailableError
from planner.machine.discover_gpus import numa_of

_PORTABLE_MAPPED: Final = 1 | 2
"""cudaHostRegisterPortable | cudaHostRegisterMapped: every context may use the memory."""
_READ_ONLY: Final = 8
"""cudaHostRegisterReadOnly."""
_ATTR_READ_ONLY: Final = 113
"""cudaDevAttrHostRegisterReadOnlySupported."""
_COMBINED: Final = 4
"""cudaHostAllocWriteCombined."""
_ATTR_MAPS_HOST: Final = 19
"""cudaDevAttrCanMapHostMemory."""
_OUT_OF_MEMORY: Final = 2


def missing() -> str | None:
    """What this computer lacks for the backend, or `None`.

    The driver's library is looked for first: importing CuPy takes most of a second.
    """
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "the NVIDIA driver's library libcuda.so.1 is not installed"
    try:
        import cupy
    except ImportError as error:
        return f"CuPy cannot be imported ({error}); install the extra cuda12 or cuda13"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"the driver shows no device: {error}"
    return None if count else "the driver shows no device"


class CudaBackend:
    """See `backends.base.Backend`.

    Raises
    ------
    UnavailableError
        If the library or a device is missing; the message says which.

    """

    name: Final[Name] = "cuda"
    emulated: Final = False

    def __init__(self) -> None:
        reason = missing()
        if reason is not None:
            raise UnavailableError(
                f"the cuda backend cannot run here: {reason}",
                hint="--backend host emulates the GPU in RAM",
            )
        # More streams than the driver has queues would wait for each other: it makes 8 unless told
        # before the first context exists, and there is a stream for each worker.
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
        import cupy

        self.cupy: Any = cupy
        self._rt: Any = cupy.cuda.runtime
        self._clock: dict[int, tuple[Any, int, float]] = {}
        self._peers = Peers(self)
        self._managed = CudaManaged(self)
        self._kernels: dict[int, Kernels] = {}
        self._attached: set[int] = set()
        self._registered: set[int] = set()
        self._allocated: dict[int, int] = {}
        self._given: set[int] = set()
        self._guard = Lock()

    def describe(self, gpus: Sequence[int]) -> Description:
        """Names of the devices that are there, the CUDA versions, CuPy's version."""
        names = []
        count = self._rt.getDeviceCount()
        for gpu in (index for index in gpus if index < count):
            name = self._rt.getDeviceProperties(gpu)["name"]
            names.append(name.decode() if isinstance(name, bytes) else str(name))
        libraries = {
            "cupy": str(self.cupy.__version__),
            "cuda_runtime": str(self._rt.runtimeGetVersion()),
        }
        return Description(tuple(names), f"CUDA {self._rt.driverGetVersion()}", libraries)

    def lacks(self, strategy: str, across: tuple[str, str], gpus: Sequence[int]) -> str | None:
        """Why the devices cannot do it."""
        count = self._rt.getDeviceCount()
        absent = [gpu for gpu in gpus if gpu >= count]
        if absent:
            return f"there is no device {absent[0]}; the driver shows {count}"
        first = gpus[0] if gpus else 0
        if strategy == "mmap" and not self._read_only_maps(first):
            return "the device cannot register read-only file mappings"
        if strategy == "peer" and across == ("hbm", "hbm"):
            return self._peers.missing(gpus)
        if strategy == "zero_copy" and not self._rt.deviceGetAttribute(_ATTR_MAPS_HOST, first):
            return "the device cannot map host memory"
        if strategy in ("managed", "prefetch", "managed_host"):
            to_host = strategy == "managed_host" or across == ("hbm", "ram")
            return self._managed.missing(first, to_host=to_host)
        return no_storage() if strategy == "gds" else None

    def _read_only_maps(self, gpu: int) -> bool:
        return bool(self._rt.deviceGetAttribute(_ATTR_READ_ONLY, gpu))

    def attach(self, gpu: int) -> None:
        """Make the device current in the calling thread; the first time makes its context."""
        self._rt.setDevice(gpu)
        self._attached.add(gpu)

    def free_memory(self, gpu: int) -> int | None:
        """Bytes that the driver says are free."""
        self.attach(gpu)
        return int(self._rt.memGetInfo()[0])

    def allocate(self, gpu: int, size: int) -> DeviceBuffer:
        """`cudaMalloc`; raises `InfeasibleError` where the device has not that much left."""
        self.attach(gpu)
        try:
            address = int(self._rt.malloc(max(size, 1)))
        except self._rt.CUDARuntimeError as error:
            if error.status != _OUT_OF_MEMORY:
                raise
            free = self.free_memory(gpu)
            raise InfeasibleError(f"device {gpu} has {free} bytes free, not {size}") from error
        with self._guard:
            self._allocated[address] = gpu
        return DeviceBuffer(gpu, address, size)

    def release(self, buffer: DeviceBuffer) -> None:
        """`cudaFree`, once."""
        with self._guard:
            known = self._allocated.pop(buffer.address, None)
        if known is not None:
            self.attach(known)
            self._rt.free(buffer.address)

    def register(self, address: int, size: int, *, read_only: bool = False) -> None:
        """`cudaHostRegister`."""
        flags = _READ_ONLY if read_only else _PORTABLE_MAPPED
        self._rt.hostRegister(address, size, flags)
        with self._guard:
            self._registered.add(address)

    def unregister(self, address: int) -> None:
        """`cudaHostUnregister`, once."""
        with self._guard:
            if address not in self._registered:
                return
            self._registered.discard(address)
        self._rt.hostUnregister(address)

    def lane(
        self, engine: Engine, slots: int, *, spin: bool = True, timed: bool = True
    ) -> CudaLane:
        """A stream on the engine's device."""
        if timed:
            self._require_clock(engine.gpu)
        return CudaLane(self, engine, slots, spin=spin, timed=timed)

    def _require_clock(self, gpu: int) -> None:
        if gpu not in self._clock:
            with self._guard:
                self._tie(gpu)

    def kernel_lane(self, gpu: int, slots: int, *, spin: bool = True) -> CudaKernelLane:
        """A stream of kernels on the device."""
        self._require_clock(gpu)
        self.compile(gpu)
        return CudaKernelLane(self, self._kernels[gpu], Engine("kernel", gpu), slots, spin=spin)

    def page_lane(self, gpu: int, slots: int, *, inward: bool, spin: bool = True) -> CudaPageLane:
        """A stream of prefetches."""
        self._require_clock(gpu)
        engine = Engine("pages_in" if inward else "pages_out", gpu)
        return CudaPageLane(self, self._managed, engine, slots, spin=spin)

    def compile(self, gpu: int) -> None:
        """Compile the kernels for the device, once."""
        with self._guard:
            if gpu not in self._kernels:
                self.attach(gpu)
                self._kernels[gpu] = Kernels(self.cupy)

    def combined(self, size: int) -> LentBuffer:
        """`cudaHostAlloc`, write-combined; the driver has touched and pinned it."""
        address = int(self._rt.hostAlloc(max(size, 1), _PORTABLE_MAPPED | _COMBINED))
        with self._guard:
            self._given.add(address)
        return LentBuffer(address, size, lambda: self._take_back(address))

    def _take_back(self, address: int) -> None:
        with self._guard:
            known = address in self._given
            self._given.discard(address)
        if known:
            self._rt.freeHost(address)

    def managed(self, gpu: int, size: int) -> LentBuffer:
        """`cudaMallocManaged`, untouched."""
        require_managed(gpu, size, self.free_memory(gpu))
        address = int(self._rt.mallocManaged(max(size, 1)))
        with self._guard:
            self._allocated[address] = gpu
        view = DeviceBuffer(gpu, address, size)
        self._managed.add(view)
        buffer = LentBuffer(address, size, lambda: self._free_managed(view))
        buffer.managed = True
        return buffer

    def _free_managed(self, view: DeviceBuffer) -> None:
        self._managed.forget(view)
        self.release(view)

    def seen_by(self, gpu: int, buffer: HostBuffer) -> DeviceBuffer:
        """The same addresses."""
        return DeviceBuffer(gpu, buffer.address, buffer.size)

    def bring(self, buffer: HostBuffer, gpu: int | None) -> None:
        """Prefetch it, or touch it with the CPU where the host cannot be named."""
        self._managed.bring(buffer, gpu)

    def keep_on_host(self, buffer: HostBuffer, gpu: int) -> None:
        """`cudaMemAdvise`: prefer the host, mapped by the device."""
        self._managed.keep_on_host(buffer, gpu)

    def storage(self, path: str, *, writes: bool = False) -> CudaStorage:
        """A file of KvikIO."""
        return CudaStorage(self.cupy, path, writes=writes)

    def open_peer(self, gpu: int, peer: int) -> None:
        """Enable peer access both ways, and remember what to undo."""
        self._peers.open(gpu, peer)

    def close_peer(self, gpu: int, peer: int) -> None:
        """Disable what was enabled between the two."""
        self._peers.close_between(gpu, peer)

    def peer_is_open(self, gpu: int, peer: int) -> bool:
        """Whether either device reaches the other."""
        return self._peers.is_open(gpu, peer)

    def numa_node(self, gpu: int) -> int | None:
        """What the kernel says of the device's PCI address."""
        bus = self._rt.deviceGetPCIBusId(gpu)
        address = bus.decode() if isinstance(bus, bytes) else str(bus)
        return numa_of(Path("/"), address.lower())

    def start_clock(self) -> None:
        """Record a reference event on each device in use, and the host's clock with it."""
        for gpu in sorted(self._attached):
            self._tie(gpu)

    def _tie(self, gpu: int) -> None:
        """Record the device's reference event; it happened half way between issue and answer."""
        self.attach(gpu)
        event = self.cupy.cuda.Event()
        before = perf_counter()
        event.record(self.cupy.cuda.Stream.null)
        event.synchronize()
        self._clock[gpu] = (event, event.ptr, (before + perf_counter()) / 2)

    def when(self, gpu: int, event: int) -> float:
        """The instant on the host's clock at which an event of the device happened."""
        _, base, seconds = self._clock[gpu]
        return seconds + quick_calls().elapsed(base, event)

    def fill(self, buffer: DeviceBuffer, value: int) -> None:
        """`cudaMemset`, waited for; managed memory is its own source, and keeps its bytes."""
        if buffer.address in self._managed:
            return
        self.attach(buffer.gpu)
        self._rt.memset(buffer.address, value, buffer.size)
        self._rt.deviceSynchronize()

    def read(self, buffer: DeviceBuffer, offset: int, address: int, length: int) -> None:
        """Blocking copy out; never timed."""
        self.attach(buffer.gpu)
        self._rt.memcpy(address, buffer.address + offset, length, KIND["d2h"])

    def write(self, buffer: DeviceBuffer, offset: int, address: int, length: int) -> None:
        """Blocking copy in; never timed."""
        self.attach(buffer.gpu)
        self._rt.memcpy(buffer.address + offset, address, length, KIND["h2d"])
        self._rt.streamSynchronize(0)

    def compute(self, gpu: int, check: Callable[[], None]) -> Callable[[float], None]:
        """A kernel that spins on the device's clock."""
        self.attach(gpu)
        return spinner(self.cupy, check)

    def close(self) -> None:
        """Disable what was enabled, unregister and free what is left."""
        self._peers.close()
        for address in list(self._registered):
            self.unregister(address)
        for address, gpu in list(self._allocated.items()):
            self.release(DeviceBuffer(gpu, address, 0))
        for address in list(self._given):
            self._take_back(address)
        self._kernels.clear()
        self._clock.clear()
