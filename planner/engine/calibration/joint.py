"""Joint runs: the real pipeline of a kind of copy, by as many workers as each table has rows."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from planner.engine.awake import Waker
from planner.engine.backends.base import Backend
from planner.engine.calibration.coupling import OUTWARD, READ_APART, Joint, movement
from planner.engine.calibration.device import Memory
from planner.engine.calibration.pause import after_pause, at_once
from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.scope import FEW_CORES
from planner.engine.calibration.statistics import Summary, typical
from planner.engine.files import FileRanges
from planner.engine.places import DevicePlace, FilePlace, HostPlace, Place, SinkPlace
from planner.engine.route import route_of
from planner.engine.sink import Sink
from planner.engine.team import Team
from planner.engine.transfer import Line, Transfer
from planner.engine.waits import Stop
from planner.machine.schema import CopyName, Machine
from planner.model.strategies import Shape
from planner.native import LEAST_CHUNK
from planner.plan.schema import FileSource

MIB: Final = 1 << 20
CHUNK: Final = 4 * MIB
"""Bytes: in the flat optimum of every machine measured so far."""
SMALL: Final = MIB
"""A chunk that copies and link take about as long for as the locks do."""
TINY: Final = LEAST_CHUNK
"""The smallest that is run: all but the turns at the locks is next to nothing."""
USUAL: Final = 16
"""Workers that fill any link at 4 to 5 GB/s each. More only crowd at the locks: 2 MiB chunks took
113 us each with 24 and 148 us with 32 workers on one H200, which says nothing of rings that are
chosen (measured 2026-11-29)."""
MIDDLE: Final = 8
"""Workers whose copies, not the link, set the pace: only there a slot's idle time shows. Sixteen
with one slot of 4 MiB each were as fast as predicted without any, eight and six with 3 and 2 MiB
took 1.3 and 1.5 times as long (two H200s, measured 2026-11-30)."""
LEAST_CHUNKS: Final = 4
"""Chunks of a run at the least."""
MOST_CHUNKS: Final = 1024
"""The same at the most: some 70 ms of turns, or 0.1 s of copies."""
SAVED: Final = 4
"""Part of the stock that is saved in a run: new pages of the page cache come at 2 to 5 GB/s, a
tenth of what the other copies reach."""


APART: Final = 0.67 / 0.56
"""Half interquartile range of a normal distribution by half the mean distance of two samples."""


@dataclass(frozen=True, slots=True)
class Stock:
    """What joint runs move: a cached file, host memory, device memory, and a folder to save to.

    `through` is memory that may be written between two runs, `node` the GPU's name on the machine,
    and `offset` where the file's part begins.
    """

    file: Path
    host: Memory
    device: Memory
    folder: Path
    size: int
    through: Memory
    node: str = "gpu0"
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """A shape, the bytes of one pass over the stock, and the passes in one run."""

    shape: Shape
    size: int
    times: int = 1

    @property
    def total(self) -> int:
        """Bytes that one run moves."""
        return self.size * self.times


def runs(planned: Sequence[Shape], most: int, each: int, *, again: bool) -> list[Run]:
    """How much each shape moves: `each` bytes a worker, at most `most` in one pass.

    Waking the workers takes part of a millisecond, which a run of 20 ms would take for a slower
    pipeline (41 instead of 51 GB/s on one H200); so all runs take about as long as one worker does
    for its bytes. With `again` the stock is gone over several times.
    """
    found = []
    for shape in planned:
        wanted = max(LEAST_CHUNKS * shape.chunk, each * shape.workers)
        wanted = min(wanted, MOST_CHUNKS * shape.chunk)
        size = min(most, wanted)
        size -= size % shape.chunk
        found.append(Run(shape, size, max(1, round(wanted / most)) if again else 1))
    return found


def shapes(
    workers: Sequence[int],
    size: int,
    *,
    outward: bool = False,
    quick: bool = True,
    apart: bool = False,
    few: bool = False,
) -> list[Shape]:
    """Two slots each for every number of workers, and one slot each for one of them.

    The most that are of use (`USUAL`) are run with small chunks too. Their rings stay in cache, so
    they would be what is chosen, were it not for what each chunk costs the interpreter and the
    driver: their locks are taken in turn (65 us a chunk with twelve workers on one H200). With
    small chunks alone copies and link take almost as long as the turns, which then pass for slow
    copies: runs of 1 and 2 MiB showed no turn at all, and 256 KiB by six to eight workers, chosen
    for that, took 3 to 3.8 times as long as predicted (one H200, measured 2026-12-01). So there are
    the smallest ones as well, and half as many workers with both, for what more of them add (not
    where a `few` runs must do). With few cores a chunk is handed to another thread and back, by one
    worker, too, which elsewhere never waits for a turn: on two cores chunks of 1 MiB were a tenth
    slower than predicted without, and chosen for it.

    Outward, where copies are slower and flatter in the workers, the fewest, a middle number and the
    most of them will do. Copies that are not `quick` (a file system takes longer than any lock) say
    nothing of what a chunk costs.
    """
    chunk = min(CHUNK, max(MIB, size // 16))
    counts = [*workers]
    if outward:
        counts = sorted({workers[0], workers[len(workers) // 2], workers[-1]})
    found = [Shape(chunk, 2, count) for count in counts]
    if quick and chunk > SMALL:
        found += _small(counts, few=few)
    if outward:
        return found
    # With the most workers the locks may set the pace, which one slot or two do not change.
    usual = [count for count in workers[:-1] if count <= (MIDDLE if apart else USUAL)]
    single = usual[-1] if len(workers) > 2 else workers[-1]
    return [*found, Shape(chunk, 1, single)]


def _small(counts: Sequence[int], *, few: bool) -> list[Shape]:
    """Small chunks by the most workers that are of use, and by half as many."""
    if max(counts) <= FEW_CORES:
        return [Shape(SMALL, 2, count) for count in counts[-2:]]
    useful = [count for count in counts if count <= USUAL]
    half = min(useful, key=lambda count: abs(2 * count - useful[-1]))
    both = useful[-1:] if few else [half, useful[-1]]
    return [Shape(chunk, 2, count) for chunk in (SMALL, TINY) for count in both]


class Pipelines:
    """Pipelines of one kind of copy, made ready when they are asked for, and given back."""

    def __init__(self, backend: Backend, machine: Machine, copy: CopyName, stock: Stock) -> None:
        self._backend, self._machine, self.copy, self.stock = backend, machine, copy, stock
        self._undo = contextlib.ExitStack()

    def cells(self, workers: Sequence[int], each: int, *, few: bool, turn: int = 1) -> list[Cell]:
        """One cell for each shape; each has run once, which warms caches and wakes the links.

        Parameters
        ----------
        workers
            Numbers of workers to run with.
        each
            Bytes that each of them moves at the least, as far as the stock goes.
        few
            Whether a few numbers of workers will do: outward three, inward those that are of use
            (`USUAL`). More have the share of the most that ran.
        turn
            How many times these pipelines were made ready, this one included.

        """
        most = self.stock.size // (SAVED if self.copy == "save" else 1)
        inward = self.copy not in OUTWARD
        usual = [count for count in workers if count <= USUAL] if few and inward else workers
        planned = shapes(
            usual,
            most,
            outward=few and not inward,
            quick=self.copy != "save",
            apart=self.copy == READ_APART,
            few=few,
        )
        # Few cores are slow enough for one pass, and have few workers to wake.
        again = inward and max(workers) > FEW_CORES
        found = []
        for one in runs(planned, most, each, again=again):
            run = self.ready(one)
            shape = one.shape
            key = ("joint", self.copy, shape.chunk, shape.depth, shape.workers, one.total, turn)
            # A save waits for the file system's pages, which come as they come.
            found.append(Cell(key, run, shape.workers + 1, waits=self.copy == "save"))
        return found

    def close(self) -> None:
        """Give rings, lanes and threads back."""
        self._undo.close()

    def prepared(self, one: Run) -> Transfer:
        """A pipeline with its ring and its threads, which has not run yet."""
        machine, copy, shape, size = self._machine, self.copy, one.shape, one.size
        hops = movement(machine, copy, size, gpu=self.stock.node).hops(shape)
        ends = _ends(copy, self.stock, size, self._undo)
        stop = Stop()
        team = Team(shape.workers, stop, "calibration")
        self._undo.callback(team.close)

        def attach(_number: int) -> None:
            self._backend.attach(self.stock.device.gpu)

        team.run(attach)
        line = Line(copy, size, (route_of(machine, hops),), *ends, times=one.times)
        transfer = Transfer(self._backend, team, stop, line)
        self._undo.callback(transfer.close)
        transfer.prepare()
        return transfer

    def ready(self, one: Run, before: Callable[[], object] | None = None) -> Callable[[], float]:
        """A pipeline that has run once: a call runs it again and gives its seconds.

        A run begins right behind `before`, which is not timed, or after a pause.
        """
        transfer = self.prepared(one)
        target = transfer.line.target
        waker = Waker(self._backend)
        self._undo.callback(waker.close)

        def go() -> float:
            moved = transfer.run()
            return moved.end - moved.start

        def once() -> float:
            if before is not None:
                before()
            if isinstance(target, SinkPlace):
                target.sink.fresh()
            gpu = self.stock.device.gpu
            begin = after_pause if before is None else at_once
            return begin(self._backend, gpu, go, lambda: waker(transfer.engines()))

        once()
        return once


def joints(cells: Sequence[Cell], kind: str = "joint") -> list[Joint]:
    """What the cells of pipelines measured; a run that was looked at twice counts with the mean.

    Its spread is then also that of the two times. Half of the distance of two samples of a normal
    distribution is 0.56 of its standard deviation on average, its half interquartile range 0.67.
    """
    seen: dict[tuple[CopyName, Shape, int], list[Summary]] = {}
    for cell in cells:
        if isinstance(cell.key, tuple) and cell.key[0] == kind and cell.taken:
            _, copy, chunk, depth, workers, size = cell.key[:6]
            key = copy, Shape(chunk, depth, workers), size
            seen.setdefault(key, []).append(cell.summary())
    return [Joint(*key, *_over_time(summaries)) for key, summaries in seen.items()]


def _over_time(seen: Sequence[Summary]) -> tuple[float, float | None]:
    """Seconds and relative spread of a run by the summaries of each time that it was looked at."""
    medians = [one.median for one in seen]
    mean = sum(medians) / len(medians)
    own = typical(one.spread for one in seen)
    if len(medians) == 1:
        return mean, own
    apart = APART * (max(medians) - min(medians)) / 2 / mean
    return mean, max(own or 0.0, apart)


def _ends(
    copy: CopyName, stock: Stock, size: int, undo: contextlib.ExitStack
) -> tuple[Place, Place]:
    """Source and target of the pipeline of one kind of copy."""
    device = DevicePlace(stock.device.gpu, stock.device.owner)
    if copy == "file":
        source = FileSource(path=str(stock.file), offset=stock.offset, size_bytes=size)
        ranges = FileRanges((source,))
        undo.callback(ranges.close)
        ranges.open()
        return FilePlace(ranges), device
    if copy == "save":
        # Several pipelines are ready at once, and each needs a file of its own.
        sink = Sink(tempfile.mktemp("-saved", dir=stock.folder))  # noqa: S306 - `Sink` makes it
        undo.callback(sink.discard)
        return device, SinkPlace(sink)
    memory = HostPlace(stock.host.owner)
    return (memory, device) if copy == "memory" else (device, memory)
