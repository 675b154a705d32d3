"""Joint runs: the real pipeline of a kind of copy, by as many workers as each table has rows."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from planner.engine.backends.base import Backend
from planner.engine.calibration.coupling import Joint, movement
from planner.engine.calibration.device import Memory
from planner.engine.calibration.rounds import Cell, sample
from planner.engine.calibration.tables import FEW_CORES
from planner.engine.files import FileRanges, Sink
from planner.engine.places import DevicePlace, FilePlace, HostPlace, Place, SinkPlace
from planner.engine.strategies import stages_of_hops
from planner.engine.team import Team
from planner.engine.transfer import Line, Transfer
from planner.engine.waits import Stop
from planner.machine.schema import CopyName, Machine
from planner.model.strategies import Shape
from planner.plan.schema import FileSource

MIB: Final = 1 << 20
CHUNK: Final = 4 * MIB
"""Bytes: in the flat optimum of every machine measured so far."""
SMALL: Final = MIB
"""The smallest chunk that is run."""
ROUNDS: Final = 3
TIMES: Final = 4
"""Passes over the stock in a full run. Waking the workers takes part of a millisecond, which a run
of one pass would take for a slower pipeline (41 instead of 51 GB/s on one H200)."""
OUTWARD: Final[frozenset[CopyName]] = frozenset({"save", "save_memory"})
"""Copies out of a ring that the GPU filled."""
SAVED: Final = 4
"""Part of the stock that is saved in a run: new pages of the page cache come at 2 to 5 GB/s, a
tenth of what the other copies reach."""


@dataclass(frozen=True, slots=True)
class Stock:
    """What joint runs move: a cached file, host memory, device memory, and a folder to save to."""

    file: Path
    host: Memory
    device: Memory
    folder: Path
    size: int


@dataclass(frozen=True, slots=True)
class Run:
    """A shape, and how often it goes over the stock in one run."""

    shape: Shape
    times: int


def shapes(workers: Sequence[int], size: int, *, outward: bool = False) -> list[Shape]:
    """Two slots each for every number of workers, and one slot each for one of the largest.

    The largest numbers are run with small chunks too. Their rings stay in cache, so they would be
    what is chosen, were it not for what each chunk costs the interpreter and the driver: their
    locks are taken in turn (65 us a chunk with twelve workers on one H200), and with few cores a
    chunk is handed to another thread and back. Outward, where copies are slower and flatter in
    the workers, the fewest, a middle number and the most of them will do.
    """
    chunk = min(CHUNK, max(MIB, size // 16))
    small = max(SMALL, chunk // (4 if max(workers) <= FEW_CORES else 2))
    if outward:
        few = {workers[0], workers[len(workers) // 2], workers[-1]}
        return [Shape(chunk, 2, count) for count in sorted(few)]
    found = [Shape(chunk, 2, count) for count in workers]
    found += [Shape(small, 2, count) for count in workers[-2:] if small < chunk]
    # With the most workers the locks may set the pace, which one slot or two do not change.
    single = workers[-2] if len(workers) > 2 else workers[-1]
    return [*found, Shape(chunk, 1, single)]


def run(
    backend: Backend,
    machine: Machine,
    copy: CopyName,
    stock: Stock,
    workers: Sequence[int],
    *,
    deadline: float = float("inf"),
) -> list[Joint]:
    """Joint runs of one kind of copy.

    Parameters
    ----------
    backend, machine
        What moves the bytes, and the machine with the tables measured so far.
    copy, stock
        The kind of copy stage, and what is moved.
    workers
        Numbers of workers to run with.
    deadline
        On the clock of `time.perf_counter`: no further round is begun after it.

    """
    size = stock.size // SAVED if copy == "save" else stock.size
    # Few cores are slow enough for one pass, and have few workers to wake.
    long = copy not in OUTWARD and max(workers) > FEW_CORES
    planned = shapes(workers, size, outward=copy in OUTWARD)
    runs = [Run(shape, TIMES if long else 1) for shape in planned]
    if long:
        runs.append(Run(_usual(runs), 1))
    with contextlib.ExitStack() as undo:
        cells = [
            Cell(one, _pipeline(backend, machine, copy, stock, one, undo), one.shape.workers + 1)
            for one in runs
        ]
        for cell in cells:
            cell.run()  # the first run warms caches and wakes the links
        sample(cells, ROUNDS, deadline=deadline)
        found = [(cell.key, cell.summary()) for cell in cells]
    return [
        Joint(copy, one.shape, size * one.times, seen.median, seen.spread)
        for one, seen in found
        if isinstance(one, Run)
    ]


def _usual(runs: Sequence[Run]) -> Shape:
    """The shape with two slots and full chunks that is run by the most workers but one."""
    chunk = max(run.shape.chunk for run in runs)
    full = [run.shape for run in runs if run.shape.depth > 1 and run.shape.chunk == chunk]
    return full[-2] if len(full) > 1 else full[-1]


def _pipeline(
    backend: Backend,
    machine: Machine,
    copy: CopyName,
    stock: Stock,
    run: Run,
    undo: contextlib.ExitStack,
) -> Callable[[], float]:
    """A pipeline made ready: a call runs it once and gives its seconds."""
    shape = run.shape
    size = stock.size // SAVED if copy == "save" else stock.size
    hops = movement(machine, copy, size).hops(shape)
    stages = stages_of_hops(machine, hops)
    ends = _ends(copy, stock, size, undo)
    stop = Stop()
    team = Team(shape.workers, stop, "calibration")
    undo.callback(team.close)

    def attach(_number: int) -> None:
        backend.attach(stock.device.gpu)

    team.run(attach)
    line = Line(copy, size, hops, stages, *ends)
    transfer = Transfer(backend, team, stop, line)
    transfer.chunks = transfer.chunks.repeated(run.times)
    undo.callback(transfer.close)
    transfer.prepare()

    def once() -> float:
        if isinstance(ends[1], SinkPlace):
            ends[1].sink.fresh()
        backend.start_clock()
        moved = transfer.run()
        return moved.end - moved.start

    return once


def _ends(
    copy: CopyName, stock: Stock, size: int, undo: contextlib.ExitStack
) -> tuple[Place, Place]:
    """Source and target of the pipeline of one kind of copy."""
    device = DevicePlace(stock.device.gpu, stock.device.owner)
    if copy == "file":
        source = FileSource(path=str(stock.file), offset=0, size_bytes=size)
        ranges = FileRanges((source,))
        ranges.open()
        undo.callback(ranges.close)
        return FilePlace(ranges), device
    if copy == "save":
        # Several pipelines are ready at once, and each needs a file of its own.
        sink = Sink(tempfile.mktemp("-saved", dir=stock.folder))  # noqa: S306 - `Sink` makes it
        undo.callback(sink.discard)
        return device, SinkPlace(sink)
    memory = HostPlace(stock.host.owner)
    return (memory, device) if copy == "memory" else (device, memory)
