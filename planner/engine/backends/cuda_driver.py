"""The CUDA driver's calls by ctypes on libcuda.so.1: no library has to be imported for them.

Importing CuPy takes up to most of a second, which a first load would wait for. The names carry the
suffixes of the driver's ABI that programs for CUDA 12 and 13 are linked to, so that drivers of both
have them; what has none is the call's first signature, which newer drivers keep (`cuMemAdvise` and
`cuMemPrefetchAsync` take a number of a device there, and -1 for the host).

A context is always a device's primary one, which the CUDA runtime of CuPy and torch uses too: what
is current here is their current device. Unlike theirs, these calls make no context by themselves.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from functools import cache
from threading import Lock
from typing import Any, Final, NamedTuple

from planner.engine.backends.cuda_library import (
    INVALID_CONTEXT,
    INVALID_VALUE,
    LIBRARY,
    DriverError,
    bound,
    failed,
)

HOST: Final = -1
"""CU_DEVICE_CPU: the host where managed memory is meant to lie."""
LEGACY: Final = 0
"""The stream that blocking copies go through, and that waits for others."""
HOST_MEMORY: Final = 1
"""CU_MEMORYTYPE_HOST."""

_NON_BLOCKING: Final = 1
"""CU_STREAM_NON_BLOCKING: the legacy stream is not waited for."""
_GLOBAL: Final = 1
"""CU_MEM_ATTACH_GLOBAL: any stream of any device may use the managed memory."""
_POINTER: Final = (2, 8, 9, 3)
"""CU_POINTER_ATTRIBUTE_MEMORY_TYPE, _IS_MANAGED, _DEVICE_ORDINAL, _DEVICE_POINTER."""
_NAME_BYTES: Final = 256

_SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetPCIBusId": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDeviceCanAccessPeer": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxSynchronize": (),
    "cuCtxEnablePeerAccess": (c_void_p, c_uint),
    "cuCtxDisablePeerAccess": (c_void_p,),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemAllocManaged": (POINTER(c_uint64), c_size_t, c_uint),
    "cuMemFree_v2": (c_uint64,),
    "cuMemHostAlloc": (POINTER(c_void_p), c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemHostRegister_v2": (c_void_p, c_size_t, c_uint),
    "cuMemHostUnregister": (c_void_p,),
    "cuMemcpy": (c_uint64, c_uint64, c_size_t),
    "cuMemsetD8_v2": (c_uint64, c_ubyte, c_size_t),
    "cuMemPrefetchAsync": (c_uint64, c_size_t, c_int, c_void_p),
    "cuMemAdvise": (c_uint64, c_size_t, c_int, c_int),
    "cuPointerGetAttributes": (c_uint, POINTER(c_int), POINTER(c_void_p), c_uint64),
    "cuStreamCreate": (POINTER(c_void_p), c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
}
"""Types of the parameters, as in cuda.h; these calls let the interpreter's lock go."""
_SHORT: Final[dict[str, tuple[Any, ...]]] = {
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxGetCurrent": (POINTER(c_void_p),),
}
"""Likewise; these keep it, as they never wait and are made often (see `cuda_quick`)."""


class Pointer(NamedTuple):
    """What the driver knows of an address.

    Attributes
    ----------
    kind
        `HOST_MEMORY` where it is page-locked, 2 for memory of a device, 0 for what is not known.
    managed
        Whether it is managed memory.
    gpu
        The index of the device it was allocated or registered on.
    on_device
        The address by which kernels of the current context reach it; 0 where they do not.

    """

    kind: int
    managed: bool
    gpu: int
    on_device: int


