"""The cuda backend: calls of the CUDA driver; its lanes stand in `cuda_lane`.

Device memory comes from plain `cuMemAlloc`: memory of a pool would ignore peer access. CuPy is
imported where a kernel is made, or GPUDirect Storage is used: loads do without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Final

from planner.engine.backends.base import Description, DeviceBuffer, Engine, Name
from planner.engine.backends.cuda_driver import LEGACY, driver
from planner.engine.backends.cuda_kernels import CudaKernelLane, Kernels
from planner.engine.backends.cuda_lane import CudaLane
from planner.engine.backends.cuda_library import INVALID_DEVICE, OUT_OF_MEMORY, DriverError
from planner.engine.backends.cuda_managed import CudaManaged, CudaPageLane
from planner.engine.backends.cuda_peer import Peers
from planner.engine.backends.cuda_present import cupy_version, missing
from planner.engine.backends.cuda_quick import Event, quick_calls
from planner.engine.backends.cuda_spin import spinner
from planner.engine.backends.cuda_storage import CudaStorage, no_storage
from planner.engine.backends.managed_limit import require_managed
from planner.engine.memory import HostBuffer, LentBuffer
from planner.errors import InfeasibleError, UnavailableError
from planner.machine.discover_gpus import numa_of

_PORTABLE_MAPPED: Final = 1 | 2
"""CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP: every context may use the memory."""
_READ_ONLY: Final = 8
"""CU_MEMHOSTREGISTER_READ_ONLY."""
_ATTR_READ_ONLY: Final = 113
"""CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED."""
_COMBINED: Final = 4
"""CU_MEMHOSTALLOC_WRITECOMBINED; its other flags have the numbers above."""
_ATTR_MAPS_HOST: Final = 19
"""CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY."""


class CudaBackend:
    """See `backends.base.Backend`.

    Parameters
    ----------
    kernels
        Whether kernels are wanted as well as copies: what makes one is `UnavailableError` where
        CuPy is not installed.

    Raises
    ------
    UnavailableError
        If the library or a device is missing; the message says which.

    """

    name: Final[Name] = "cuda"
    emulated: Final = False

    def __init__(self, *, kernels: bool = True) -> None:
        reason = missing(kernels=kernels)
        if reason is not None:
            raise UnavailableError(
                f"the cuda backend cannot run here: {reason}",
                hint="--backend host emulates the GPU in RAM",
            )
        self.driver = driver()
        self._clock: dict[int, tuple[Event, float]] = {}
        self._peers = Peers(self)
        self._managed = CudaManaged(self)
        self._kernels: dict[int, Kernels] = {}
        self._attached: set[int] = set()
        self._home: int | None = None
        self._registered: set[int] = set()
        self._allocated: dict[int, int] = {}
        self._given: set[int] = set()
        self._guard = Lock()

    def describe(self, gpus: Sequence[int]) -> Description:
        """Names of the devices that are there, the driver's CUDA version, CuPy's version."""
        count = self.driver.count()
        names = tuple(self.driver.name(gpu) for gpu in gpus if gpu < count)
        return Description(names, f"CUDA {self.driver.version()}", cupy_version())

    def lacks(self, strategy: str, across: tuple[str, str], gpus: Sequence[int]) -> str | None:
        """Why the devices cannot do it."""
        count = self.driver.count()
        absent = [gpu for gpu in gpus if gpu >= count]
        if absent:
            return f"there is no device {absent[0]}; the driver shows {count}"
        first = gpus[0] if gpus else 0
        if strategy == "mmap" and not self._read_only_maps(first):
            return "the device cannot register read-only file mappings"
        if strategy == "peer" and across == ("hbm", "hbm"):
            return self._peers.missing(gpus)
        if strategy == "zero_copy" and not self.driver.attribute(_ATTR_MAPS_HOST, first):
            return "the device cannot map host memory"
        if strategy in ("managed", "prefetch", "managed_host"):
            return self._managed.missing(first)
        return no_storage() if strategy == "gds" else None

    def _read_only_maps(self, gpu: int) -> bool:
        return bool(self.driver.attribute(_ATTR_READ_ONLY, gpu))

    def attach(self, gpu: int) -> None:
        """Make the device current in the calling thread; the first time makes its context.

        Raises `UnavailableError` where there is no such device, or it gives no context.
        """
        try:
            self.driver.attach(gpu)
        except DriverError as error:
            absent = error.status == INVALID_DEVICE
            what = f"there is no device cuda:{gpu}" if absent else f"cuda:{gpu} gives no context"
            raise UnavailableError(
                f"{what} (the driver says {error})",
                hint="nvidia-smi shows the devices, and what takes their memory",
            ) from error
        self._attached.add(gpu)
        if self._home is None:
            self._home = gpu

    def _have_context(self) -> None:
        """Have some context in the calling thread: page-locking needs one, whichever it is."""
        self.driver.have_context(self._home or 0)

    def free_memory(self, gpu: int) -> int | None:
        """Bytes that the driver says are free."""
        self.attach(gpu)
        return self.driver.free_bytes()

    def allocate(self, gpu: int, size: int) -> DeviceBuffer:
        """`cuMemAlloc`; raises `InfeasibleError` where the device has not that much left."""
        self.attach(gpu)
        try:
            address = self.driver.allocate(max(size, 1))
        except DriverError as error:
            if error.status != OUT_OF_MEMORY:
                raise
            free = self.free_memory(gpu)
            raise InfeasibleError(f"device {gpu} has {free} bytes free, not {size}") from error
        with self._guard:
            self._allocated[address] = gpu
        return DeviceBuffer(gpu, address, size)

    def release(self, buffer: DeviceBuffer) -> None:
        """`cuMemFree`, once."""
        with self._guard:
            known = self._allocated.pop(buffer.address, None)
        if known is not None:
            self.attach(known)
            self.driver.free(buffer.address)

    def register(self, address: int, size: int, *, read_only: bool = False) -> None:
        """`cuMemHostRegister`."""
        self._have_context()
        with quick_calls().letting_go():
            self.driver.register(address, size, _READ_ONLY if read_only else _PORTABLE_MAPPED)
        with self._guard:
            self._registered.add(address)

    def unregister(self, address: int) -> None:
        """`cuMemHostUnregister`, once."""
        with self._guard:
            if address not in self._registered:
                return
            self._registered.discard(address)
        self._have_context()
        with quick_calls().letting_go():
            self.driver.unregister(address)

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
        return CudaPageLane(self, engine, slots, spin=spin)

    def compile(self, gpu: int) -> None:
        """Compile the kernels for the device, once."""
        with self._guard:
            if gpu not in self._kernels:
                self.attach(gpu)
                self._kernels[gpu] = Kernels(gpu)

    def combined(self, size: int) -> LentBuffer:
        """`cuMemHostAlloc`, write-combined; the driver has touched and pinned it."""
        self._have_context()
        address = self.driver.allocate_host(max(size, 1), _PORTABLE_MAPPED | _COMBINED)
        with self._guard:
            self._given.add(address)
        return LentBuffer(address, size, lambda: self._take_back(address))

    def _take_back(self, address: int) -> None:
        with self._guard:
            known = address in self._given
            self._given.discard(address)
        if known:
            self._have_context()
            self.driver.free_host(address)

    def managed(self, gpu: int, size: int) -> LentBuffer:
        """`cuMemAllocManaged`, untouched."""
        require_managed(gpu, size, self.free_memory(gpu))
        address = self.driver.allocate_managed(max(size, 1))
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
        """Prefetch it to the device, or to the host, and wait."""
        self._managed.bring(buffer, gpu)

    def keep_on_host(self, buffer: HostBuffer, gpu: int) -> None:
        """`cuMemAdvise`: prefer the host, mapped by the device."""
        self._managed.keep_on_host(buffer, gpu)

    def storage(self, path: str, *, writes: bool = False) -> CudaStorage:
        """A file of KvikIO."""
        return CudaStorage(path, writes=writes)

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
        return numa_of(Path("/"), self.driver.bus(gpu).lower())

    def start_clock(self) -> None:
        """Record a reference event on each device in use, and the host's clock with it."""
        for gpu in sorted(self._attached):
            self._tie(gpu)

    def _tie(self, gpu: int) -> None:
        """Record the device's reference event; it happened half way between issue and answer."""
        self.attach(gpu)
        quick, event = quick_calls(), Event(timed=True)
        before = perf_counter()
        quick.record(event.handle, LEGACY)
        quick.wait(event.handle)
        self._clock[gpu] = (event, (before + perf_counter()) / 2)

    def when(self, gpu: int, event: int) -> float:
        """The instant on the host's clock at which an event of the device happened."""
        base, seconds = self._clock[gpu]
        return seconds + quick_calls().elapsed(base.handle, event)

    def fill(self, buffer: DeviceBuffer, value: int) -> None:
        """`cuMemsetD8`, waited for; managed memory is its own source, and keeps its bytes."""
        if buffer.address in self._managed:
            return
        self.attach(buffer.gpu)
        self.driver.fill(buffer.address, value, buffer.size)
        self.driver.wait_for_all()

    def read(self, buffer: DeviceBuffer, offset: int, address: int, length: int) -> None:
        """Blocking copy out; never timed."""
        self.attach(buffer.gpu)
        self.driver.copy(address, buffer.address + offset, length)

    def write(self, buffer: DeviceBuffer, offset: int, address: int, length: int) -> None:
        """Blocking copy in; never timed."""
        self.attach(buffer.gpu)
        self.driver.copy(buffer.address + offset, address, length)
        self.driver.wait_stream(LEGACY)

    def compute(self, gpu: int, check: Callable[[], None]) -> Callable[[float], None]:
        """A kernel that spins on the device's clock."""
        self.attach(gpu)
        return spinner(gpu, check)

    def close(self) -> None:
        """Disable what was enabled, unregister and free what is left, all of it."""
        with ExitStack() as last:  # which goes on where the driver refuses one
            last.callback(self._clock.clear)
            last.callback(self._kernels.clear)
            for address in list(self._given):
                last.callback(self._take_back, address)
            for address, gpu in list(self._allocated.items()):
                last.callback(self.release, DeviceBuffer(gpu, address, 0))
            for address in list(self._registered):
                last.callback(self.unregister, address)
            last.callback(self._peers.close)
