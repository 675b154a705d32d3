"""What the disk takes: new files, by several writers at once, until it has all of them.

Each sample writes a file anew, as a save does: room must be found for it. It goes through the page
cache, or around it, in the engine's own way, and lasts until the disk has it, since only a save
that waits for that (`fsync`) waits for the disk at all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from threading import Barrier
from typing import Final

from planner.engine.calibration.abreast import abreast
from planner.engine.calibration.rounds import Cell
from planner.engine.files import read_exactly, start_writing, write_exactly
from planner.engine.memory import Ring
from planner.engine.sink import Sink
from planner.errors import PlannerError

THROUGH: Final = "buffered_write"
"""How cells of writes through the page cache are called, where those of reads are `buffered`."""
AROUND: Final = "direct_write"
"""The same of writes around it."""
SLOTS: Final = 2
"""Places that a writer writes from, in turn, as a worker of a ring."""
PLAIN: Final = 1 << 20
"""Bytes of a write through the page cache: the kernel makes the disk's requests of them."""

Pool = tuple[int, int]
"""Writers, and bytes of the request that each has under way."""


class FileWriter:
    """Writes files of at most `size` bytes beside `source`, whose bytes they get.

    Parameters
    ----------
    source
        A file that is long enough: a disk that compresses would be too fast with zeros.
    size
        Bytes after which a sample ends, whatever the time.
    pools
        All that are measured.
    seconds
        Seconds after which no further request of a sample begins.

    """

    def __init__(self, source: Path, size: int, pools: Sequence[Pool], seconds: float) -> None:
        self._size, self._seconds = size, seconds
        self._pools = [(n, length) for n, length in pools if SLOTS * n * length <= size]
        self._ring = Ring(1, 1, max([1, *(SLOTS * n * length for n, length in self._pools)]))
        with source.open("rb", buffering=0) as file:
            read_exactly(file.fileno(), self._ring.views(0)[0], 0)
        self._sinks = {
            name: Sink(str(source.with_name(name)), size=size) for name in (THROUGH, AROUND)
        }
        self._sinks[AROUND].go_around()
        self._begin = start_writing()

    def cells(self) -> Iterator[Cell]:
        """A cell of each pool; without those around the page cache where nothing goes around it."""
        for name in self._sinks:
            pools = self._pools
            if name == THROUGH:
                pools = [(n, length) for n, length in pools if length == PLAIN]
            elif not self._goes(pools):
                continue
            for writers, length in pools:

                def together(name: str = name, writers: int = writers, size: int = length) -> float:
                    return self.together(name, writers, size)

                key = ("disk", name, "readers", writers, length)
                yield Cell(key, together, writers, is_rate=True, waits=True)

    def _goes(self, pools: Sequence[Pool]) -> bool:
        """Whether the file system takes writes around the page cache."""
        try:
            return bool(pools) and self.together(AROUND, 1, min(n for _, n in pools)) > 0
        except (OSError, PlannerError):
            return False

    def together(self, name: str, writers: int, length: int) -> float:
        """Bytes/s of so many writers, each with one request of `length` bytes under way."""
        sink, around, view = self._sinks[name], name == AROUND, self._ring.views(0)[0]
        turns, ready, room = count(), Barrier(writers), self._size // length
        fd = -1

        def write(k: int) -> tuple[float, int]:
            row = [(SLOTS * k + slot) * length for slot in range(SLOTS)]
            done = 0
            ready.wait()
            start = time.perf_counter()
            while time.perf_counter() - start < self._seconds or not done:
                turn = next(turns)
                if turn >= room:
                    break
                at = row[done // length % SLOTS]
                write_exactly(fd, view[at : at + length], turn * length)
                if not around:
                    self._begin(fd, turn * length, length)
                done += length
            return start, done

        try:
            sink.fresh()
            fd = sink.direct_fd if around else sink.fd
            found = abreast(write, writers, ready)
            os.fsync(fd)
            end = time.perf_counter()
        finally:
            sink.discard()
        return sum(done for _, done in found) / (end - min(start for start, _ in found))

    def close(self) -> None:
        """Give the memory back, and what an ended sample has left."""
        for sink in self._sinks.values():
            sink.discard()
        self._ring.close()
