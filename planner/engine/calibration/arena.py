"""The memory and files of a calibration: made and touched first, kept to the end.

Their first touch is the only sample of fresh memory that there is; whatever is timed afterwards
finds its memory there.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import psutil

from planner.engine import pagecache
from planner.engine.backends.base import Backend
from planner.engine.caches import enough, sweep
from planner.engine.calibration import copies, crowd, disk, first, lone, tables
from planner.engine.calibration.copies import Walk
from planner.engine.calibration.costs import timed
from planner.engine.calibration.device import THREADS, DeviceBench, Memory
from planner.engine.calibration.disk import ColdFile
from planner.engine.calibration.duplex import Load
from planner.engine.calibration.joint import Stock
from planner.engine.calibration.onward import Onward
from planner.engine.calibration.pageable import Pageable
from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.scope import FEW_CORES, Scope
from planner.engine.calibration.sides import FileSide, MemorySide, SinkSide
from planner.engine.memory import HostBuffer, Ring
from planner.engine.passing import passing_folder
from planner.engine.pattern import Pattern
from planner.engine.progress import Progress
from planner.engine.scratch import Scratch, require_space
from planner.engine.team import Team
from planner.engine.waits import Stop
from planner.machine.schema import CopyName, Machine
from planner.plan.schema import FileSource

MIB: Final = 1 << 20
SHARE: Final = 16
"""Part of the free memory that one buffer takes at most: there are about five of them."""
ROOM: Final = 4
"""Part of the free disk space that the cold file takes at most."""
GATHERED: Final[frozenset[CopyName]] = frozenset({"memory"})
"""Copies that gather scattered pieces one by one; out of files nothing is gathered."""
LARGER: Final = "it is for scratch files: let --scratch, or TMPDIR, name a folder on a larger disk"
LEAST: Final = 32 * MIB
FRESH: Final = 256 * MIB
"""Bytes of which the first touch and the registration are timed."""


@dataclass
class Arena:
    """Buffers, files and threads, and the cells that use them."""

    bench: DeviceBench
    team: Team
    scope: Scope
    size: int
    file: Path
    cold: ColdFile
    folder: Path
    pinned: Memory
    pageable: Memory
    devices: dict[int, Memory]
    first: list[Cell]
    sides: dict[CopyName, FileSide | MemorySide | SinkSide] = field(default_factory=dict)
    undo: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def walks(self, gpu: int) -> tuple[Walk, Walk]:
        """Ways through pinned and device memory: into the GPU, and out of it."""
        device = self.devices[gpu]
        return Walk(device, self.pinned), Walk(self.pinned, device)

    def loads(self, gpu: int, half: int) -> tuple[Load, Load]:
        """Both directions of a GPU's link, as loads that go on and on in one half of the memory.

        Two that are at work at once have a half each: two GPUs that wrote the same bytes of the
        host, a large copy each and so in step, reached 2.5 GB/s each (H200s, measured 2026-11-30).
        """
        pinned, device = _half(self.pinned, half), _half(self.devices[gpu], half)
        inward, outward = Walk(device, pinned), Walk(pinned, device)
        return Load(self.bench, gpu, inward), Load(self.bench, gpu, outward)

    def opposite(self, gpu: int) -> tuple[Load, Load]:
        """The loads inward and outward that can be at work at once."""
        return self.loads(gpu, 0)[0], self.loads(gpu, 1)[1]

    def onward(self) -> Onward:
        """Where what is read from the disk goes on to: the first GPU."""
        return Onward(self.bench.backend, self.devices[min(self.devices)], disk.SLOTS)

    def walk_of(self, name: str) -> tuple[int, Walk]:
        """The GPU that works, and the way through two blocks, of a curve by its name.

        `h2d0`, `d2h1`, `local0`, `peer0-1`, `apart0-1`.
        """
        numbers = re.search(r"(\d+)(?:-(\d+))?$", name)
        if numbers is None:
            raise ValueError(f"{name} names no GPU")
        kind, gpu = name[: numbers.start()], int(numbers[1])
        device = self.devices[gpu]
        if kind in ("peer", "apart"):
            return gpu, Walk(self.devices[int(numbers[2])], device)
        if kind == "local":
            return gpu, Walk(_half(device, 0), _half(device, 1))
        inward, outward = self.walks(gpu)
        return gpu, inward if kind == "h2d" else outward

    def curve_cells(self, name: str, alone: Sequence[int], queued: Sequence[int]) -> list[Cell]:
        """The cells of the curve of that name."""
        gpu, walk = self.walk_of(name)
        return list(copies.cells(self.bench, gpu, name, walk, (alone, queued)))

    def lone_cells(self, name: str, machine: Machine) -> list[Cell]:
        """The cells of one copy by a run of its own, for the curve of that name."""
        gpu, walk = self.walk_of(name)
        run = lone.Lone(self.bench.backend, machine, gpu, walk)
        self.undo.callback(run.close)
        return lone.cells(name, run)

    def ordinary(self, gpu: int, machine: Machine) -> Pageable:
        """The driver's copies of ordinary memory."""
        device = self.devices[gpu]
        return Pageable(self.bench, machine, gpu, self.pageable, device, self.pinned, self.undo)

    def first_cells(self, machine: Machine) -> list[Cell]:
        """What a flow takes before its first byte: its worker's start, and what has no name."""
        gpu, walk = self.walk_of(f"h2d{min(self.devices)}")
        # Before a plan's first run sources are written and targets cleared: no code is in a cache.
        through = partial(sweep, self.pinned.address, min(self.pinned.size, enough()))
        one = first.First(self.bench.backend, machine, gpu, walk, through)
        workers = min(first.RING_WORKERS, self.team.size)
        plain = Walk(walk.target, self.pageable)
        ring = first.First(self.bench.backend, machine, gpu, plain, through, workers)
        # Nobody but the sweep is seen at work, so every sample counts.
        return [
            Cell(("setup", "ready", one.size), one.ready, waits=True),
            Cell(("setup", "workers", 1), one.started, waits=True),
            Cell(("setup", "lane", one.size), one.opened, waits=True),
            Cell(("setup", "ready_ring", ring.size), ring.ready, waits=True),
            Cell(("setup", "ring", ring.size), ring.registered, waits=True),
        ]

    def refinement(self) -> copies.Refinement:
        """What looks for sizes between those of curves."""
        walks: dict[str, tuple[int, Walk]] = {}

        def make(name: str, size: int) -> Cell:
            gpu, walk = walks.setdefault(name, self.walk_of(name))
            return copies.one(self.bench, gpu, walk, name, size)

        return copies.Refinement(make)

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
                cell.run = _emptied(side, cell.run)
        return found

    def overhead_cells(self, copy: CopyName) -> list[Cell]:
        """The interpreter's seconds for one chunk, and out of memory for one more piece in it."""
        ring = self.pinned.view
        if ring is None:
            return []
        found = [tables.per_chunk_cell(copy, self.sides[copy].side, ring)]
        return [*found, tables.per_piece_cell(copy, ring)] if copy in GATHERED else found

    def crowd_cells(self) -> list[Cell]:
        """What a turn at the interpreter's lock takes, no engine at work."""
        target, cores, backend = self.pageable.owner, self.team.size, self.bench.backend
        return crowd.cells(backend, self.file, target, self.pinned, cores, self.undo)

    def stock(self, gpu: int | None = None) -> Stock:
        """What joint runs move, to or from a GPU, the first unless one is named."""
        device = self.devices[min(self.devices) if gpu is None else gpu]
        return Stock(self.file, self.pageable, device, self.folder, self.size, self.pinned)


