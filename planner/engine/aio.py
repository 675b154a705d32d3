"""Reads by the C library's own threads (POSIX AIO), which need no turn at the interpreter's lock.

A dozen workers in Python spend more time handing the interpreter's lock to one another than a
chunk takes on the link: on one H200 machine sixteen of them read a cached file by chunks of 2 MiB
and handed it to the GPU at 25 GB/s, by 8 MiB at 39; with these reads and one thread of Python that
was 49 and 52, and the same loop in C reached 49 and 50 (measured 2026-11-30).

glibc serves the requests of one file descriptor in turn, by one thread of its pool, so each worker
has descriptors of its own and reads one chunk at a time; what it is asked for meanwhile waits in
its queue. Other C libraries, and processes forked from one that has used the pool (its threads are
not there), do without: `usable()` says so.

References: aio(7), aio_read(3), aio_init(3).
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import sys
from collections import deque
from ctypes import c_char, c_int, c_int64, c_long, c_size_t, c_void_p
from functools import cache
from typing import Any, Final, NamedTuple

from planner.errors import UnavailableError

SIGEV_NONE: Final = 1
MOST_THREADS: Final = 128
"""Threads of the C library's pool at the most, of which it starts as many as have work; its own
bound is 20."""
IDLE_S: Final = 3
"""Seconds after which an idle thread of the pool ends; the C library's own is 1."""
KEPT: Final = 4
"""Descriptors that a worker keeps when it goes on to the next file."""
LEFT: Final = 128
"""Numbers of descriptors below the process's limit that are left to others: while a load's first
files are read the driver is opened, and libraries are loaded."""


class _Request(ctypes.Structure):
    """`struct aiocb` of glibc on 64-bit Linux (bits/types/struct_aiocb.h, aio.h)."""

    _fields_ = (
        ("fd", c_int),
        ("_opcode", c_int),
        ("_priority", c_int),
        ("buffer", c_void_p),
        ("size", c_size_t),
        ("_value", c_void_p),
        ("_signal", c_int),
        ("notify", c_int),
        ("_rest_of_sigevent", c_char * 48),
        ("_next", c_void_p),
        ("_inner", c_int * 4),
        ("_returned", c_size_t),
        ("offset", c_int64),
        ("_reserved", c_char * 32),
    )


class _Span(ctypes.Structure):
    """`struct timespec`."""

    _fields_ = (("seconds", c_long), ("nanoseconds", c_long))


class _Init(ctypes.Structure):
    """`struct aioinit`."""

    _fields_ = tuple(
        (name, c_int)
        for name in ("threads", "num", "locks", "usedba", "debug", "users", "idle", "reserved")
    )


class _Calls:
    """The C library's calls; those that never wait keep the interpreter's lock."""

    def __init__(self) -> None:
        keeps, frees = ctypes.PyDLL(None, use_errno=True), ctypes.CDLL(None, use_errno=True)
        self.version = frees.gnu_get_libc_version  # there is none in other C libraries
        self.read = _bound(keeps.aio_read, c_void_p)
        self.error = _bound(keeps.aio_error, c_void_p)
        self.returned = _bound(keeps.aio_return, c_void_p, result=ctypes.c_ssize_t)
        self.cancel = _bound(keeps.aio_cancel, c_int, c_void_p)
        self.suspend = _bound(frees.aio_suspend, c_void_p, c_int, c_void_p)
        wanted = _Init(MOST_THREADS, 2 * MOST_THREADS, 0, 0, 0, 0, IDLE_S, 0)
        frees.aio_init(ctypes.byref(wanted))  # without effect where the pool is in use already


def _bound(call: Any, *kinds: Any, result: Any = c_int) -> Any:
    call.argtypes, call.restype = kinds, result
    return call


_forked = False
"""Whether this process is a fork of one that has used the pool."""


@cache
def _calls() -> _Calls | None:
    """The calls of this process, `None` where its C library is another one or has none."""
    if sys.platform != "linux" or ctypes.sizeof(c_void_p) != 8:
        return None
    try:
        found = _Calls()
    except AttributeError:
        return None
    return found


@cache
def _watch_forks() -> None:
    """See to it that forks of this process, which have no pool, know that."""
    os.register_at_fork(after_in_child=_mark_forked)


def _mark_forked() -> None:
    global _forked  # noqa: PLW0603 - one fact about the process
    _forked = True


def usable() -> bool:
    """Whether files can be read in this way here."""
    return not _forked and _calls() is not None


class Read(NamedTuple):
    """What is read: so many bytes of a file from an offset on, to an address."""

    fd: int
    address: int
    size: int
    offset: int


