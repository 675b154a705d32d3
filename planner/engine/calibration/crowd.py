"""Workers who crowd at the interpreter's lock, with no engine at work: how long a turn takes there.

A chunk takes the lock for some microseconds of bytecode, and handing it to a thread that has to
wake up takes longer than that. Beside copy engines the driver's locks are taken in turn as well,
which joint runs show; what only reads or writes files finds the interpreter's alone. So workers go
through a cached file here, as a plan's do, by chunks that are next to nothing to copy: their pace
is that of the turns.

By usual chunks a short run and a longer one tell what each worker adds to a run until all are at
it. Waking idle threads that only copy takes a part of that: 24 workers took 6.0 ms for 226 MB, and
3.3 is what copies and such waking make (H200 machine, measured 2026-11-30).
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from planner.engine.backends.base import Backend
from planner.engine.calibration.joint import USUAL
from planner.engine.calibration.once import Move, cleared, made_ready
from planner.engine.calibration.rounds import Cell
from planner.engine.files import FileRanges
from planner.engine.memory import HostBuffer
from planner.engine.places import FilePlace, HostPlace
from planner.engine.strategies.disk import READS
from planner.plan.schema import FileSource

CHUNK: Final = 16 << 10
"""Bytes of a chunk: 2 us of one worker's copying at 8 GB/s, and all workers copy at once."""
USUAL_CHUNK: Final = 1 << 20
"""Bytes of a chunk that a file is read by into host memory."""
SHORT, LONG = 2, 12
"""Such chunks for each worker in a short run and in a longer one."""
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
    chunk, chunks
        Bytes of a chunk, and how many there are at the most.

    """

    def __init__(
        self,
        backend: Backend,
        file: Path,
        size: int,
        target: HostBuffer,
        workers: int,
        *,
        chunk: int = CHUNK,
        chunks: int = CHUNKS,
    ) -> None:
        self._undo = contextlib.ExitStack()
        self._target = target
        self._chunks = max(1, min(chunks, min(size, target.size) // chunk))
        self._moved = self._chunks * chunk
        ranges = FileRanges((FileSource(path=str(file), offset=0, size_bytes=self._moved),))
        ranges.open()
        self._undo.callback(ranges.close)
        move = Move(
            "buffered",
            READS["buffered"],
            FilePlace(ranges),
            HostPlace(target),
            self._moved,
            chunk=chunk,
            workers=workers,
        )
        self._transfer = made_ready(backend, move, self._undo)

    def __call__(self) -> float:
        """Seconds of a chunk, all workers at it."""
        return self._run() / self._chunks

    def behind_clearing(self) -> float:
        """Seconds of a run whose target was cleared right before, as that of a plan is."""
        cleared(HostPlace(self._target), self._moved)
        return self._run()

    def _run(self) -> float:
        moved = self._transfer.run()
        return moved.end - moved.start

    def close(self) -> None:
        """Give threads and file back."""
        self._undo.close()


def cells(
    backend: Backend, file: Path, target: HostBuffer, cores: int, undo: contextlib.ExitStack
) -> list[Cell]:
    """The cells of a turn and of what workers add to a run, none where one is all there is.

    As many workers as rings usually have at the most: how many stand and wait changes little.
    """
    workers = min(cores, USUAL)
    if workers < 2:
        return []
    size = file.stat().st_size

    def ready(**shape: int) -> Crowd:
        run = Crowd(backend, file, size, target, workers, **shape)
        undo.callback(run.close)
        run()  # starts the threads
        return run

    found = [Cell(("turn", workers), ready(), workers)]
    if LONG * workers * USUAL_CHUNK > min(size, target.size):
        return found
    for each in (SHORT, LONG):
        run = ready(chunk=USUAL_CHUNK, chunks=each * workers)
        # All that is to be seen of other threads is those that clear.
        found.append(Cell(("gather", workers, each), run.behind_clearing, workers, waits=True))
    return found


def lead_of(found: list[Cell]) -> float | None:
    """Seconds that each worker after the first adds to a run, `None` where that was not sampled."""
    seen = {
        cell.key[1:]: cell.summary().median
        for cell in found
        if isinstance(cell.key, tuple) and cell.key[0] == "gather" and cell.taken
    }
    every = []
    for (workers, each), short in seen.items():
        long = seen.get((workers, LONG))
        if each == SHORT and long is not None:
            pace = (long - short) / (LONG - SHORT)
            every.append(max(0.0, short - SHORT * pace) / (workers - 1))
    return max(every, default=None)


def turn_of(found: list[Cell]) -> float | None:
    """Seconds of a turn at the interpreter's lock, `None` where it was not sampled."""
    seen = [
        cell.summary().median
        for cell in found
        if isinstance(cell.key, tuple) and cell.key[0] == "turn" and cell.taken
    ]
    return max(seen, default=None)
