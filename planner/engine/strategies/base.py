"""What a strategy does for one worker: the operations of its stages.

A movement is a line of stages between two places, with a ring between them where there are two. A
strategy contributes its stages; `Bound` says what lies on either side of a stage.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock
from time import perf_counter
from typing import Final, Literal, NamedTuple, Protocol

from planner.engine.aio import Read
from planner.engine.backends.base import Backend, Engine, Lane, Part
from planner.engine.backends.shared_lane import Gather, SharedLane
from planner.engine.cutting import cuts
from planner.engine.layout import Layout
from planner.engine.memory import PAGE, Ring, copy_held, copy_memory, round_up
from planner.engine.ops import Kind
from planner.engine.places import DevicePlace, FilePlace, HostPlace, MappedPlace, Place
from planner.engine.terms import Terms

Operation = Callable[[int, int], None]
"""`operation(slot, chunk)`: one step of a worker."""
Address = Callable[[int, int], int]
"""`address(slot, chunk)`: where a chunk lies on one side of a stage."""

QUICK: Final = 16 << 10
"""Bytes of a piece up to which it is copied without letting other threads run: 1.4 us at 11 GB/s,
less than handing the interpreter's lock over and getting it back takes."""


@dataclass(slots=True)
class Chunks:
    """The pieces that workers take: offset in the flow and bytes of each.

    A chunk never spans two files, so that each is read by one call.
    """

    lows: list[int]
    sizes: list[int]

    @classmethod
    def of(cls, stretches: Iterable[Iterable[tuple[int, int]]]) -> Chunks:
        """The ranges, first byte and end, of one stretch of bytes after the other."""
        found = [row for stretch in stretches for row in stretch]
        return cls([low for low, _ in found], [high - low for low, high in found])

    def __len__(self) -> int:
        return len(self.lows)

    def repeated(self, times: int) -> Chunks:
        """The same pieces, so many times over: for a longer run over the same memory."""
        return Chunks(self.lows * times, self.sizes * times)


def cut(size: int, chunk: int, borders: Sequence[int] = ()) -> Chunks:
    """Chunks of `size` bytes, cut also at the `borders` (where files begin).

    >>> cut(10, 4).sizes, cut(10, 4, [0, 5, 10]).sizes
    ([4, 4, 2], [4, 1, 4, 1])
    """
    edges = sorted({0, size, *(b for b in borders if 0 < b < size)})
    return Chunks.of(cuts(low, high, chunk) for low, high in pairwise(edges))


def cut_pages(size: int, chunk: int, pieces: Sequence[tuple[int, int]]) -> Chunks:
    """Chunks that end where pages of memory end, so that no two of them share a page.

    Parameters
    ----------
    size, chunk
        Bytes of the flow, and of a chunk; these are rounded up to whole pages.
    pieces
        Where separate stretches of memory begin: the offset in the flow, and how far behind a
        page's start it lies in memory.

    >>> cut_pages(10000, 4096, [(0, 96), (9000, 0)]).sizes
    [4000, 4096, 904, 1000]

    """
    step = round_up(max(chunk, 1), PAGE)
    rows = pairwise([*pieces, (size, 0)])
    return Chunks.of(cuts(low, high, step, phase) for (low, phase), (high, _) in rows)


def cut_source(source: Place, size: int, chunk: int, *, pages: bool = False) -> Chunks:
    """The chunks of a flow, cut at the files' borders; where pages end if `pages` is asked for.

    Chunks of files that begin behind a page's start end where pages of the file end: the kernel
    then copies whole pages into slots that are aligned like them.
    """
    ranges = getattr(source, "ranges", None)
    if not pages:
        if isinstance(source, FilePlace) and chunk % PAGE == 0:
            rows = zip(source.ranges.starts, source.ranges.sources, strict=False)
            begins = [(low, file.offset % PAGE) for low, file in rows]
            if any(phase for _, phase in begins):
                return cut_pages(size, chunk, begins)
        return cut(size, chunk, ranges.starts if ranges is not None else ())
    if isinstance(source, HostPlace):
        return cut_pages(size, chunk, [(0, source.buffer.address % PAGE)])
    if not isinstance(source, MappedPlace):
        raise TypeError("only memory is cut by pages")
    rows = zip(source.ranges.starts, source.ranges.sources, strict=False)
    return cut_pages(size, chunk, [(low, file.offset % PAGE) for low, file in rows])


class Registered(Protocol):
    """Memory that a worker registers as it goes."""

    def give_back(self) -> int:
        """Give everything back, while no copy is in flight; returns the bytes."""


class Tally:
    """Bytes that the workers of a movement hold together; `peak` is the most at a time."""

    def __init__(self) -> None:
        self.now = self.peak = 0
        self._guard = Lock()

    def add(self, size: int) -> None:
        """So many bytes more, or fewer."""
        with self._guard:
            self.now += size
            self.peak = max(self.peak, self.now)


@dataclass(slots=True)
class Bound:
    """A movement's two ends, its ring, and its chunks; shared by all workers.

    `terms` say how the GPU uses the bytes, `room` how many bytes each worker may register as it
    goes (`None` where nothing bounds it), `tally` what all of them have registered. `places` are
    where chunks lie in files, found once for all workers under the `guard`.
    """

    backend: Backend
    source: Place
    target: Place
    chunks: Chunks
    depth: int
    ring: Ring | None = None
    spin: bool = True
    common: int = 0
    terms: Terms = field(default_factory=Terms)
    room: int | None = None
    tally: Tally = field(default_factory=Tally)
    places: list[tuple[int, int]] | None = None
    guard: Lock = field(default_factory=Lock)
    lanes: dict[Engine, tuple[Lane, Gather]] = field(default_factory=dict)

    def lane(self, engine: Engine, number: int) -> Lane:
        """A worker's lane to an engine: one of its own, or its slots of the one for all."""
        if not self.common:
            return self.backend.lane(engine, self.depth, spin=self.spin)
        if engine not in self.lanes:
            slots = self.common * self.depth
            self.lanes[engine] = self.backend.lane(engine, slots, spin=self.spin), Gather()
        lane, gather = self.lanes[engine]
        return SharedLane(lane, number * self.depth, gather, logs=number == 0)


