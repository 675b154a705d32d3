"""Memory registered piece by piece, each ahead of its copy: by the engine's own pipeline.

What a registration takes there depends on what is around it: pages that nobody has looked at since
the run before are in no cache, copies of earlier pieces are under way, and the thread is new. A
loop over the same pieces found them a fifth faster than loads did (H200 machine, measured
2026-11-29). So the strategy itself runs, with several sizes of pieces.

The first piece of a run takes longer than the others: a thread is started that helps, and neither
the driver's code nor its tables are in any cache. Flows of a few pieces pay that as loads of many
do, so it is no part of the pace: a run of two pieces tells it, as the overhead of the curve.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, cast

from planner.engine.awake import Waker
from planner.engine.backends.base import Backend
from planner.engine.caches import THREADS, enough, sweep
from planner.engine.calibration.copies import curve_of
from planner.engine.calibration.device import Memory
from planner.engine.calibration.once import FEW_IN_A_ROW, Move, Once
from planner.engine.calibration.rounds import Cell, pooled
from planner.engine.files import FileRanges
from planner.engine.memory import HostBuffer, Mapped, Mapping
from planner.engine.places import DevicePlace, HostPlace, MappedPlace, Place
from planner.engine.route import SourceRest
from planner.engine.strategies.registered_chunks import registered_chunks
from planner.engine.terms import Terms
from planner.engine.transfer import Moved
from planner.machine.curve import Curve
from planner.plan.schema import FileSource

MIB: Final = 1 << 20
PIECES: Final = tuple(size * MIB for size in (4, 8, 16, 32, 64, 128))
"""Bytes that are registered at a time: what each call costs at one end, what bytes cost at the
other. Pieces of 12 MiB, chosen by a line from 16 down, took 1.3 times as long as predicted (one
H200, measured 2026-12-01)."""
FEWEST: Final = 2
"""Pieces of a run at the least: before the second one there is nothing under way."""
BEGIN: Final = "begin"
"""Second part of the key of a run of so few pieces, whose seconds are those of the whole run."""
BEGINS: Final = 16 * MIB
"""Bytes of each of these pieces, where that many fit."""
LENGTH: Final = 512 * MIB
"""Bytes of a file that are registered in a run: some 15 ms on an H200 machine."""
TOUCHED: Final = 256 * MIB
"""The same of ordinary memory, which takes longer."""
DEPTH: Final = 2
"""Slots of the worker, as a plan has it."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """The cells of one GPU; `through` is memory that may be written between two runs."""

    backend: Backend
    gpu: int
    device: DevicePlace
    through: Memory
    undo: contextlib.ExitStack

    def file_cells(self, file: Path) -> Iterator[Cell]:
        """Pieces of a cached file, whose mapping forgets its pages before each run.

        By one thread, and with the help of a second one.
        """
        room = self.device.buffer.size if self.device.buffer else 0
        length = min(room, file.stat().st_size, LENGTH)
        if not _sizes(length):
            return
        mapping = Mapping(str(file), 0, length)
        self.undo.callback(mapping.close)
        ranges = FileRanges((FileSource(path=str(file), offset=0, size_bytes=length),))
        place = MappedPlace(ranges, Mapped([mapping]))
        for name, terms in (("register_ahead", Terms()), ("register_helped", Terms(helped=True))):
            yield from self._cells(name, length, place, mapping.forget, terms)

    def memory_cells(self) -> Iterator[Cell]:
        """Pieces of ordinary memory that was touched before."""
        length = min(self.device.buffer.size if self.device.buffer else 0, TOUCHED)
        if not _sizes(length):
            return
        buffer = HostBuffer(length)
        self.undo.callback(buffer.close)
        buffer.touch(THREADS)
        yield from self._cells("register_memory", length, HostPlace(buffer))

    def _cells(
        self,
        name: str,
        length: int,
        source: Place,
        forget: Callable[[], None] = lambda: None,
        terms: Terms | None = None,
    ) -> Iterator[Cell]:
        def before() -> None:
            forget()
            sweep(self.through.address, min(self.through.size, enough()))

        waker = Waker(self.backend)
        self.undo.callback(waker.close)

        def once(piece: int, size: int, took: Callable[[Moved], float] = whole) -> Once:
            move = Move(
                "registered_chunks",
                registered_chunks(self.gpu),
                source,
                self.device,
                size,
                chunk=piece,
                depth=DEPTH,
                rests=(SourceRest(),),
                terms=terms or Terms(),
            )
            run = Once(self.backend, self.gpu, move, waker, before, took, FEW_IN_A_ROW)
            self.undo.callback(run.close)
            return run

        sizes = _sizes(length)
        for piece in sizes:
            size = length - length % piece
            # All that is to be seen of other threads is those that empty the caches beforehand.
            cell = Cell((name, "alone", piece), None, THREADS, waits=True)
            yield _with_end(cell, once(piece, size, pace), piece / size)
        few = min(BEGINS, sizes[-1])
        yield Cell((name, BEGIN, few), once(few, FEWEST * few), THREADS, waits=True)


def _with_end(cell: Cell, run: Once, share: float) -> Cell:
    """The cell of the run, which also takes what giving one piece back costs at the end."""

    def both() -> float:
        seconds = run()
        cell.also.append(run.undone * share)
        return seconds

    cell.run = both
    return cell


def _sizes(length: int) -> list[int]:
    return [piece for piece in PIECES if FEWEST * piece <= length]


def begun(name: str, cells: Sequence[Cell], copies: Curve | None) -> Curve | None:
    """The curve of that name with what a run takes before its pieces go at their pace.

    Parameters
    ----------
    name, cells
        Of the curve, and everything that was sampled.
    copies
        Pinned copies to the GPU, of which each piece has one behind its registration.

    """
    curve = curve_of(name, cells)
    own = [c for c in cells if isinstance(c.key, tuple) and c.key[:2] == (name, BEGIN) and c.taken]
    if curve is None or copies is None or not own:
        return curve
    found = pooled(own)
    piece = int(cast("tuple[str, str, int]", found.key)[2])
    each, copy = curve.seconds(piece), copies.seconds(piece)
    # The first is registered, the others are beside a copy each, and the last one's copy is left.
    paced = each + (FEWEST - 1) * max(each, copy) + copy
    return curve.model_copy(update={"overhead": max(0.0, found.summary().median - paced)})


def whole(moved: Moved) -> float:
    """Seconds of the whole run."""
    return moved.end - moved.start


def pace(moved: Moved) -> float:
    """Seconds that each piece but the first keeps the thread that registers, its copy's issue too.

    Waiting for a slot is no part of it: that the copy before the last has not arrived is the copy
    engine's doing.
    """
    registered, copied = moved.intervals
    total = sum(end - start for start, end in registered[1:])
    for number, ((_, done), (begun, _)) in enumerate(pairwise(registered)):
        waited_for = number + 1 - DEPTH
        free = copied[waited_for][1] if waited_for >= 0 else done
        total += max(0.0, begun - max(done, free))
    return total / (len(registered) - 1)
