"""The files that a flow reads, and reads and writes that do not end halfway."""

from __future__ import annotations

import ctypes
import errno
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from planner.engine.memory import PAGE
from planner.errors import ExecutionError, InputError, UnavailableError

if TYPE_CHECKING:
    from planner.plan.schema import FileSource

preadv = os.preadv
pwritev = os.pwritev

DIRECT_ALIGN: Final = 4096
"""Bytes that O_DIRECT is aligned to where the kernel does not say: the page of a disk with large
sectors; no file system asks for more."""
_SYNC_WRITE: Final = 2
"""SYNC_FILE_RANGE_WRITE: begin to write, and do not wait."""
_STATX_DIOALIGN: Final = 0x2000
"""Mask bit of statx(2), Linux 6.1."""
_AT_EMPTY_PATH: Final = 0x1000

MOST_BUFFERS: Final = 1024
"""Buffers that one call takes (IOV_MAX of Linux)."""


class FileRanges:
    """The bytes of a flow in its files, in order; opened for all workers together."""

    def __init__(self, sources: Sequence[FileSource]) -> None:
        self.sources = tuple(sources)
        self.starts = [0]
        for source in self.sources:
            self.starts.append(self.starts[-1] + source.size_bytes)
        self.fds: list[int] = []
        self.align = DIRECT_ALIGN

    @property
    def size(self) -> int:
        """Bytes of all ranges."""
        return self.starts[-1]

    def open(self, *, direct: bool = False) -> None:
        """Open every file, around the page cache if asked, and look whether it is long enough."""
        opened = open_direct if direct else open_plainly
        for source in self.sources:
            try:
                self.fds.append(opened(source.path, os.O_RDONLY))
            except OSError as error:
                raise InputError(f"{source.path} cannot be read: {error.strerror}") from error
            check_length(source, os.fstat(self.fds[-1]).st_size)
        if direct:
            self.align = max((direct_alignment(fd) for fd in self.fds), default=DIRECT_ALIGN)

    def segments(self, low: int, high: int) -> Iterator[tuple[int, int, int, int]]:
        """(flow offset, number of the file, offset in it, length) of the bytes low … high."""
        at = bisect_right(self.starts, low) - 1
        while low < high:
            end = min(high, self.starts[at + 1])
            if end > low:
                source = self.sources[at]
                yield low, at, source.offset + low - self.starts[at], end - low
                low = end
            at += 1

    def close(self) -> None:
        """Close all files."""
        while self.fds:
            os.close(self.fds.pop())


def open_plainly(path: str | Path, flags: int) -> int:
    """A file's descriptor, which no child process gets."""
    return os.open(path, flags | os.O_CLOEXEC)


def open_direct(path: str | Path, flags: int) -> int:
    """The same around the page cache.

    Raises
    ------
    UnavailableError
        If the file system has no O_DIRECT.

    """
    try:
        return open_plainly(path, flags | os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise UnavailableError(
            f"direct: the file system of {path} has no O_DIRECT", hint="pin the strategy buffered"
        ) from error


FULL: Final = "make room on the disk, or take another; what was written is gone again"


def hint_of(error: BaseException) -> str | None:
    """What helps: more room where a disk, or what its owner may take of it, is used up."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return FULL
    hint: str | None = getattr(error, "hint", None)
    return hint


def check_length(source: FileSource, found: int) -> None:
    """Raise `InputError` where a file is shorter than what is wanted of it."""
    needed = source.offset + source.size_bytes
    if found < needed:
        raise InputError(
            f"{source.path} has {found} bytes, the plan needs {needed}",
            hint="it changed since the plan was read; check that it is complete",
        )


def read_exactly(fd: int, view: memoryview, offset: int, done: int = 0) -> None:
    """Fill `view` from the file at `offset`, of which the first `done` bytes are there already.

    Raises `ExecutionError` where the file ends early.
    """
    while done < len(view):
        more = preadv(fd, [view[done:]], offset + done)
        if more == 0:
            raise _ended(offset + done, len(view) - done)
        done += more


def _ended(at: int, early: int) -> ExecutionError:
    return ExecutionError(f"the file ends at byte {at}, {early} bytes early: it shrank meanwhile")


def read_aligned(fd: int, view: memoryview, offset: int, needed: int, done: int = 0) -> None:
    """Read around the page cache: `view` and `offset` aligned, the first `needed` bytes must come.

    The first `done` of them are there already. At the end of a file the kernel returns what there
    is; a read that ends inside a block may have met it, and that block is asked for again.
    """
    while done < needed:
        start = done - done % DIRECT_ALIGN
        found = start + preadv(fd, [view[start:]], offset + start)
        if found <= done:
            raise _ended(offset + done, needed - done)
        done = found


def write_exactly(fd: int, view: memoryview, offset: int) -> None:
    """Write all of `view` at `offset`."""
    done = pwritev(fd, [view], offset)
    while done < len(view):
        done += pwritev(fd, [view[done:]], offset + done)


def write_all(fd: int, views: Sequence[memoryview], offset: int) -> None:
    """Write several stretches of memory one behind the other at `offset`, many by one call."""
    for first in range(0, len(views), MOST_BUFFERS):
        group = views[first : first + MOST_BUFFERS]
        wanted = sum(map(len, group))
        if pwritev(fd, group, offset) < wanted:  # seldom: what is left goes one by one
            at = offset
            for view in group:
                write_exactly(fd, view, at)
                at += len(view)
        offset += wanted


def direct_alignment(fd: int) -> int:
    """Bytes that offset, length and address of O_DIRECT must be multiples of."""
    buffer = ctypes.create_string_buffer(256)  # struct statx is 256 bytes on every architecture
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        failed = libc.statx(fd, b"", _AT_EMPTY_PATH, _STATX_DIOALIGN, buffer)
    except AttributeError:  # a C library from before 2018 lacks the call
        return DIRECT_ALIGN
    mask = int.from_bytes(buffer.raw[0:4], "little")
    if failed or not mask & _STATX_DIOALIGN:
        return DIRECT_ALIGN
    # stx_dio_mem_align and stx_dio_offset_align (include/uapi/linux/stat.h, offsets 0x98, 0x9c).
    memory = int.from_bytes(buffer.raw[0x98:0x9C], "little")
    in_file = int.from_bytes(buffer.raw[0x9C:0xA0], "little")
    found = max(memory, in_file)
    return found if 0 < found <= PAGE else DIRECT_ALIGN


def start_writing() -> Callable[[int, int, int], None]:
    """`begin(fd, offset, length)`: let the kernel write these pages to the disk now, not later.

    So the disk is at work while further chunks come, as the model has it. A file system that knows
    no such call writes everything at the end.
    """
    call = ctypes.CDLL(None).sync_file_range
    call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)

    def begin(fd: int, offset: int, length: int) -> None:
        call(fd, offset, length, _SYNC_WRITE)

    return begin