class Asked(NamedTuple):
    """A pool stage as reads that somebody else carries out: what to read, and what is left then.

    `finish(slot, chunk, done)` gets the bytes that have come, and raises where there are no more.
    """

    ask: Callable[[int, int], Read]
    finish: Callable[[int, int, int], None]


@dataclass(slots=True)
class Hands:
    """One worker's part in a movement.

    `pool` serves a chunk itself; `lanes` are its ways to the engines, `issue` queues a chunk on
    each but those that are `blocking`: the worker calls the driver there, and nothing flies.
    `leads` is, by slot, how far into the slot the chunk begins (direct reads read from a block's
    start); `at` is the chunk that was last issued from each slot. `log` holds start and end of each
    pool operation. `ahead` is what the worker registers on the way, `begin` what it does before
    each run, `undo` what it gives back at the end. `asks` is what `pool` does as reads into the
    worker's slots, where it is that.
    """

    number: int
    pool: Operation | None = None
    asks: Asked | None = None
    issue: list[Operation] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)
    blocking: list[Lane] = field(default_factory=list)
    leads: list[int] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    log: list[float] = field(default_factory=list)
    moved: int = 0
    ahead: Registered | None = None
    begin: list[Callable[[], None]] = field(default_factory=list)
    undo: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)


StageKind = Literal["pool", "engine", "driver"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a strategy: how a worker gets its operation.

    A `driver` stage is a blocking call that the worker makes itself, on a copy engine's log.
    `equip(bound, hands, before, after)` adds the operation to the hands; `before` and `after` give
    the address of a chunk on either side, `None` where that side is a file. A stage that `stays`
    does something to a chunk where it lies: the next stage takes it from there, not from a slot.
    One that `reads` brings a chunk of a file into a slot by one read (`Hands.asks`).
    """

    kind: StageKind
    equip: Callable[[Bound, Hands, Address | None, Address | None], None]
    stays: bool = False
    reads: bool = False

    @property
    def shape(self) -> Kind:
        """What the stage is to the worker."""
        return "engine" if self.kind == "engine" else "pool"


def needed(address: Address | None) -> Address:
    """The address, which must not be a file's."""
    if address is None:
        raise TypeError("a copy needs memory at both sides, not a file")
    return address


class Scattered:
    """Where chunks lie whose bytes are several pieces of one memory.

    Parameters
    ----------
    layout, base
        The pieces, and the address that they are counted from.
    chunks
        What workers take.

    """

    __slots__ = ("_base", "_lows", "_runs", "_sizes")

    def __init__(self, layout: Layout, base: int, chunks: Chunks) -> None:
        self._runs, self._base = layout.runs, base
        self._lows, self._sizes = chunks.lows, chunks.sizes

    def __call__(self, _slot: int, chunk: int) -> int:
        """The address of a chunk that lies in one piece."""
        (piece,) = self.parts(chunk, 0)
        return piece[1]

    def parts(self, chunk: int, target: int) -> list[Part]:
        """(target address, source address, bytes) of a chunk's pieces, packed from `target` on."""
        low, base = self._lows[chunk], self._base
        shift = target - low
        runs = self._runs(low, low + self._sizes[chunk])
        return [(shift + at, base + place, length) for at, place, length in runs]

    def gather(self, chunk: int, target: int) -> None:
        """Copy a chunk's pieces to one place."""
        for to, address, length in self.parts(chunk, target):
            (copy_held if length <= QUICK else copy_memory)(to, address, length)


def at_rest(place: Place, chunks: Chunks) -> Address | None:
    """The addresses of chunks in a whole place; `None` for files."""
    layout = getattr(place, "layout", None)
    if isinstance(place, DevicePlace) and layout is not None:
        return Scattered(layout, place.address, chunks)
    if isinstance(place, HostPlace) and layout is not None:
        return Scattered(layout, place.buffer.address, chunks)
    if isinstance(place, DevicePlace):
        device, lows = place, chunks.lows
        return lambda _slot, chunk: device.address + lows[chunk]
    if isinstance(place, HostPlace):
        host, offsets = place, chunks.lows
        return lambda _slot, chunk: host.buffer.address + offsets[chunk]
    if isinstance(place, MappedPlace):
        mapped = place.mapped
        if mapped is None:
            raise RuntimeError("the mapping is used before it is made")
        # Chunks are cut at the files' borders, so each is one piece.
        found = [next(mapped.pieces(low, low + 1))[1] for low in chunks.lows]
        return lambda _slot, chunk: found[chunk]
    return None


def in_ring(ring: Ring, hands: Hands) -> Address:
    """The addresses of a worker's slots, behind what a direct read left before the chunk."""
    slots = ring.addresses(hands.number)
    leads = hands.leads = [0] * ring.depth
    return lambda slot, _chunk: slots[slot] + leads[slot]


def logged(operation: Operation, hands: Hands, sizes: Sequence[int]) -> Operation:
    """The operation with its times kept and its bytes counted."""
    log = hands.log

    def run(slot: int, chunk: int) -> None:
        start = perf_counter()
        operation(slot, chunk)
        log.append(start)
        log.append(perf_counter())
        hands.moved += sizes[chunk]

    return run