class _Descriptor:
    """A worker's own descriptor of a file, and how many of its reads are under way.

    Where its number would not be below `most` it is the caller's: slower, since its reads go in
    turn with those of others.
    """

    __slots__ = ("_own", "fd", "flying")

    def __init__(self, of: int, most: int) -> None:
        self.fd, self._own, self.flying = of, False, 0
        try:
            found = os.dup(of)  # the lowest number that is free
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            return
        if found < most:
            self.fd, self._own = found, True
        else:
            os.close(found)

    def close(self) -> None:
        """Give it back unless it is the caller's."""
        if self._own:
            os.close(self.fd)


class _Reader:
    """One worker: its descriptors, and its reads in the order in which they are served."""

    __slots__ = ("_most", "fds", "queue")

    def __init__(self, most: int) -> None:
        self._most = most
        self.fds: dict[int, _Descriptor] = {}
        self.queue: deque[tuple[int, _Descriptor]] = deque()

    def descriptor(self, of: int) -> _Descriptor:
        """The worker's descriptor of the file that is open as `of`."""
        found = self.fds.get(of)
        if found is None:
            if len(self.fds) >= KEPT:
                for key in [key for key, old in self.fds.items() if not old.flying]:
                    self.fds.pop(key).close()
            found = self.fds[of] = _Descriptor(of, self._most)
        return found

    def close(self) -> None:
        for one in self.fds.values():
            one.close()
        self.fds.clear()


class Reads:
    """The reads of a movement's workers; all calls come from one thread.

    Parameters
    ----------
    workers
        How many read at a time.
    depth
        Reads of a worker that are under way or wait for it at the most.

    Raises
    ------
    UnavailableError
        If the C library has no such calls; see `usable`.

    """

    def __init__(self, workers: int, depth: int) -> None:
        calls = _calls()
        if calls is None or _forked:
            raise UnavailableError("files cannot be read by the C library's threads here")
        _watch_forks()
        self._calls = calls
        self._depth = depth
        self._requests = [_Request() for _ in range(workers * depth)]
        self._addresses = [ctypes.addressof(request) for request in self._requests]
        for request in self._requests:
            request.notify = SIGEV_NONE
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = sys.maxsize if limit == resource.RLIM_INFINITY else limit - LEFT
        self._readers = [_Reader(most) for _ in range(workers)]
        # The oldest read of each worker, for `wait`.
        self._heads = (c_void_p * workers)()
        self._span = _Span()
        self.flying = 0

    def begin(self, worker: int, slot: int, read: Read) -> None:
        """Have a worker read into one of its slots, behind what it was asked for before.

        Raises `OSError` where the system takes no more.
        """
        number, reader = worker * self._depth + slot, self._readers[worker]
        request, own = self._requests[number], reader.descriptor(read.fd)
        request.fd, request.buffer = own.fd, read.address
        request.size, request.offset = read.size, read.offset
        # Noted beforehand: whatever comes between, nothing is under way that nobody waits for.
        reader.queue.append((slot, own))
        own.flying += 1
        self.flying += 1
        if len(reader.queue) == 1:
            self._heads[worker] = self._addresses[number]
        if self._calls.read(self._addresses[number]):
            code = ctypes.get_errno()
            reader.queue.pop()
            own.flying -= 1
            self.flying -= 1
            if not reader.queue:
                self._heads[worker] = None
            raise OSError(code, f"a read was refused: {os.strerror(code)}")

    def finished(self, worker: int) -> tuple[int, int] | None:
        """(slot, bytes) of the worker's oldest read, once, if it is through.

        Instead of the bytes of one that failed there is what it failed with, the system's number
        below 0.
        """
        queue = self._readers[worker].queue
        if not queue:
            return None
        slot, own = queue[0]
        address = self._addresses[worker * self._depth + slot]
        code = self._calls.error(address)
        if code == errno.EINPROGRESS:
            return None
        queue.popleft()
        own.flying -= 1
        self.flying -= 1
        follows = queue[0][0] if queue else None
        self._heads[worker] = (
            None if follows is None else self._addresses[worker * self._depth + follows]
        )
        found = self._calls.returned(address)
        return slot, -code if code else found

    def wait(self, seconds: float) -> None:
        """Wait until any worker's oldest read is through, or for so long; other threads go on."""
        whole = int(seconds)
        self._span.seconds, self._span.nanoseconds = whole, int((seconds - whole) * 1e9)
        self._calls.suspend(self._heads, len(self._heads), ctypes.byref(self._span))

    def settle(self) -> None:
        """End with nothing under way, whatever became of it: what has not begun is called off."""
        for reader in self._readers:
            for one in {own for _, own in reader.queue}:
                self._calls.cancel(one.fd, None)
        while self.flying:
            for worker in range(len(self._readers)):
                while self.finished(worker) is not None:
                    pass
            if self.flying:
                self.wait(1.0)

    def close(self) -> None:
        """Give the descriptors back, between two runs, too; nothing is under way any more.

        A file may be closed behind it, and its number go to another one.
        """
        for reader in self._readers:
            reader.close()