def _emptied(side: SinkSide, plain: Callable[[], float] | None) -> Callable[[], float]:
    """A sample on an empty file: emptying is not timed, the rate is the sample's own."""

    def run() -> float:
        side.fresh()
        return plain() if plain is not None else 0.0

    return run


def _half(block: Memory, which: int) -> Memory:
    """One half of a block."""
    size = block.size // 2
    at = which * size
    view = None if block.view is None else block.view[at : at + size]
    return Memory(size, block.address + at, view, block.gpu, block.pinned)


@contextlib.contextmanager
def open_arena(
    start: Callable[[], Backend],
    gpus: Sequence[int],
    folder: Path,
    cores: int,
    scope: Scope,
    listener: Progress,
) -> Iterator[Arena]:
    """Make everything, and give it all back.

    Parameters
    ----------
    start
        Gives the backend; called when what needs none is made, so it may still be starting.
    gpus
        The GPUs to measure.
    folder, cores
        Where the scratch files go, and how many threads work.
    scope
        How much of everything.
    listener
        Told what is being made.

    Raises
    ------
    InfeasibleError
        If the disk has no room for the scratch files.

    """
    most = scope.stock_few if cores <= FEW_CORES else scope.stock
    size = min(most, max(LEAST, psutil.virtual_memory().available // SHARE))
    size -= size % (4 * MIB)
    with contextlib.ExitStack() as undo:
        inside = undo.enter_context(passing_folder(folder, "calibration"))
        require_space(folder, 4 * size, LARGER)
        team = Team(cores, Stop(), "calibration")
        undo.callback(team.close)
        first = [_fresh(team, min(size, FRESH))]
        listener.note(f"calibrating: scratch file in {folder}")
        file = Scratch(inside, "warm", size, Pattern(1))
        undo.callback(file.close)
        file.write(sync=False)
        cold, write = _cold(inside, size, scope, file.path)
        first.append(write)
        undo.callback(cold.close)
        device = start()
        bench = DeviceBench(device, min(cores, THREADS))
        undo.callback(bench.close)
        undo.callback(cold.close)  # its lanes lead into the memory of the bench
        pinned, pageable = bench.pinned(size), bench.pageable(size)
        Pattern(2).fill(pageable.owner.array, cores)
        devices = {gpu: bench.device(gpu, size) for gpu in gpus}
        arena = Arena(
            bench, team, scope, size, file.path, cold, inside, pinned, pageable, devices, first
        )
        undo.callback(arena.undo.close)
        _sides(arena, undo)
        pagecache.warm((FileSource(path=str(file.path), offset=0, size_bytes=size),))
        yield arena
        arena.sides.clear()


def _fresh(team: Team, size: int) -> Cell:
    """The first touch of memory by this process: the only sample of fresh memory that there is."""
    ring = Ring(team.size, 1, max(1, size // team.size))
    try:
        seconds = timed(lambda: team.run(ring.touch))
    finally:
        ring.close()
    return Cell(("setup", "fresh", size), None, clean=[seconds])


def _cold(folder: Path, size: int, scope: Scope, warm: Path) -> tuple[ColdFile, Cell]:
    """A file on the disk that is in no cache of this system, and how fast it was written.

    Its bytes are those of the warm file: a disk that compresses would be too fast with zeros.
    """
    path = folder / "cold"
    room = shutil.disk_usage(folder).free // ROOM
    wanted = min(scope.cold, room) if scope.full else min(scope.cold, size)
    wanted = max(LEAST, wanted - wanted % disk.UNIT)
    block = HostBuffer(min(size, 16 * MIB))
    with warm.open("rb", buffering=0) as source:
        source.readinto(block.view)
    written, rate = disk.write_cold(path, wanted, block.view, scope.cold_s)
    block.close()
    cold = ColdFile(path, written, scope.requests, scope.readers, scope.read_s)
    return cold, Cell(("disk", "write"), None, is_rate=True, clean=[rate])


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
