"""The page cache let go behind a load, by a thread of its own, so that no read waits for it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Event, Thread

from planner.engine.memory import PAGE, round_up
from planner.plan.schema import FileSource

Range = tuple[int, int, int]
"""(file descriptor, offset, bytes) of what was read."""

fadvise = os.posix_fadvise


class Releaser:
    """Lets go of pages in the order in which they were read; `put` costs a worker one append."""

    def __init__(self, name: str) -> None:
        self._queue: SimpleQueue[Range | Event | None] = SimpleQueue()
        self.put: Callable[[Range], None] = self._queue.put
        self._thread = Thread(target=self._serve, name=f"{name} release", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while (one := self._queue.get()) is not None:
            if isinstance(one, Event):
                one.set()
                continue
            fd, offset, length = one
            low = offset - offset % PAGE
            # A hint: where it fails the pages stay, and nothing else is lost.
            with contextlib.suppress(OSError):
                fadvise(fd, low, round_up(offset + length - low, PAGE), os.POSIX_FADV_DONTNEED)

    def flush(self) -> None:
        """Wait until everything that was put is let go."""
        done = Event()
        self._queue.put(done)
        done.wait()

    def close(self) -> None:
        """End the thread."""
        self._queue.put(None)
        self._thread.join()


def let_go(files: Sequence[FileSource]) -> None:
    """Let go of all pages of the ranges; what others hold, or is not on the disk yet, stays."""
    for source in files:
        with contextlib.suppress(OSError):
            fd = os.open(source.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                low = source.offset - source.offset % PAGE
                length = round_up(source.offset + source.size_bytes - low, PAGE)
                fadvise(fd, low, length, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)
