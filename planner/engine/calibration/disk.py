"""The disk: cold reads through the page cache and around it, and what it takes to write and sync.

What readers have read goes on to a GPU (`onward`), unless they read into memory that stays.

On a virtual machine `cold` is cold in the guest only: the host below may hold the blocks in its own
cache. The record says so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Barrier
from typing import Final

from planner.engine.calibration.abreast import abreast
from planner.engine.calibration.onward import Onward
from planner.engine.calibration.rounds import Cell
from planner.engine.files import read_exactly
from planner.engine.memory import Mapping, Ring

MIB: Final = 1 << 20
UNIT: Final = 4 * MIB
"""The size of the file is a multiple of it."""
UNDER_WAY: Final = 64 * MIB
"""Bytes of all requests of a pool at the most: beyond it no disk gains, and the memory is touched
before anything is timed."""
SLOTS: Final = 2
"""Places that a reader reads into, in turn, as a worker of a ring: into one and the same a virtual
disk brought 3.4 GB/s, into two 2.7, into nine, which no core's own cache holds, 2.0 (requests of
4 MiB around the page cache, measured 2026-11-30 on a guest whose host had the file in memory)."""
AFAR: Final = ((1, 4 * MIB), (4, MIB))
"""Pools, as (readers, bytes of a request), that read into memory which nobody used a moment ago,
and in which the bytes stay."""
LEAST: Final = 64 * MIB
"""Bytes that are written whatever the time."""
FLUSH: Final = 256 * MIB
"""Bytes after which what was written is brought to the disk."""
AROUND: Final = "direct"
"""Reads around the page cache: no read-ahead changes the requests on their way to the disk."""
MAPPED: Final = (4 * MIB, 16 * MIB)
"""Bytes of the parts of a cold mapping that are touched: more than any read-ahead."""


class Reader:
    """Reads a file once through, in requests, so that no byte of it is met twice."""

    def __init__(
        self,
        path: Path,
        size: int,
        *,
        direct: bool,
        room: int,
        seconds: float,
        onward: Onward | None = None,
    ) -> None:
        self.path = path
        self.size = size
        self.seconds = seconds
        self.at = 0
        self._onward = onward
        self.handle = os.open(path, os.O_RDONLY | (os.O_DIRECT if direct else 0))
        # Memory like that of a transfer's ring; touched, so that no page fault is timed.
        self.ring = Ring(1, 1, room)
        self.ring.touch(0)
        if onward is not None:
            try:
                onward.register(self.ring.buffer.address, self.ring.size)
            except BaseException:
                os.close(self.handle)
                self.ring.close()
                raise

    def close(self) -> None:
        """Give the file and the memory back."""
        os.close(self.handle)
        if self._onward is not None:
            self._onward.unregister(self.ring.buffer.address)
        self.ring.close()

    def forget(self) -> None:
        """Start again at the front, with nothing of the file in the page cache."""
        self.at = 0
        self.drop()

    def drop(self) -> None:
        """Let the page cache forget the file: another reader may have brought parts of it in."""
        os.posix_fadvise(self.handle, 0, 0, os.POSIX_FADV_DONTNEED)

    def together(self, readers: int, length: int, slots: int = SLOTS) -> float:
        """Bytes/s of so many threads that take requests of `length` bytes one after another.

        As the workers of a transfer do: each has one request under way, takes the next of all, and
        reads into its own `slots` in turn. Out of two slots the bytes go on to the GPU where there
        is one; more are memory in which they stay. The rate is the sum of what each did in its own
        time, so that no straggler is waited for.
        """
        self.drop()
        if self.at > self.size // 2:
            self.forget()
        first, room = self.at, max(1, (self.size - self.at) // length)
        view, turns, ready = self.ring.views(0)[0], count(), Barrier(readers)
        onward = self._onward if slots == SLOTS else None
        lanes = [] if onward is None else onward.lanes(readers)

        def read(k: int) -> tuple[float, int]:
            row = [(k * slots + slot) * length for slot in range(slots)]
            done = 0
            if onward is not None:
                onward.attach()
            ready.wait()
            start = time.perf_counter()
            while True:
                turn = next(turns)
                if turn >= room:
                    return done / (time.perf_counter() - start), turn
                slot = done // length % slots
                at = row[slot]
                if lanes:
                    lanes[k].wait(slot)
                read_exactly(self.handle, view[at : at + length], first + turn * length)
                if onward is not None:
                    origin = self.ring.buffer.address + at
                    lanes[k].copy(slot, onward.place(at, length), origin, length)
                done += length
                now = time.perf_counter()
                if now - start >= self.seconds:
                    return done / (now - start), turn

        try:
            found = abreast(read, readers, ready)
        finally:
            if onward is not None:
                onward.settle()
        self.at = first + min(room, 1 + max(turn for _, turn in found)) * length
        return sum(rate for rate, _ in found)

    def mapped(self, length: int) -> float:
        """Seconds in which one thread brings `length` bytes in by touching a mapping of them."""
        self.drop()
        if self.at + length > self.size:
            self.forget()
        one = Mapping(str(self.path), self.at, length)
        try:
            start = time.perf_counter()
            one.touch()
            return time.perf_counter() - start
        finally:
            one.close()
            self.at += length


@dataclass
class ColdFile:
    """A file on the disk, and the readers of it; what cannot be read in some way has no cells."""

    path: Path
    size: int
    requests: Sequence[int]
    readers: Sequence[int]
    seconds: float
    open: list[Reader] = field(default_factory=list)
    onward: Onward | None = field(default=None, init=False)

    def cells(self, *, mapped: bool, onward: Onward | None = None) -> Iterator[Cell]:
        """Cold reads through the page cache, around it, and (if asked) through a mapping.

        What is read goes `onward` where that is given, and is given back with the file. File
        systems without `O_DIRECT` refuse it when the file is opened, or when it is read.
        """
        if self.onward is not None:
            self.onward.close()
        self.onward = onward
        for name in ("buffered", "direct"):
            reader = self._reader(direct=name == "direct", onward=onward)
            if reader is not None:
                yield from self._cells(name, reader)
        if mapped and (reader := self._reader(direct=False, onward=None)) is not None:
            for length in MAPPED:
                if length <= self.size:

                    def run(reader: Reader = reader, length: int = length) -> float:
                        return reader.mapped(length)

                    yield Cell(("disk", "mmap", "alone", length), run, waits=True)

    def _pools(self) -> list[tuple[int, int]]:
        """(readers, bytes of a request) of all pools that are measured."""
        most = min(UNDER_WAY, self.size // 2)
        every = [(n, length) for n in self.readers for length in self.requests]
        return [(n, length) for n, length in every if n * length <= most]

    def _room(self) -> int:
        """Bytes of memory for the slots of the largest pool, and never less than a cache holds."""
        return max([UNDER_WAY, *(SLOTS * n * length for n, length in self._pools())])

    def _cells(self, name: str, reader: Reader) -> Iterator[Cell]:
        for number, length in self._pools():

            def together(number: int = number, length: int = length) -> float:
                return reader.together(number, length)

            key = ("disk", name, "readers", number, length)
            yield Cell(key, together, number, is_rate=True, waits=True)
        if name == AROUND:
            yield from self._afar(name, reader)

    def _afar(self, name: str, reader: Reader) -> Iterator[Cell]:
        """The same pools into all of the memory: it goes into host memory that way.

        Through the page cache the bytes lie in new pages first, wherever they go then.
        """
        for number, length in AFAR:
            if (number, length) in self._pools():
                slots = self._room() // (number * length)

                def afar(number: int = number, length: int = length, slots: int = slots) -> float:
                    return reader.together(number, length, slots)

                key = ("disk", name, "afar", number, length)
                yield Cell(key, afar, number, is_rate=True, waits=True)

    def _reader(self, *, direct: bool, onward: Onward | None) -> Reader | None:
        """A reader of the file with nothing of it in the page cache."""
        reader = None
        try:
            reader = Reader(
                self.path,
                self.size,
                direct=direct,
                room=self._room(),
                seconds=self.seconds,
                onward=onward,
            )
            reader.forget()
            read_exactly(reader.handle, reader.ring.views(0)[0][: min(self.requests)], 0)
        except OSError:
            if reader is not None:
                reader.close()
            return None
        self.open.append(reader)
        return reader

    def close(self) -> None:
        """Close the readers, and give back what they passed their bytes on by."""
        for reader in self.open:
            reader.close()
        self.open.clear()
        if self.onward is not None:
            self.onward.close()
            self.onward = None


def write_cold(path: Path, size: int, block: memoryview, seconds: float) -> tuple[int, float]:
    """Write up to `size` bytes for about so many seconds; how many, and bytes/s with the sync.

    The file stays, with the `block` repeated: it serves the reads afterwards.
    """
    start = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        written = 0
        while written < size and (written < LEAST or time.perf_counter() - start < seconds):
            written += file.write(block[: min(len(block), size - written)])
            # Without it the page cache would take all at its own speed, and the sync would last.
            if written % FLUSH == 0:
                os.fdatasync(file.fileno())
        os.fsync(file.fileno())
    return written, written / (time.perf_counter() - start)