class Driver:
    """The calls of this process, in words of Python; see `driver`.

    Sizes are in bytes, handles and addresses are integers (a null handle is 0), and devices go by
    their index. Every method raises `DriverError` where the driver refuses. Methods that name no
    device need a current context.
    """

    def __init__(self) -> None:
        # More streams than the driver has queues would wait for each other: it makes 8 unless told
        # before the first context exists, and there is a stream for each worker.
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
        frees, keeps = ctypes.CDLL(LIBRARY), ctypes.PyDLL(LIBRARY)
        self._calls = {name: bound(frees, name, *types) for name, types in _SIGNATURES.items()}
        self._calls |= {name: bound(keeps, name, *types) for name, types in _SHORT.items()}
        self._contexts: dict[int, int] = {}
        self._guard = Lock()
        self._do("cuInit", 0)

    def _do(self, name: str, *words: Any) -> None:
        status = self._calls[name](*words)
        if status:
            raise failed(name, status)

    def _number(self, name: str, *words: Any) -> int:
        """What a call writes to its first parameter, an `int`."""
        found = c_int()
        self._do(name, found, *words)
        return found.value

    def _text(self, name: str, gpu: int) -> str:
        found = ctypes.create_string_buffer(_NAME_BYTES)
        self._do(name, found, _NAME_BYTES, self._device(gpu))
        return found.value.decode(errors="replace")

    def _device(self, gpu: int) -> int:
        """The driver's handle of a device."""
        return self._number("cuDeviceGet", gpu)

    # ---- devices ----

    def version(self) -> int:
        """The newest CUDA that the driver supports: 1000 x major + 10 x minor."""
        return self._number("cuDriverGetVersion")

    def count(self) -> int:
        """How many devices it shows."""
        return self._number("cuDeviceGetCount")

    def name(self, gpu: int) -> str:
        """What the device is called."""
        return self._text("cuDeviceGetName", gpu)

    def bus(self, gpu: int) -> str:
        """The device's PCI address: domain, bus, device and function in hexadecimal digits."""
        return self._text("cuDeviceGetPCIBusId", gpu)

    def attribute(self, which: int, gpu: int) -> int:
        """The value of a CUdevice_attribute, by its number."""
        return self._number("cuDeviceGetAttribute", which, self._device(gpu))

    def reaches(self, gpu: int, peer: int) -> bool:
        """Whether a device can be given access to a peer's memory."""
        found = self._number("cuDeviceCanAccessPeer", self._device(gpu), self._device(peer))
        return bool(found)

    # ---- contexts ----

    def context(self, gpu: int) -> int:
        """The device's primary context, made where nobody has made it yet.

        The process keeps it to its end, as the CUDA runtime does: other libraries use it too.
        """
        found = self._contexts.get(gpu)
        if found is None:
            with self._guard:
                found = self._contexts.get(gpu)
                if found is None:
                    handle = c_void_p()
                    self._do("cuDevicePrimaryCtxRetain", handle, self._device(gpu))
                    found = self._contexts[gpu] = handle.value or 0
        return found

    def attach(self, gpu: int) -> None:
        """Make the device's primary context current in the calling thread."""
        self.set_current(self.context(gpu))

    def current(self) -> int:
        """The calling thread's current context, whoever made it; 0 where there is none."""
        found = c_void_p()
        self._do("cuCtxGetCurrent", found)
        return found.value or 0

    def set_current(self, context: int) -> None:
        """Make a context current in the calling thread; 0 for none."""
        self._do("cuCtxSetCurrent", context)

    def have_context(self, gpu: int) -> None:
        """Have some context in the calling thread: the device's where there is none."""
        if not self.current():
            self.attach(gpu)

    def wait_for_all(self) -> None:
        """Block until everything that was queued in the current context is done."""
        self._do("cuCtxSynchronize")

    def enable_peer(self, peer: int) -> None:
        """Let the current context reach the peer's memory.

        `DriverError.status` is `PEER_ALREADY_ON` where it does.
        """
        self._do("cuCtxEnablePeerAccess", self.context(peer), 0)

    def disable_peer(self, peer: int) -> None:
        """Undo `enable_peer`; `DriverError.status` is `PEER_NOT_ON` where it was not on."""
        self._do("cuCtxDisablePeerAccess", self.context(peer))

    # ---- memory ----

    def free_bytes(self) -> int:
        """Bytes that are free on the current context's device."""
        free, total = c_size_t(), c_size_t()
        self._do("cuMemGetInfo_v2", free, total)
        return free.value

    def allocate(self, size: int) -> int:
        """Memory of the current context's device; `OUT_OF_MEMORY` where it has not that much."""
        found = c_uint64()
        self._do("cuMemAlloc_v2", found, size)
        return found.value

    def allocate_managed(self, size: int) -> int:
        """Managed memory that every stream may use, untouched."""
        found = c_uint64()
        self._do("cuMemAllocManaged", found, size, _GLOBAL)
        return found.value

    def free(self, address: int) -> None:
        """Give back what `allocate` or `allocate_managed` gave."""
        self._do("cuMemFree_v2", address)

    def allocate_host(self, size: int, flags: int) -> int:
        """Page-locked host memory; flags as of cuMemHostAlloc."""
        found = c_void_p()
        self._do("cuMemHostAlloc", found, size, flags)
        return found.value or 0

    def free_host(self, address: int) -> None:
        """Give back what `allocate_host` gave."""
        self._do("cuMemFreeHost", address)

    def register(self, address: int, size: int, flags: int) -> None:
        """Page-lock host memory; flags as of cuMemHostRegister."""
        self._do("cuMemHostRegister_v2", address, size, flags)

    def unregister(self, address: int) -> None:
        """Undo `register`."""
        self._do("cuMemHostUnregister", address)

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy between any two addresses by the legacy stream.

        A small copy out of ordinary memory may return before the bytes are there: `wait_stream` of
        the legacy stream waits for them.
        """
        if size:
            self._do("cuMemcpy", target, source, size)

    def fill(self, address: int, value: int, size: int) -> None:
        """Queue setting bytes of a device in the legacy stream."""
        if size:
            self._do("cuMemsetD8_v2", address, value, size)

    def prefetch(self, address: int, size: int, to: int, stream: int) -> None:
        """Queue the move of managed memory to a device, or to the `HOST`."""
        where = to if to == HOST else self._device(to)
        self._do("cuMemPrefetchAsync", address, size, where, stream)

    def advise(self, address: int, size: int, advice: int, about: int) -> None:
        """Advise on managed memory (CUmem_advise) with respect to a device, or to the `HOST`."""
        where = about if about == HOST else self._device(about)
        self._do("cuMemAdvise", address, size, advice, where)

    def pointer(self, address: int) -> Pointer:
        """What is known of an address; it needs no current context."""
        kind, managed, gpu, on_device = c_uint(), c_uint(), c_int(-1), c_uint64()
        places = [ctypes.addressof(each) for each in (kind, managed, gpu, on_device)]
        which = (c_int * len(_POINTER))(*_POINTER)
        into = (c_void_p * len(places))(*places)
        try:
            self._do("cuPointerGetAttributes", len(_POINTER), which, into, address)
        except DriverError as error:
            if error.status not in (INVALID_VALUE, INVALID_CONTEXT):
                raise
            return Pointer(0, managed=False, gpu=-1, on_device=0)  # ordinary memory
        return Pointer(kind.value, bool(managed.value), gpu.value, on_device.value)

    # ---- streams ----

    def stream(self) -> int:
        """A new stream of the current context, which goes on beside the legacy stream."""
        found = c_void_p()
        self._do("cuStreamCreate", found, _NON_BLOCKING)
        return found.value or 0

    def wait_stream(self, stream: int) -> None:
        """Block until everything that was queued in a stream is done."""
        self._do("cuStreamSynchronize", stream)

    def drop_stream(self, stream: int) -> None:
        """Give a stream back; what is queued in it still runs."""
        self._do("cuStreamDestroy_v2", stream)


@cache
def driver() -> Driver:
    """The calls of this process, initialised.

    Raises `OSError` without the driver's library, and `DriverError` where it finds no device.
    """
    return Driver()
