"""Other libraries' streams, pointers and current device, beside those of the cuda backend."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from planner.engine.backends.base import Lane
from planner.errors import InputError

_HOST_MEMORY: Final = 1
"""cudaMemoryTypeHost: page-locked memory that a context knows."""


def stream_pointer(stream: Any) -> int:
    """The driver's handle of a stream: an integer, or what CuPy, torch or CUDA Python call one."""
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    for name in ("ptr", "cuda_stream"):
        found = getattr(stream, name, None)
        if isinstance(found, int):
            return found
    protocol = getattr(stream, "__cuda_stream__", None)
    if callable(protocol):
        return int(protocol()[1])
    raise InputError(
        f"{type(stream).__name__} is no CUDA stream",
        hint="give an integer handle, a cupy.cuda.Stream or a torch.cuda.Stream",
    )


@contextlib.contextmanager
def kept_device() -> Iterator[None]:
    """Leave the calling thread's current device as it was: other libraries read it as their own.

    A device that nobody has used is not gone back to: that would make a context on it.
    """
    from cupy.cuda import runtime

    before = runtime.getDevice()
    try:
        yield
    finally:
        if runtime.getDevice() != before and _is_used(before):
            runtime.setDevice(before)


@contextlib.contextmanager
def current(gpu: int) -> Iterator[None]:
    """Make a device current in the calling thread, and the one before again behind it."""
    from cupy.cuda import runtime

    with kept_device():
        runtime.setDevice(gpu)
        yield


def _is_used(gpu: int) -> bool:
    """Whether a device has its primary context."""
    driver = ctypes.CDLL("libcuda.so.1")
    device, flags, active = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
    if driver.cuDeviceGet(ctypes.byref(device), gpu):
        return False
    state = driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))
    return state == 0 and bool(active.value)


def mark(gpu: int, stream: int) -> Any:
    """An event behind all that is queued in a stream of the device now."""
    import cupy

    with current(gpu):
        event = cupy.cuda.Event(disable_timing=True)
        cupy.cuda.runtime.eventRecord(event.ptr, stream)
    return event


def mark_any(gpus: Sequence[int], stream: int) -> Any:
    """`mark` on whichever of the devices the stream belongs to; raises `InputError` for none."""
    from cupy.cuda import runtime

    for gpu in dict.fromkeys(gpus):
        with contextlib.suppress(runtime.CUDARuntimeError):
            return mark(gpu, stream)
    raise InputError("the stream belongs to none of the devices of the transfer")


def follow(lane: Lane, event: Any) -> None:
    """Let a lane's next copies wait for an event, on the GPU's side."""
    from cupy.cuda import runtime

    runtime.streamWaitEvent(lane._ptr, event.ptr)  # type: ignore[attr-defined] # noqa: SLF001


def hand_over(lanes: Iterable[Lane], stream: int) -> None:
    """Let a stream wait for everything that is queued in the lanes, on the GPU's side."""
    from cupy.cuda import runtime

    for lane in lanes:
        event = mark(lane.engine.gpu, lane._ptr)  # type: ignore[attr-defined] # noqa: SLF001
        runtime.streamWaitEvent(stream, event.ptr)


def is_pinned(address: int, size: int) -> bool:
    """Whether copy engines reach all of host memory: its first and its last byte tell."""
    from cupy.cuda import runtime

    ends = (address, address + max(size, 1) - 1)
    return all(runtime.pointerGetAttributes(at).type == _HOST_MEMORY for at in ends)


def device_of(address: int) -> int:
    """The index of the device whose memory an address is in; 0 for no address (an empty array)."""
    from cupy.cuda import runtime

    return int(runtime.pointerGetAttributes(address).device) if address else 0
