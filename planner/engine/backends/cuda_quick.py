"""Driver calls that keep the interpreter's lock: short ones, made for every chunk.

Most libraries let the lock go around each call. For a call of two or three microseconds that costs
more than it gives: with a dozen workers the lock is handed to a sleeping thread, which takes some
ten microseconds to wake while nobody runs Python. Issuing a copy, making and recording an event and
asking whether it has happened never wait, so they keep the lock; only a real wait lets it go. On an
H200 with twelve workers this brought 2 MiB chunks from 38–44 to 45–47 GB/s, and 4 MiB chunks from
50.8 to 52.0, where the same loop in C reaches 52.0 (measured 2026-11-29).

The copies are of memory that copy engines reach (registered or on a device): a copy of ordinary
memory would wait inside the call, and hold everybody up.

So does every copy while memory is registered: the driver holds its own lock for as long as that
takes. Meanwhile copies and events are queued without the interpreter's lock, and who fills a ring
beside pieces that are registered goes on filling it: 613 MB of memory beside 204 MB of a file took
22 and 14 ms, and 19 and 9 so (one H200, measured 2026-12-01).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache
from threading import Lock
from typing import Any, Final

from planner.engine.backends.base import Part
from planner.engine.backends.cuda_library import LIBRARY, bound, failed

NOT_READY: Final = 600
NOT_SUPPORTED: Final = 801
"""CUDA_ERROR_NOT_READY and CUDA_ERROR_NOT_SUPPORTED."""
BLOCKING: Final = 1
UNTIMED: Final = 2
"""CU_EVENT_BLOCKING_SYNC and CU_EVENT_DISABLE_TIMING."""


class _Attributes(ctypes.Structure):
    """`CUmemcpyAttributes` of cuda.h: in which order sources are read, and hints that we lack."""

    _fields_ = (
        ("order", c_int),
        ("source_kind", c_int),
        ("source_id", c_int),
        ("target_kind", c_int),
        ("target_id", c_int),
        ("flags", c_uint),
    )


_IN_ORDER: Final = _Attributes(order=1)
"""CU_MEMCPY_SRC_ACCESS_ORDER_STREAM: a source is read when the copy's turn in the stream comes."""
_FROM_THE_FIRST: Final = (c_size_t * 1)(0)
"""Of which copy on the attributes hold."""


def _batch(library: ctypes.CDLL) -> Any:
    """`cuMemcpyBatchAsync` as CUDA 12.8 has it, which later drivers keep under this name; or None.

    Its eighth argument is the number of the copy that failed.
    """
    if not hasattr(library, "cuMemcpyBatchAsync"):
        return None
    addresses, lengths = ctypes.POINTER(c_uint64), ctypes.POINTER(c_size_t)
    return bound(
        library,
        "cuMemcpyBatchAsync",
        addresses,
        addresses,
        lengths,
        c_size_t,
        ctypes.POINTER(_Attributes),
        lengths,
        c_size_t,
        lengths,
        c_void_p,
    )


