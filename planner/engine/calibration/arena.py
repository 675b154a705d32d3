"""The memory and files of a calibration: made and touched first, kept to the end.

Their first touch is the only sample of fresh memory that there is; whatever is timed afterwards
finds its memory there.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Final

import psutil

from planner.engine import pagecache
from planner.engine.backends.base import Backend
from planner.engine.calibration import copies, disk, tables
from planner.engine.calibration.copies import Walk
from planner.engine.calibration.device import DeviceBench, Memory
from planner.engine.calibration.joint import Stock
from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.sides import FileSide, MemorySide, SinkSide
from planner.engine.pattern import Pattern
from planner.engine.progress import Progress
from planner.engine.scratch import Scratch, require_space
from planner.engine.team import Team
from planner.engine.waits import Stop
from planner.machine.schema import CopyName
from planner.plan.schema import FileSource

MIB: Final = 1 << 20
SMALL: Final = 256 * MIB
"""Bytes of each buffer and of the scratch file on a computer of few cores, where memory is slow."""
LARGE: Final = 1024 * MIB
"""The same on a server: 20 ms of DMA at 50 GB/s, and many chunks for each of its workers."""
SHARE: Final = 16
"""Part of the free memory that one buffer takes at most: there are about five of them."""
COLD: Final = 128 * MIB
"""Bytes that are read from the disk itself: 60 ms at 2 GB/s for each pass."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a calibration may take."""

    start: float
    seconds: float

    def until(self, share: float) -> float:
        """The instant at which that share of the time is gone."""
        return self.start + share * self.seconds

    def spent(self) -> float:
        """The share of the time that is gone."""
        return (perf_counter() - self.start) / self.seconds


@dataclass
class Arena:
    """Buffers, files and threads, and the cells that use them."""

    bench: DeviceBench
    team: Team
    size: int
    file: Path
    cold: Path
    cold_size: int
    folder: Path
    pinned: Memory
    pageable: Memory
    devices: dict[int, Memory]
    write_rate: float
    sides: dict[CopyName, FileSide | MemorySide | SinkSide] = field(default_factory=dict)

    def walks(self, gpu: int) -> tuple[Walk, Walk]:
        """Ways through pinned and device memory: into the GPU, and out of it."""
        device = self.devices[gpu]
        return Walk(device, self.pinned), Walk(self.pinned, device)

    def link_cells(self, gpu: int, rounds: int) -> list[Cell]:
        """Single and queued copies of one GPU's link, pageable ones, and copies inside it."""
        inward, outward = self.walks(gpu)
        device = self.devices[gpu]
        found = list(copies.cells(self.bench, gpu, f"h2d{gpu}", inward, rounds))
        found += copies.cells(self.bench, gpu, f"d2h{gpu}", outward, rounds)
        plain = Walk(device, self.pageable), Walk(self.pageable, device)
        found += copies.pageable_cells(self.bench, gpu, f"h2d_pageable{gpu}", plain[0])
        found += copies.pageable_cells(self.bench, gpu, f"d2h_pageable{gpu}", plain[1])
        halves = _half(device, 0), _half(device, 1)
        found += copies.cells(self.bench, gpu, f"local{gpu}", Walk(*halves), 3)
        return found

    def peer_cells(self, gpus: Sequence[int], rounds: int) -> list[Cell]:
        """Copies from each GPU to each other one."""
        found: list[Cell] = []
        for source in gpus:
            for target in gpus:
                if source != target:
                    walk = Walk(self.devices[target], self.devices[source])
                    name = f"peer{source}-{target}"
                    found += copies.cells(self.bench, source, name, walk, rounds)
        return found

    def table_cells(
        self, copy: CopyName, axes: tuple[Sequence[int], Sequence[int]], seconds: float
    ) -> list[Cell]:
        """The cells of one copy table."""
        side = self.sides[copy]
        ring = self.pinned.view
        if ring is None:
            return []
        found = list(tables.cells(copy, side.side, ring, axes, seconds))
        if isinstance(side, SinkSide):
            for cell in found:
                cell.run = _emptied(side, cell)
        return found

    def overhead(self, copy: CopyName) -> float:
        """The interpreter's seconds for one chunk."""
        ring = self.pinned.view
        return tables.per_chunk(self.sides[copy].side, ring) if ring is not None else 0.0

    def stock(self) -> Stock:
        """What joint runs move."""
        first = min(self.devices)
        return Stock(self.file, self.pageable, self.devices[first], self.folder, self.size)


def _emptied(side: SinkSide, cell: Cell) -> Callable[[], float]:
    """The cell's sample on an empty file: emptying is not timed, the rate is the sample's own."""
    plain = cell.run

    def run() -> float:
        side.fresh()
        return plain()

    return run


def _half(block: Memory, which: int) -> Memory:
    """One half of a block."""
    size = block.size // 2
    at = which * size
    view = None if block.view is None else block.view[at : at + size]
    return Memory(size, block.address + at, view, block.gpu, block.pinned)


@contextlib.contextmanager
def open_arena(
    device: Backend, gpus: Sequence[int], folder: Path, cores: int, listener: Progress
) -> Iterator[Arena]:
    """Make everything, and give it all back.

    Parameters
    ----------
    device, gpus
        The backend, and the GPUs to measure.
    folder, cores
        Where the scratch files go, and how many threads work.
    listener
        Told what is being made.

    Raises
    ------
    InfeasibleError
        If the disk has no room for the scratch files.

    """
    most = SMALL if cores <= tables.FEW_CORES else LARGE
    size = min(most, max(32 * MIB, psutil.virtual_memory().available // SHARE))
    size -= size % (4 * MIB)
    with contextlib.ExitStack() as undo:
        inside = Path(undo.enter_context(tempfile.TemporaryDirectory(".planner", dir=folder)))
        require_space(inside, 4 * size)
        listener.note(f"calibrating: scratch file in {folder}")
        file = Scratch(inside, "warm", size, Pattern(1))
        file.write(sync=False)
        bench = DeviceBench(device)
        undo.callback(bench.close)
        pinned, pageable = bench.pinned(size), bench.pageable(size)
        Pattern(2).fill(pageable.owner.array, cores)
        cold = inside / "cold"
        cold_size = min(size, COLD)
        rate = disk.write_rate(cold, cold_size, pageable.owner.view[: 16 * MIB])
        pagecache.drop((FileSource(path=str(cold), offset=0, size_bytes=cold_size),))
        devices = {gpu: bench.device(gpu, size) for gpu in gpus}
        team = Team(cores, Stop(), "calibration")
        undo.callback(team.close)
        arena = Arena(
            bench, team, size, file.path, cold, cold_size, inside, pinned, pageable, devices, rate
        )
        _sides(arena, undo)
        pagecache.warm((FileSource(path=str(file.path), offset=0, size_bytes=size),))
        yield arena
        arena.sides.clear()


def _sides(arena: Arena, undo: contextlib.ExitStack) -> None:
    """The other side of each kind of copy."""
    file = FileSide(arena.file, arena.size)
    sink = SinkSide(arena.folder / "sink")
    undo.callback(file.close)
    undo.callback(sink.close)
    arena.sides = {
        "file": file,
        "memory": MemorySide(arena.pageable, into=False),
        "save": sink,
        "save_memory": MemorySide(arena.pageable, into=True),
    }
