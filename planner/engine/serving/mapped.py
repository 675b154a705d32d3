"""Cached files on few cores: registered where they lie, piece by piece, and copied from there.

Through a ring a core copies some 5 GB/s, so a PCIe link takes ten cores. A thread that registers
the pages of the cache ahead of the copies feeds 45 GB/s alone (measured on an H200 machine,
2026-11-29). A second core brings the pages of pieces to come into the page table meanwhile: 39 to
42 GB/s instead of 37 to 39 by pieces of 64 MiB, 40 to 45 instead of 35 to 40 by 128 (two H200
machines, measured 2026-11-30 and 2026-12-01). It is for whole files that are cached: a page that is
not there would be waited for.
To give a registration back on the way halves the pace, so that waits until the call has returned,
unless less may be pinned than the files have.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from planner.engine.backends.base import Backend, Lane
from planner.engine.cutting import cuts
from planner.engine.memory import PAGE, Mapping
from planner.engine.ops import DMA, POOL, WAIT
from planner.engine.populate import Populator
from planner.engine.registered import Registered
from planner.engine.serving.ends import FileEnd, MemoryEnd
from planner.engine.serving.job import Hand, Job, Operation
from planner.engine.serving.parts import Chunk, Part
from planner.engine.serving.shape import MIB, Shape
from planner.errors import ExecutionError

FEW: Final = 4
"""Cores up to which a ring is slower than this: five and more copy 25 GB/s and more, and leave
nothing pinned."""
LEAST: Final = 256 * MIB
"""Bytes below which a ring does as well."""
PIECE: Final = 64 * MIB
"""Bytes of a piece: some 2 ms to register, one copy."""
DEPTH: Final = 4
"""Pieces whose copies may be in flight."""


class UnmappableError(ExecutionError):
    """The files cannot be registered here; a ring can load them."""


@dataclass
class Maps:
    """The mapped files of a job, and what of them is registered."""

    held: Registered
    maps: dict[int, Mapping] = field(default_factory=dict)
    helper: Populator | None = None

    def place(self, chunk: Chunk) -> tuple[int, Part]:
        """Where a piece is mapped, and its part of a file."""
        part = chunk[0]
        return self.maps[id(part.source)].address + part.start, part

    def help(self, chunks: Sequence[Chunk]) -> None:
        """Have a second thread bring the pages of all but the first in, once that is registered."""
        places = map(self.place, chunks[1:])
        self.helper = Populator([(address, part.size) for address, part in places])

    def register(self, backend: Backend, address: int, size: int) -> None:
        """Register the pages of a piece, and give back what is in the way of the room."""
        if self.helper is not None:
            self.helper.start()
        try:
            self.held.add(backend, address, size)
        except (OSError, RuntimeError) as error:
            raise UnmappableError(f"the file's pages cannot be registered: {error}") from error

    def close(self, backend: Backend | None) -> None:
        """Give all registrations back, while no copy is in flight, and unmap the files."""
        with contextlib.ExitStack() as last:  # which goes on where the driver refuses one
            while self.maps:
                last.callback(self.maps.popitem()[1].close)
            if backend is not None:
                last.callback(self.held.give_back, backend)
            if self.helper is not None:
                last.callback(self.helper.end)  # first: it reads the mappings


def shape_of(room: int) -> Shape | None:
    """One worker and pieces that fit into the room; `None` where they would be too small."""
    # All copies in flight, and the piece that is registered meanwhile, with a page at either end.
    most = room // (DEPTH + 1) - 2 * PAGE
    chunk = min(PIECE, most - most % PAGE)
    return Shape(1, DEPTH, chunk) if chunk >= MIB else None


def chunks_of(parts: Sequence[Part], piece: int) -> list[Chunk]:
    """Pieces that end where pages of the file end, so that no two registrations share one."""
    return [
        (Part(source, low, target, to + low - start, high - low),)
        for source, start, target, to, size in parts
        for low, high in cuts(start, start + size, piece, start % PAGE)
    ]


def map_files(parts: Sequence[Part], room: int) -> Maps:
    """Each part's file, mapped from its first byte on; no two parts are of one file.

    `room` are the bytes that may be registered at a time.
    """
    found = Maps(Registered(room, read_only=True))
    for part in parts:
        if isinstance(part.source, FileEnd) and part.size:
            found.maps[id(part.source)] = Mapping(part.source.path, 0, part.start + part.size)
    return found


class MappedHands:
    """The operations of the worker of such a job; see `job.Hands`."""

    def __init__(
        self,
        job: Job,
        hand: Hand,
        reach: Callable[[Hand, Job], Lane],
        backend: Callable[[], Backend],
    ) -> None:
        if job.maps is None:
            raise RuntimeError("the files are not mapped")
        self.job, self.hand, self.maps = job, hand, job.maps
        self._reach, self._backend = reach, backend
        self._lane: Lane | None = None

    def operations(self) -> list[Operation]:
        """The worker's operations, by the code that its generator yields."""
        found: list[Operation] = [self._wait] * (DMA + 1)
        found[POOL], found[DMA], found[WAIT] = self._register, self._push, self._wait
        return found

    def _register(self, _slot: int, chunk: int) -> None:
        """Have the pages ready for the copy engine."""
        if self._lane is None:
            self._lane = self._reach(self.hand, self.job)
            lacks = self._backend().lacks("mmap", ("disk", "ram"), [self._lane.engine.gpu])
            if lacks is not None:
                raise UnmappableError(lacks)
        address, part = self.maps.place(self.job.chunks[chunk])
        self.maps.register(self._backend(), address, part.size)

    def _push(self, slot: int, chunk: int) -> None:
        """Queue the copy."""
        address, part = self.maps.place(self.job.chunks[chunk])
        if self._lane is None or not isinstance(part.target, MemoryEnd):
            raise TypeError("a copy engine reaches memory, not a file")
        self._lane.copy(slot, part.target.address + part.to, address, part.size)
        self.hand.moved += part.size
        self.hand.buffered += part.size
        self.job.note_issue()

    def _wait(self, slot: int, _chunk: int) -> None:
        if self._lane is not None:
            self._lane.wait(slot)