class QuickCalls:
    """The calls, bound once for the process; see `quick_calls`."""

    _locked = 0
    """How many calls just now hold the driver's lock for long."""

    def __init__(self) -> None:
        keeps, frees = ctypes.PyDLL(LIBRARY), ctypes.CDLL(LIBRARY)
        self._guard = Lock()
        self._create = bound(keeps, "cuEventCreate", ctypes.POINTER(c_void_p), c_uint)
        self._destroy = bound(keeps, "cuEventDestroy_v2", c_void_p)
        copy = c_uint64, c_uint64, c_size_t, c_void_p
        self._copy, self._slow_copy = (bound(x, "cuMemcpyAsync", *copy) for x in (keeps, frees))
        self._batch, self._slow_batch = _batch(keeps), _batch(frees)
        event = c_void_p, c_void_p
        self._record, self._slow_record = (
            bound(x, "cuEventRecord", *event) for x in (keeps, frees)
        )
        self._follow = bound(keeps, "cuStreamWaitEvent", c_void_p, c_void_p, c_uint)
        self._query = bound(keeps, "cuEventQuery", c_void_p)
        self._elapsed = bound(
            keeps, "cuEventElapsedTime", ctypes.POINTER(c_float), c_void_p, c_void_p
        )
        self._synchronize = bound(frees, "cuEventSynchronize", c_void_p)

    @contextmanager
    def letting_go(self) -> Iterator[None]:
        """Queue copies without the interpreter's lock: the driver is going to hold its own."""
        with self._guard:
            self._locked += 1
        try:
            yield
        finally:
            with self._guard:
                self._locked -= 1

    def event(self, *, block: bool, timed: bool) -> int:
        """A new event of the current device.

        One that blocks lets the core go while it is waited for, and answers some 20 us later.
        """
        found = c_void_p()
        status = self._create(found, (BLOCKING if block else 0) | (0 if timed else UNTIMED))
        if status or found.value is None:
            raise failed("cuEventCreate", status)
        return found.value

    def forget(self, event: int) -> None:
        """Give an event back; never raises, as the context may be gone already."""
        self._destroy(event)

    def copy(self, target: int, source: int, length: int, stream: int) -> None:
        """Queue a copy; unified addressing tells its direction, and between which GPUs it goes."""
        call = self._slow_copy if self._locked else self._copy
        status = call(target, source, length, stream)
        if status:
            raise failed("cuMemcpyAsync", status)

    def copy_all(self, copies: Sequence[Part], stream: int) -> None:
        """Queue several copies, of memory that lies anywhere, as one where the driver can.

        Each copy of its own makes the engine wait for some 4 us. From CUDA 12.8 on.
        """
        count = len(copies)
        # Another GPU's thread may find that there is none.
        batch = self._slow_batch if self._locked else self._batch
        if batch is not None and count > 1:
            targets, sources, lengths = zip(*copies, strict=True)
            status = batch(
                (c_uint64 * count)(*targets),
                (c_uint64 * count)(*sources),
                (c_size_t * count)(*lengths),
                count,
                _IN_ORDER,
                _FROM_THE_FIRST,
                1,
                c_size_t(),
                stream,
            )
            if not status:
                return
            if status != NOT_SUPPORTED:
                raise failed("cuMemcpyBatchAsync", status)
            self._batch = self._slow_batch = None
        for target, source, length in copies:
            self.copy(target, source, length, stream)

    def record(self, event: int, stream: int) -> None:
        """Record an event behind what the stream holds."""
        call = self._slow_record if self._locked else self._record
        status = call(event, stream)
        if status:
            raise failed("cuEventRecord", status)

    def follow(self, stream: int, event: int) -> None:
        """Let a stream wait for an event of another one, also of another GPU's."""
        status = self._follow(stream, event, 0)
        if status:
            raise failed("cuStreamWaitEvent", status)

    def wait(self, event: int) -> None:
        """Block until the event has happened; other threads run only if it has not yet."""
        status = self._query(event)
        if status == NOT_READY:
            status = self._synchronize(event)
        if status:
            raise failed("cuEventSynchronize", status)

    def happened(self, event: int) -> bool:
        """Whether the event has happened."""
        status = self._query(event)
        if status and status != NOT_READY:
            raise failed("cuEventQuery", status)
        return not status

    def elapsed(self, start: int, end: int) -> float:
        """Seconds between two events that have happened."""
        found = c_float()
        status = self._elapsed(found, start, end)
        if status:
            raise failed("cuEventElapsedTime", status)
        return found.value / 1e3


class Event:
    """An event of the current device that is given back with its last reference.

    Attributes
    ----------
    handle
        The driver's.

    """

    __slots__ = ("_quick", "handle")

    def __init__(self, *, timed: bool) -> None:
        self._quick = quick_calls()
        self.handle = self._quick.event(block=False, timed=timed)

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self._quick.forget(self.handle)


@cache
def quick_calls() -> QuickCalls:
    """The calls of this process; raises `OSError` without the driver's library."""
    return QuickCalls()
