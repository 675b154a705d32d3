"""The cuda backend: CuPy's runtime calls, one stream and one event a slot for each lane.

Only calls that let other threads run are made inside a transfer: `memcpyAsync`, `memcpyPeerAsync`,
`eventRecord`, `eventSynchronize`, `streamWaitEvent`. Nothing synchronises a device there. Device
memory comes from plain `cudaMalloc`: memory of a pool would ignore peer access.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Sequence
from threading import Lock
from time import perf_counter
from typing import Any, Final

from planner.engine.backends.base import Description, DeviceBuffer, Engine, Lane, Name, Part
from planner.engine.backends.cuda_spin import spinner
from planner.errors import InfeasibleError, UnavailableError

_KIND: Final = {"h2d": 1, "d2h": 2, "local": 3}
"""cudaMemcpyKind."""
_PORTABLE_MAPPED: Final = 1 | 2
"""cudaHostRegisterPortable | cudaHostRegisterMapped: every context may use the memory."""
_READ_ONLY: Final = 8
"""cudaHostRegisterReadOnly."""
_ATTR_READ_ONLY: Final = 113
"""cudaDevAttrHostRegisterReadOnlySupported."""
_PEER_ALREADY_ON: Final = 704
_PEER_NOT_ON: Final = 705
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
        "_rt",
        "_stream",
        "engine",
        "log",
    )

    def __init__(self, backend: CudaBackend, engine: Engine, slots: int, *, spin: bool) -> None:
        cupy = backend.cupy
        backend.attach(engine.gpu)
        self._backend = backend
        self._rt = cupy.cuda.runtime
        self.engine = engine
        self.log: list[float] = []
        self._kind = _KIND.get(engine.kind, 0)
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._ptr = self._stream.ptr
        # An event that blocks lets the core go while it waits, and answers some 20 us later.
        self._holders = [cupy.cuda.Event(block=not spin) for _ in range(slots)]
        self._events = [event.ptr for event in self._holders]
        self._flying = [False] * slots
        self._issued = [0.0] * slots

    def copy(self, slot: int, target: int, source: int, length: int) -> None:
        """Queue one copy."""
        self._issued[slot] = perf_counter()
        self._enqueue(target, source, length)
        self._rt.eventRecord(self._events[slot], self._ptr)
        self._flying[slot] = True

    def copy_parts(self, slot: int, parts: Sequence[Part]) -> None:
        """Queue several copies behind one event."""
        self._issued[slot] = perf_counter()
        for target, source, length in parts:
            self._enqueue(target, source, length)
        self._rt.eventRecord(self._events[slot], self._ptr)
        self._flying[slot] = True

    def _enqueue(self, target: int, source: int, length: int) -> None:
        if self.engine.kind == "peer":
            peer, gpu = self.engine.peer, self.engine.gpu
            self._rt.memcpyPeerAsync(target, peer, source, gpu, length, self._ptr)
        else:
            self._rt.memcpyAsync(target, source, length, self._kind, self._ptr)

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
            self._rt.eventSynchronize(self._events[slot])
            self._flying[slot] = False
            self.log.append(self._issued[slot])
            self.log.append(self._backend.when(self.engine.gpu, self._events[slot]))

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
        self._peers: list[tuple[int, int]] = []
        self._attached: set[int] = set()
        self._registered: set[int] = set()
        self._allocated: dict[int, int] = {}
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
        if strategy == "mmap" and not self._read_only_maps(gpus[0] if gpus else 0):
            return "the device cannot register read-only file mappings"
        if strategy == "peer" and across == ("hbm", "hbm"):
            for gpu in gpus:
                for other in gpus:
                    if gpu != other and not self._rt.deviceCanAccessPeer(gpu, other):
                        return f"device {gpu} has no peer access to device {other}"
        return None

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

    def lane(self, engine: Engine, slots: int, *, spin: bool = True) -> CudaLane:
        """A stream on the engine's device."""
        if engine.gpu not in self._clock:
            with self._guard:
                self._tie(engine.gpu)
        return CudaLane(self, engine, slots, spin=spin)

    def open_peer(self, gpu: int, peer: int) -> None:
        """Enable peer access both ways, and remember what to undo."""
        for one, other in ((gpu, peer), (peer, gpu)):
            self.attach(one)
            try:
                self._rt.deviceEnablePeerAccess(other)
            except self._rt.CUDARuntimeError as error:
                if error.status != _PEER_ALREADY_ON:
                    raise
            else:
                self._peers.append((one, other))

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
        return seconds + float(self._rt.eventElapsedTime(base, event)) / 1e3

    def fill(self, buffer: DeviceBuffer, value: int) -> None:
        """`cudaMemset`, waited for."""
        self.attach(buffer.gpu)
        self._rt.memset(buffer.address, value, buffer.size)
        self._rt.deviceSynchronize()

    def read(self, buffer: DeviceBuffer, offset: int, address: int, length: int) -> None:
        """Blocking copy out; never timed."""
        self.attach(buffer.gpu)
        self._rt.memcpy(address, buffer.address + offset, length, _KIND["d2h"])

    def write(self, buffer: DeviceBuffer, offset: int, address: int, length: int) -> None:
        """Blocking copy in; never timed."""
        self.attach(buffer.gpu)
        self._rt.memcpy(buffer.address + offset, address, length, _KIND["h2d"])
        self._rt.streamSynchronize(0)

    def compute(self, gpu: int, check: Callable[[], None]) -> Callable[[float], None]:
        """A kernel that spins on the device's clock."""
        self.attach(gpu)
        return spinner(self.cupy, check)

    def close(self) -> None:
        """Disable what was enabled, unregister and free what is left."""
        for gpu, peer in self._peers:
            self.attach(gpu)
            try:
                self._rt.deviceDisablePeerAccess(peer)
            except self._rt.CUDARuntimeError as error:
                if error.status != _PEER_NOT_ON:
                    raise
        self._peers.clear()
        for address in list(self._registered):
            self.unregister(address)
        for address, gpu in list(self._allocated.items()):
            self.release(DeviceBuffer(gpu, address, 0))
        self._clock.clear()
