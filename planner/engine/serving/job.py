"""One movement of a call, and what each worker does for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from threading import Event
from typing import TYPE_CHECKING, Any, Final, Literal

from planner.engine import files
from planner.engine.backends.base import Engine, Lane
from planner.engine.memory import copy_memory, round_up
from planner.engine.ops import DMA, POOL, SHAPES, WAIT, Op
from planner.engine.serving.ends import FileEnd, MemoryEnd, into_slot, out_of_slot
from planner.engine.serving.parts import GRAIN, Chunk, runs_of
from planner.engine.serving.shape import Shape
from planner.engine.waits import Stop

if TYPE_CHECKING:
    from planner.engine.serving.mapped import Maps

Way = Literal["in", "out", "copy", "host", "map"]
"""Through the ring to a GPU, through it from one, by a copy engine alone, by the CPU alone, from
where a file is cached."""

_KINDS: Final[dict[Way, tuple[Literal["pool", "engine"], ...]]] = {
    "in": ("pool", "engine"),
    "out": ("engine", "pool"),
    "copy": ("engine",),
    "host": ("pool",),
    "map": ("pool", "engine"),
}
Operation = Callable[[int, int], None]


@dataclass
class Hand:
    """A worker's own: slots, lanes, and what it has counted in this job."""

    number: int
    views: list[memoryview] = field(default_factory=list)
    addresses: list[int] = field(default_factory=list)
    registered: list[bool] = field(default_factory=list)
    lanes: dict[Engine, Lane] = field(default_factory=dict)
    attached: set[int] = field(default_factory=set)
    moved: int = 0
    direct: int = 0
    buffered: int = 0

    def fresh(self) -> None:
        """Forget what an earlier job counted and logged, and which device it left current."""
        self.moved = self.direct = self.buffered = 0
        self.attached.clear()
        for lane in self.lanes.values():
            lane.log.clear()


@dataclass
class Job:
    """Chunks that go one way.

    `prepare` makes the memory that the call allocates, beside the first reads; `ready` is set when
    it has. `survey` looks at the files afterwards, while workers read them. `issued` is set once
    no CPU is needed any more: the last copy stands in its queue, or was brought out of its slot.
    `behind` are events of other streams that copies wait for;
    `maps` the files of a job that copies out of the page cache; `began`, `ended` the clock. `cores`
    are those that it may take, `None` for any.
    """

    way: Way
    chunks: Sequence[Chunk]
    shape: Shape
    engine: Engine | None = None
    prepare: Callable[[], None] = lambda: None
    survey: Callable[[], None] = lambda: None
    behind: tuple[Any, ...] = ()
    maps: Maps | None = None
    budget: int | None = None
    cores: int | None = None
    stop: Stop = field(default_factory=Stop)
    ready: Event = field(default_factory=Event)
    issued: Event = field(default_factory=Event)
    began: float = 0.0
    opened: float = 0.0
    ended: float = 0.0
    counter: Iterator[int] = field(default_factory=count)

    @property
    def needs_ring(self) -> bool:
        """Whether bytes pass through slots."""
        if self.way == "host":
            return any(isinstance(p.source, FileEnd) for run in runs_of(self.chunks) for p in run)
        return self.way in ("in", "out")

    @property
    def aside(self) -> int:
        """How many threads of the pool only prepare: one, where workers read meanwhile."""
        return 1 if self.way in ("in", "map") else 0

    def worker(self, numbers: Iterator[int]) -> Iterator[Op]:
        """What one worker does: the generator of the way's shape."""
        return SHAPES[_KINDS[self.way]](numbers, self.shape.depth)

    def note_issue(self) -> None:
        """Count one chunk that needs no CPU any more."""
        if next(self.counter) == len(self.chunks) - 1:
            self.issued.set()


