"""Workers who crowd at the interpreter's lock, with no engine at work: how long a turn takes there.

A chunk takes the lock for some microseconds of bytecode, and handing it to a thread that has to
wake up takes longer than that. Beside copy engines the driver's locks are taken in turn as well,
which joint runs show; what only reads or writes files finds the interpreter's alone. So workers go
through a cached file here, as a plan's do, by chunks that are next to nothing to copy: their pace
is that of the turns.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from planner.engine.backends.base import Backend
from planner.engine.calibration.joint import USUAL
from planner.engine.calibration.once import Move, made_ready
from planner.engine.calibration.rounds import Cell
from planner.engine.files import FileRanges
from planner.engine.memory import HostBuffer
from planner.engine.places import FilePlace, HostPlace
from planner.engine.strategies.disk import READS
from planner.plan.schema import FileSource

CHUNK: Final = 16 << 10
"""Bytes of a chunk: 2 us of one worker's copying at 8 GB/s, and all workers copy at once."""
CHUNKS: Final = 4096
"""Chunks of a run: 60 ms at 15 us each, of which waking the workers is a hundredth."""


class Crowd:
    """A pipeline from a cached file into memory by many workers; a call gives seconds a chunk.

    Parameters
    ----------
    backend
        The engine's; it copies nothing here.
    file, size
        A cached file, and how many bytes of it there are.
    target
        Memory of that size at the least, touched.
    workers
        How many there are, two or more.

    """

    def __init__(
        self, backend: Backend, file: Path, size: int, target: HostBuffer, workers: int
    ) -> None:
        self._undo = contextlib.ExitStack()
        whole = min(size, target.size) // CHUNK
        self._chunks = max(1, min(CHUNKS, whole))
        moved = self._chunks * CHUNK
        ranges = FileRanges((FileSource(path=str(file), offset=0, size_bytes=moved),))
        ranges.open()
        self._undo.callback(ranges.close)
        move = Move(
            "buffered",
            READS["buffered"],
            FilePlace(ranges),
            HostPlace(target),
            moved,
            chunk=CHUNK,
            workers=workers,
        )
        self._transfer = made_ready(backend, move, self._undo)

    def __call__(self) -> float:
        """Seconds of a chunk, all workers at it."""
        moved = self._transfer.run()
        return (moved.end - moved.start) / self._chunks

    def close(self) -> None:
        """Give threads and file back."""
        self._undo.close()


def cells(
    backend: Backend, file: Path, target: HostBuffer, cores: int, undo: contextlib.ExitStack
) -> list[Cell]:
    """The cell of a turn, none where one worker is all there is.

    As many workers as rings usually have at the most: how many stand and wait changes little.
    """
    workers = min(cores, USUAL)
    if workers < 2:
        return []
    run = Crowd(backend, file, file.stat().st_size, target, workers)
    undo.callback(run.close)
    run()  # starts the threads
    return [Cell(("turn", workers), run, workers)]


def turn_of(found: list[Cell]) -> float | None:
    """Seconds of a turn at the interpreter's lock, `None` where it was not sampled."""
    seen = [
        cell.summary().median
        for cell in found
        if isinstance(cell.key, tuple) and cell.key[0] == "turn" and cell.taken
    ]
    return max(seen, default=None)
