"""Workers who crowd at the interpreter's lock, with no engine at work: how long a turn takes there.

A chunk takes the lock for some microseconds of bytecode, and handing it to a thread that has to
wake up takes longer than that. Beside copy engines the driver's locks are taken in turn as well,
which joint runs show; what only reads or writes files finds the interpreter's alone. So workers go
through a cached file here, as a plan's do, by chunks that are next to nothing to copy: their pace
is that of the turns.

A run by usual chunks tells what each worker adds until all are at it: what it takes longer than at
the pace of the copy tables. Waking idle threads that only copy takes a part of that; the rest is
that others have just written the memory, whose caches it is in. 24 workers took 6.0 ms for 226 MB,
and 3.3 is what copies and such waking make (H200 machine, measured 2026-11-30).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from planner.engine.backends.base import Backend
from planner.engine.caches import sweep, verifying
from planner.engine.calibration.device import Memory
from planner.engine.calibration.joint import USUAL
from planner.engine.calibration.once import Move, cleared, made_ready
from planner.engine.calibration.rounds import Cell
from planner.engine.files import FileRanges
from planner.engine.memory import HostBuffer
from planner.engine.places import FilePlace, HostPlace
from planner.engine.strategies.disk import READS
from planner.machine.tables import CopyTable
from planner.model.strategies.copying import crowded, meeting, turn_among
from planner.plan.schema import FileSource

CHUNK: Final = 16 << 10
"""Bytes of a chunk: 2 us of one worker's copying at 8 GB/s, and all workers copy at once."""
USUAL_CHUNK: Final = 1 << 20
"""Bytes of a chunk that a file is read by into host memory."""
EACH: Final = 12
"""Such chunks for each worker in a run: 200 MB by sixteen."""
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

    def behind_clearing(self, through: Memory) -> float:
        """Seconds of a run before which, as in a plan, its target is cleared and caches are swept.

        The bytes of `through` are what goes through the caches.
        """
        cleared(HostPlace(self._target), self._moved)
        sweep(through.address, min(through.size, verifying(self._moved)))
        return self._run()

    def _run(self) -> float:
        moved = self._transfer.run()
        return moved.end - moved.start

    def close(self) -> None:
        """Give threads and file back."""
        self._undo.close()


def cells(
    backend: Backend,
    file: Path,
    target: HostBuffer,
    through: Memory,
    cores: int,
    undo: contextlib.ExitStack,
) -> list[Cell]:
    """The cells of a turn and of what workers add to a run, none where one is all there is.

    As many workers as rings usually have at the most: how many stand and wait changes little. The
    bytes of `through` may be written.
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
    if EACH * workers * USUAL_CHUNK > min(size, target.size):
        return found
    run = ready(chunk=USUAL_CHUNK, chunks=EACH * workers)
    # All that is to be seen of other threads is those that clear and sweep.
    behind = partial(run.behind_clearing, through)
    return [*found, Cell(("gather", workers), behind, workers, waits=True)]


def lead_of(
    found: Sequence[Cell], table: CopyTable | None, turn: float | None = None
) -> float | None:
    """Seconds that each worker after the first adds to a run, `None` where that was not sampled.

    The pace is that of the `table` for memory of the run's size, by turns at the lock of `turn`.
    """
    every = []
    for cell in found:
        if isinstance(cell.key, tuple) and cell.key[0] == "gather" and cell.taken and table:
            workers = int(cell.key[1])
            moved = EACH * workers * USUAL_CHUNK
            copying = table.per_chunk + workers * USUAL_CHUNK / table.rate(workers, moved)
            own = turn_among(workers, table.per_chunk, turn or 0.0)
            at_pace = EACH * crowded(copying, workers * own)
            every.append(max(0.0, cell.summary().median - at_pace) / (workers - 1))
    return max(every, default=None)


def turn_of(found: list[Cell]) -> float | None:
    """Seconds of a turn at the interpreter's lock, `None` where it was not sampled.

    Of one that meets all others: those that were sampled have met so many.
    """
    seen = [
        cell.summary().median / meeting(int(cell.key[1]))
        for cell in found
        if isinstance(cell.key, tuple) and cell.key[0] == "turn" and cell.taken
    ]
    return max(seen, default=None)
