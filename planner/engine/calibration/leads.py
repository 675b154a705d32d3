"""Short runs of pipelines: what a run takes longer than at its pace.

Workers are woken one after another, each wants the interpreter's lock for code that is in no cache
of its core, and its first chunks go into slots that are in none either: between two runs bytes are
verified and targets made unrecognisable. Waking idle threads that do nothing else takes a quarter
of it (33 us a worker of some 140 on one H200 machine, measured 2026-11-29). A long run hides it,
so short ones are run, behind what lies before those of a plan (a target in host memory is written
over, then bytes go through the caches), and what they take beside the model's own time at the pace
of the long ones is the `lead` of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from planner.engine.caches import sweep, verifying
from planner.engine.calibration.coupling import OUTWARD
from planner.engine.calibration.joint import (
    CHUNK,
    LEAST_CHUNKS,
    SMALL,
    USUAL,
    Pipelines,
    Run,
)
from planner.engine.calibration.once import cleared
from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.scope import FEW_CORES
from planner.engine.places import HostPlace
from planner.machine.schema import CopyName
from planner.model.strategies import Shape

MIB: Final = 1 << 20
LEAD: Final = "lead"
"""First part of the key of a short run."""
COPIES: Final[tuple[CopyName, ...]] = ("file", "memory", "save_memory")
"""Copies that are run; a file system that is written to takes longer than any thread."""


def counts(workers: Sequence[int], *, few: bool) -> list[int]:
    """Numbers of workers to run with: all that fill a link, or the fewest, a middle one, the most.

    >>> counts([1, 2, 4, 8, 16, 24, 32], few=True)
    [2, 4, 16]
    >>> counts([1, 2], few=False)
    [1, 2]
    """
    usual = [count for count in workers if count <= USUAL]
    if not few or len(usual) < FEW_CORES:
        return usual
    return sorted({usual[1], usual[len(usual) // 2], usual[-1]})


def shape(workers: int, stock: int, copy: CopyName = "memory") -> Shape:
    """Two slots each; small chunks for few workers, as short flows have them.

    Outward all have them: a run of 192 MiB into memory that caches hold in part goes at more than
    the pace of long ones, which hid what it took beside it (one H200, measured 2026-12-01).
    """
    chunk = min(CHUNK, max(MIB, stock // 16))
    small = max(SMALL, chunk // 2)
    return Shape(small if workers <= FEW_CORES or copy in OUTWARD else chunk, 2, workers)


def cells(ready: Pipelines, workers: Sequence[int]) -> list[Cell]:
    """One cell for each number of workers."""
    copy, stock = ready.copy, ready.stock

    def before(size: int) -> None:
        if copy in OUTWARD:
            cleared(HostPlace(stock.host.owner), size)
        sweep(stock.through.address, min(stock.through.size, verifying(size)))

    found = []
    for count in workers:
        own = shape(count, stock.size, copy)
        size = min(stock.size, LEAST_CHUNKS * own.chunk * count)
        size -= size % own.chunk
        key = (LEAD, copy, own.chunk, own.depth, own.workers, size)
        # All that is to be seen of other threads is those that clear and sweep.
        run = ready.ready(Run(own, size), partial(before, size))
        found.append(Cell(key, run, count + 1, waits=True))
    return found
