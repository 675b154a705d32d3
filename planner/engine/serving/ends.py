"""The two ends of a part: a file that is read, a file that is written, memory of host or GPU."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

from planner.engine.aio import Read
from planner.engine.files import (
    DIRECT_ALIGN,
    direct_alignment,
    read_aligned,
    read_exactly,
    write_exactly,
)
from planner.engine.memory import copy_memory, round_up
from planner.engine.serving.residency import Share, counts_pages, residency
from planner.engine.sink import Sink
from planner.errors import InputError

Cache = Literal["auto", "warm", "cold"]
HALF: Final = 0.5
"""Share of a chunk that must be cached for a read through the cache: whatever is missing is read
from the disk either way, and what is there comes ten times faster."""

SURE: Final = 16
"""Equal answers in a row after which most chunks are no longer asked about."""
EVERY: Final = 8
"""Of so many chunks one is asked about then: a question costs a worker some microseconds of the
interpreter, and whole files are mostly cached or not."""


class FileEnd:
    """A file that is read, through the page cache or around it, chunk by chunk as it is cached.

    Parameters
    ----------
    path
        The file.
    cache
        `warm`: all of it through the cache; `cold`: all around it; `auto`: ask for each chunk.

    """

    gpu: Final = None

    def __init__(self, path: str, cache: Cache = "auto") -> None:
        self.path, self.cache = path, cache
        self.note: str | None = None
        self._direct = -1
        self._share: Share | None = None
        self._turn = self._streak = 0
        self._last = False
        self.asks = False
        """Whether each chunk has to be asked about, not known yet or not the same for all."""
        try:
            if not stat.S_ISREG(Path(path).stat().st_mode):  # a pipe would wait for its writer
                raise InputError(f"{path} is not a regular file", hint="name a file")
            self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from error
        self.size = os.fstat(self.fd).st_size
        self.align = DIRECT_ALIGN
        if cache != "warm":
            self._open_direct()

    def _open_direct(self) -> None:
        try:
            self._direct = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                self.close()
                raise InputError(f"{self.path} cannot be read: {error.strerror}") from error
            self.note = f"{self.path}: its file system has no O_DIRECT, read through the cache"
            return
        self.align = direct_alignment(self._direct)
        self._share = residency(self.fd) if self.cache == "auto" else lambda _at, _length: 0.0
        self.asks = True

    def survey(self) -> None:
        """Find out once for all chunks, where the whole file is cached.

        5 ms for 8 GB, so it is done beside the first reads, and only where the kernel counts.
        """
        if self.cache == "auto" and self.asks and self.is_cached():
            self.asks = False

    def is_cached(self) -> bool:
        """Whether the kernel says that all of the file is in the page cache."""
        if not self.size or not counts_pages(self.fd):
            return False
        return residency(self.fd)(0, self.size) == 1.0

    def wants_direct(self, start: int, size: int) -> bool:
        """Whether a range is better read around the page cache."""
        if self._share is None or not self.asks:
            return False
        self._turn += 1  # several workers count here; a lost count costs one question
        if self._streak >= SURE and self._turn % EVERY:
            return self._last
        share = self._share(start, size)
        direct = share is not None and share < HALF
        self._streak = self._streak + 1 if direct == self._last else 0
        self._last = direct
        return direct

    def read(self, view: memoryview, start: int) -> None:
        """Fill the view through the page cache."""
        read_exactly(self.fd, view, start)

    def read_direct(self, slot: memoryview, start: int, size: int) -> int:
        """Read whole blocks into an aligned slot; returns where in it the wanted bytes begin."""
        lead = start % self.align
        needed = lead + size
        read_aligned(self._direct, slot[: round_up(needed, self.align)], start - lead, needed)
        return lead

    def ask(self, start: int, size: int, address: int) -> tuple[Read, int]:
        """A range as one read to an aligned address, and where behind that the bytes begin.

        What is read around the page cache comes in whole blocks.
        """
        if not (self.asks and self.wants_direct(start, size)):
            return Read(self.fd, address, size, start), 0
        lead = start % self.align
        whole = round_up(lead + size, self.align)
        return Read(self._direct, address, whole, start - lead), lead

    def finish(self, read: Read, view: memoryview, needed: int, done: int) -> None:
        """See to the rest of a read that came to an end early, of which so many bytes are there."""
        if self.is_direct(read):
            read_aligned(read.fd, view[: read.size], read.offset, needed, done)
        else:
            read_exactly(read.fd, view[:needed], read.offset, done)

    def is_direct(self, read: Read) -> bool:
        """Whether a read goes around the page cache."""
        return read.fd == self._direct

    def close(self) -> None:
        """Close the file."""
        for fd in (self.fd, self._direct):
            if fd >= 0:
                os.close(fd)
        self.fd = self._direct = -1


class SinkEnd:
    """A file that is written; it appears whole or not at all."""

    gpu: Final = None

    def __init__(self, path: str, size: int, *, overwrite: bool) -> None:
        self.path, self.size = path, size
        self._sink = Sink(path, overwrite=overwrite)
        self._published = False
        self._sink.fresh()

    @property
    def place(self) -> str:
        """The file that is written, whatever its path is called."""
        return str(self._sink.path.resolve())

    def write(self, view: memoryview, start: int) -> None:
        """Write the view at `start`."""
        write_exactly(self._sink.fd, view, start)

    def publish(self) -> None:
        """Give the file its name."""
        os.ftruncate(self._sink.fd, self.size)
        self._sink.publish()

    def close(self) -> None:
        """Close it; what was not published goes."""
        self._sink.discard()


class MemoryEnd:
    """Memory at an address; `gpu` is `None` for the host's, `pinned` what copy engines reach.

    `address` is 0 until memory that the call itself allocates is there; `stream` is what copies
    have to wait for, where the memory's library says so.
    """

    __slots__ = ("_close", "address", "gpu", "keep", "pinned", "size", "stream")

    def __init__(
        self,
        address: int,
        size: int,
        gpu: int | None = None,
        *,
        pinned: bool = False,
        keep: Any = None,
        close: Callable[[], None] | None = None,
    ) -> None:
        self.address, self.size, self.gpu, self.pinned = address, size, gpu, pinned
        self.keep, self._close = keep, close
        self.stream: int | None = None

    def view(self, start: int, size: int) -> memoryview:
        """Some of it as writable bytes."""
        span = (ctypes.c_ubyte * size).from_address(self.address + start)
        return memoryview(span).cast("B")

    def close(self) -> None:
        """Let go of whoever owns it."""
        close, self._close = self._close, None
        self.keep = None
        if close is not None:
            close()


End = FileEnd | SinkEnd | MemoryEnd


def into_slot(part_source: End, start: int, size: int, place: int, view: memoryview) -> None:
    """Bring bytes of a file or of host memory to `place`, which `view` shows."""
    if isinstance(part_source, MemoryEnd):
        copy_memory(place, part_source.address + start, size)
    elif isinstance(part_source, FileEnd):
        part_source.read(view, start)
    else:
        raise TypeError("a sink cannot be read")


def out_of_slot(target: End, to: int, size: int, place: int, view: memoryview) -> None:
    """Bring bytes from `place`, which `view` shows, to host memory or into a file."""
    if isinstance(target, MemoryEnd):
        copy_memory(target.address + to, place, size)
    elif isinstance(target, SinkEnd):
        target.write(view, to)
    else:
        raise TypeError("a file that is read cannot be written")


def close_all(ends: list[End]) -> None:
    """Close every end, each whatever became of the others."""
    with contextlib.ExitStack() as last:
        for end in ends:
            last.callback(end.close)