class Hands:
    """The operations of one worker in one job.

    `reach` gives the worker's lane for the job's engine and `register` makes its slot reachable;
    both are called before the first copy, and wait until the backend is open.
    """

    def __init__(
        self,
        job: Job,
        hand: Hand,
        reach: Callable[[Hand, Job], Lane],
        register: Callable[[Hand, int], None],
    ) -> None:
        self.job, self.hand, self.chunks = job, hand, job.chunks
        self._reach, self._register = reach, register
        self.lane: Lane | None = None
        # (end of the copy that is not in the slot, offset in it, address in the slot, bytes)
        self._copies: list[list[tuple[MemoryEnd, int, int, int]]] = [[] for _ in hand.addresses]
        self._usual = job.shape.chunk_bytes
        # What preadv takes for a chunk of the usual size.
        self._whole = [[view[: self._usual]] for view in hand.views]

    def operations(self) -> list[Operation]:
        """The worker's operations, by the code that its generator yields."""
        found: list[Operation] = [_nothing] * 4
        pools: dict[Way, Operation] = {"in": self._fill, "out": self._empty, "host": self._carry}
        engines: dict[Way, Operation] = {"in": self._push, "out": self._pull, "copy": self._copy}
        found[POOL] = pools.get(self.job.way, _nothing)
        found[DMA] = engines.get(self.job.way, _nothing)
        found[WAIT] = self._wait
        return found

    def _ready(self) -> Lane:
        lane = self.lane
        if lane is None:
            lane = self.lane = self._reach(self.hand, self.job)
        return lane

    def _fill(self, slot: int, chunk: int) -> None:
        """Bring a chunk's parts into the slot."""
        hand, parts, copies = self.hand, self.chunks[chunk], self._copies[slot]
        copies.clear()
        if len(parts) == 1:
            source, start, target, to, size = parts[0]
            place = hand.addresses[slot]
            if not isinstance(source, FileEnd):
                into_slot(source, start, size, place, hand.views[slot])
            elif source.asks and source.wants_direct(start, size):
                place += source.read_direct(hand.views[slot], start, size)
                hand.direct += size
            else:
                whole = self._whole[slot]
                if size != self._usual or files.preadv(source.fd, whole, start) != size:
                    source.read(hand.views[slot][:size], start)
                hand.buffered += size
            copies.append((target, to, place, size))  # type: ignore[arg-type]
            hand.moved += size
            return
        view, base = hand.views[slot], hand.addresses[slot]
        at = 0
        for source, start, target, to, size in parts:
            into_slot(source, start, size, base + at, view[at : at + size])
            hand.buffered += size if isinstance(source, FileEnd) else 0
            copies.append((_memory(target), to, base + at, size))
            hand.moved += size
            at += round_up(size, GRAIN)

    def _push(self, slot: int, _chunk: int) -> None:
        """Queue the slot's copies to the GPU."""
        lane, copies = self._ready(), self._copies[slot]
        if not self.hand.registered[slot]:
            self._register(self.hand, slot)
        if len(copies) == 1:
            target, to, place, size = copies[0]
            lane.copy(slot, target.address + to, place, size)
        else:
            lane.copy_parts(slot, [(t.address + to, at, n) for t, to, at, n in copies])
        self.job.note_issue()

    def _pull(self, slot: int, chunk: int) -> None:
        """Queue a chunk's copies from the GPU into the slot."""
        lane = self._ready()
        if not self.hand.registered[slot]:
            self._register(self.hand, slot)
        at, copies = self.hand.addresses[slot], []
        for source, start, _, _, size in self.chunks[chunk]:
            copies.append((at, _memory(source).address + start, size))
            at += round_up(size, GRAIN)
        lane.copy_parts(slot, copies)

    def _empty(self, slot: int, chunk: int) -> None:
        """Bring a chunk's parts out of the slot."""
        hand, at = self.hand, 0
        view, base = hand.views[slot], hand.addresses[slot]
        for _, _, target, to, size in self.chunks[chunk]:
            out_of_slot(target, to, size, base + at, view[at : at + size])
            hand.moved += size
            at += round_up(size, GRAIN)
        self.job.note_issue()  # who waits by a stream may go on: the CPU has brought it in

    def _copy(self, slot: int, chunk: int) -> None:
        """Queue copies between places that the engine reaches."""
        lane = self._ready()
        lane.copy_parts(
            slot,
            [
                (_memory(target).address + to, _memory(source).address + start, size)
                for source, start, target, to, size in self.chunks[chunk]
            ],
        )
        self.hand.moved += sum(part.size for part in self.chunks[chunk])
        self.job.note_issue()

    def _carry(self, slot: int, chunk: int) -> None:
        """Move a chunk's parts between files and memory of the host."""
        hand = self.hand
        for source, start, target, to, size in self.chunks[chunk]:
            if isinstance(source, MemoryEnd):
                if isinstance(target, MemoryEnd):
                    copy_memory(target.address + to, source.address + start, size)
                else:
                    out_of_slot(target, to, size, 0, source.view(start, size))
            elif isinstance(source, FileEnd):
                direct = size <= self.job.shape.chunk_bytes and source.wants_direct(start, size)
                hand.direct += size if direct else 0
                hand.buffered += 0 if direct else size
                if isinstance(target, MemoryEnd) and not direct:
                    source.read(target.view(to, size), start)
                else:
                    view, base = hand.views[slot], hand.addresses[slot]
                    lead = source.read_direct(view, start, size) if direct else 0
                    if not direct:
                        source.read(view[:size], start)
                    out_of_slot(target, to, size, base + lead, view[lead : lead + size])
            hand.moved += size
        self.job.note_issue()

    def _wait(self, slot: int, _chunk: int) -> None:
        if self.lane is not None:
            self.lane.wait(slot)


def _memory(end: object) -> MemoryEnd:
    if not isinstance(end, MemoryEnd):
        raise TypeError("a copy engine reaches memory, not a file")
    return end


def _nothing(_slot: int, _chunk: int) -> None:
    raise RuntimeError("a worker was asked for what its way does not do")
