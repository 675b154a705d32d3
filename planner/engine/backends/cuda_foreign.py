"""Other libraries' streams, pointers and current device, beside those of the cuda backend.

The CUDA runtime that they use takes the calling thread's current context of the driver for its
current device, and sets it: what is read and restored here is theirs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from planner.engine.backends.base import Lane
from planner.engine.backends.cuda_driver import HOST_MEMORY, driver
from planner.engine.backends.cuda_library import DriverError
from planner.engine.backends.cuda_quick import Event, quick_calls
from planner.errors import InputError


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
    """Leave the calling thread's current context as it was: for other libraries it is the device.

    A thread that had none has none again, so that no context is made on a device that nobody uses.
    """
    calls = driver()
    before = calls.current()
    try:
        yield
    finally:
        if calls.current() != before:
            calls.set_current(before)


@contextlib.contextmanager
def current(gpu: int) -> Iterator[None]:
    """Make a device current in the calling thread, and the context before again behind it."""
    with kept_device():
        driver().attach(gpu)
        yield


def mark(gpu: int, stream: int) -> Event:
    """An event behind all that is queued in a stream of the device now."""
    with current(gpu):
        event = Event(timed=False)
        quick_calls().record(event.handle, stream)
    return event


def mark_any(gpus: Sequence[int], stream: int) -> Event:
    """`mark` on whichever of the devices the stream belongs to; raises `InputError` for none."""
    for gpu in dict.fromkeys(gpus):
        with contextlib.suppress(DriverError):
            return mark(gpu, stream)
    raise InputError("the stream belongs to none of the devices of the transfer")


def follow(lane: Lane, event: Event) -> None:
    """Let a lane's next copies wait for an event, on the GPU's side."""
    quick_calls().follow(lane._ptr, event.handle)  # type: ignore[attr-defined] # noqa: SLF001


def hand_over(lanes: Iterable[Lane], stream: int) -> None:
    """Let a stream wait for everything that is queued in the lanes, on the GPU's side.

    The default stream is the current context's; in a thread that has none, that of a lane's device.
    """
    with kept_device():
        for lane in lanes:
            gpu = lane.engine.gpu
            event = mark(gpu, lane._ptr)  # type: ignore[attr-defined] # noqa: SLF001
            driver().have_context(gpu)
            quick_calls().follow(stream, event.handle)


def is_pinned(address: int, size: int) -> bool:
    """Whether copy engines reach all of host memory: its first and its last byte tell."""
    ends = (address, address + max(size, 1) - 1)
    found = [driver().pointer(at) for at in ends]
    return all(end.kind == HOST_MEMORY and not end.managed for end in found)


def device_of(address: int) -> int:
    """The index of the device whose memory an address is in; 0 for no address (an empty array).

    Raises `InputError` for an address that the driver does not know.
    """
    if not address:
        return 0
    found = driver().pointer(address)
    if not found.kind:
        raise InputError(f"no GPU's memory is at the address {address:#x}")
    return found.gpu
