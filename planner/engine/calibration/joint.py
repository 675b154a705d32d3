"""Joint runs: the real pipeline of a kind of copy, by as many workers as each table has rows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from planner.engine.backends.base import Backend
from planner.engine.calibration.coupling import Joint, movement
from planner.engine.calibration.device import Memory
from planner.engine.calibration.statistics import summary
from planner.engine.files import FileRanges, Sink
from planner.engine.places import DevicePlace, FilePlace, HostPlace, Place, SinkPlace
from planner.engine.strategies import stages_of
from planner.engine.team import Team
from planner.engine.transfer import Transfer
from planner.engine.waits import Stop
from planner.machine.schema import CopyName, Machine
from planner.model.strategies import Shape
from planner.plan.schema import FileSource

MIB: Final = 1 << 20
CHUNK: Final = 4 * MIB
"""Bytes: in the flat optimum of every machine measured so far."""
ROUNDS: Final = 3


@dataclass(frozen=True, slots=True)
class Stock:
    """What joint runs move: a cached file, host memory, device memory, and a folder to save to."""

    file: Path
    host: Memory
    device: Memory
    folder: Path
    size: int


def shapes(workers: Sequence[int], size: int) -> list[Shape]:
    """Two slots each for every number of workers, and one slot each for the most of them."""
    chunk = min(CHUNK, max(MIB, size // 16))
    found = [Shape(chunk, 2, count) for count in workers]
    return [*found, Shape(chunk, 1, max(workers))]


def run(
    backend: Backend,
    machine: Machine,
    copy: CopyName,
    stock: Stock,
    workers: Sequence[int],
    *,
    deadline: Callable[[], bool] = lambda: False,
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
        Says when there is no time for a further round.

    """
    stop = Stop()
    plain = movement(machine, copy, stock.size)
    found = []
    for shape in shapes(workers, stock.size):
        hops = plain.hops(shape)
        stages = [stage for hop in hops for stage in stages_of(machine, hop)]
        with contextlib.ExitStack() as undo:
            ends = _ends(backend, copy, stock, undo)
            team = Team(shape.workers, stop, "calibration")
            undo.callback(team.close)
            gpu = stock.device.gpu
            team.run(lambda _n, gpu=gpu: backend.attach(gpu))
            transfer = Transfer(backend, team, stop, hops, stages, ends, stock.size, copy)
            undo.callback(transfer.close)
            transfer.prepare()
            times = []
            for turn in range(ROUNDS + 1):
                if isinstance(ends[1], SinkPlace):
                    ends[1].sink.fresh()
                backend.start_clock()
                moved = transfer.run()
                if turn:  # the first run warms caches and wakes the links
                    times.append(moved.end - moved.start)
                if times and deadline():
                    break
        seen = summary(times)
        found.append(Joint(copy, shape, stock.size, seen.median, seen.spread))
    return found


def _ends(
    backend: Backend, copy: CopyName, stock: Stock, undo: contextlib.ExitStack
) -> tuple[Place, Place]:
    """Source and target of the pipeline of one kind of copy."""
    device = DevicePlace(stock.device.gpu, stock.device.owner)
    if copy == "file":
        source = FileSource(path=str(stock.file), offset=0, size_bytes=stock.size)
        ranges = FileRanges((source,))
        ranges.open()
        undo.callback(ranges.close)
        return FilePlace(ranges), device
    if copy == "save":
        sink = Sink(str(stock.folder / f"{stock.file.name}-saved"))
        undo.callback(sink.discard)
        return device, SinkPlace(sink)
    memory = HostPlace(stock.host.owner)
    return (memory, device) if copy == "memory" else (device, memory)
