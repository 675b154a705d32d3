"""Single copies by size, alone and queued.

Every copy walks on through both buffers, so that no byte is met again while it may be in a cache:
that is how weights and batches are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Final

from planner.engine.calibration.bench import Bench, Block
from planner.engine.calibration.fit import curve
from planner.engine.calibration.rounds import Cell, merged
from planner.engine.calibration.statistics import Summary
from planner.machine.curve import Curve

Key = tuple[str, str, int]
"""Name of the curve, `alone` or `queued`, and bytes."""
APART: Final = 1.5
"""Sizes closer than this have nothing between them that is worth a cell."""
STRAIGHT: Final = 0.02
"""A copy of the middle size that takes 2 % more or less than the line between its neighbours bends
the curve: the halves are looked at too."""

KIB: Final = 1 << 10
MIB: Final = 1 << 20
BATCH_BYTES: Final = 64 * MIB
"""Bytes of a batch of queued copies at most: 1.2 ms at 55 GB/s, 8 ms where memory is slow."""
BATCH: Final = 64
"""Copies of a batch at most: a middle of some microseconds between two needs as many."""


def _most(size: int) -> int:
    """How many copies of a size make one sample: many where one is short."""
    return max(2, min(16, 4 * MIB // size))


@dataclass(slots=True)
class Walk:
    """Two buffers and a way through them: pairs of places that come again as late as possible."""

    target: Block
    source: Block
    at: int = field(default=0, init=False)
    turn: int = field(default=0, init=False)

    def pairs(self, count: int, size: int) -> list[tuple[Block, int, Block, int]]:
        """The next `count` places for copies of `size` bytes."""
        found = []
        for _ in range(count):
            place = []
            for block in (self.target, self.source):
                room = max(1, block.size // size)
                place.append(self.at // size % room * size)
            found.append((self.target, place[0], self.source, place[1]))
            self.at += max(size, 64 * KIB)
        return found


def alone(bench: Bench, gpu: int, walk: Walk, size: int) -> float:
    """Seconds of one copy that finds the engine idle, the median of a few where it is short."""
    bench.copies(gpu, walk.pairs(1, size), size)  # wakes the link; what came before it is not ours
    times = [bench.copies(gpu, walk.pairs(1, size), size) for _ in range(_most(size))]
    return median(times)


def queued(bench: Bench, gpu: int, walk: Walk, size: int) -> float:
    """Seconds from one to the next of many copies that queue behind one another.

    From before the first issue on they took 2 to 5 % more of 64 MiB: the link wakes up, and the
    caller waits for the last one. An emulated engine is a thread, and waking it is part of what its
    copies cost.
    """
    count = max(2, min(BATCH, BATCH_BYTES // size))
    pairs = walk.pairs(count, size)
    if bench.emulated:
        return bench.copies(gpu, pairs, size) / count
    return bench.spaced(gpu, pairs, size) / (count - 1)


def again(bench: Bench, gpu: int, walk: Walk, size: int) -> float:
    """Seconds of one copy between places that the copy before it used too."""
    pairs = [(walk.target, 0, walk.source, 0)]
    bench.copies(gpu, pairs, size)
    return median(bench.copies(gpu, pairs, size) for _ in range(max(2, _most(size))))


def sizes_for(walk: Walk, sizes: Sequence[int]) -> list[int]:
    """The sizes that fit into both buffers."""
    room = min(walk.target.size, walk.source.size)
    return [size for size in sizes if size <= room]


Probe = Callable[[Bench, int, Walk, int], float]
"""Seconds of copies of one size."""


def _cell(probe: Probe, bench: Bench, gpu: int, walk: Walk, key: Key) -> Cell:
    """The cell that probes the size at the end of its key."""

    def run() -> float:
        return probe(bench, gpu, walk, key[2])

    return Cell(key, run, resident=True)


def one(bench: Bench, gpu: int, walk: Walk, name: str, size: int) -> Cell:
    """The cell of one size of a curve."""
    return _cell(alone, bench, gpu, walk, (name, "alone", size))


def cells(
    bench: Bench,
    gpu: int,
    name: str,
    walk: Walk,
    sizes: tuple[Sequence[int], Sequence[int]],
) -> Iterator[Cell]:
    """The cells of one pinned (or peer, or local) curve, of copies alone and in a queue."""
    for size in sizes_for(walk, sizes[0]):
        yield _cell(alone, bench, gpu, walk, (name, "alone", size))
    for size in sizes_for(walk, sizes[1]):
        yield _cell(queued, bench, gpu, walk, (name, "queued", size))


@dataclass(slots=True)
class Refinement:
    """Finds the sizes between those of curves that are worth a cell of their own.

    First the middle of every interval; then, where a middle was off the line between its
    neighbours, the middles of its two halves. `make` gives the cell of a size of a named curve.
    """

    make: Callable[[str, int], Cell]
    tried: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    depth: int = 0

    def __call__(self, found: Sequence[Cell]) -> list[Cell]:
        """The cells to sample next, none when there is nothing left to learn."""
        times: dict[str, dict[int, float]] = {}
        for (name, kind, size), cell in _keyed(found):
            if kind == "alone" and cell.taken:
                times.setdefault(name, {})[size] = cell.summary().median
        self.depth += 1
        if self.depth == 1:
            spans = [
                (name, low, high)
                for name, own in times.items()
                for low, high in pairwise(sorted(own))
            ]
        elif self.depth == 2:
            spans = list(self._bent(times))
        else:
            spans = []
        return [new for span in spans if (new := self._middle(*span)) is not None]

    def _bent(self, times: dict[str, dict[int, float]]) -> Iterator[tuple[str, int, int]]:
        for (name, middle), (low, high) in self.tried.items():
            own = times.get(name, {})
            if middle in own and low in own and high in own:
                line = own[low] + (own[high] - own[low]) * (middle - low) / (high - low)
                if abs(own[middle] / line - 1) > STRAIGHT:
                    yield name, low, middle
                    yield name, middle, high

    def _middle(self, name: str, low: int, high: int) -> Cell | None:
        if high < low * APART * APART:
            return None
        middle = round((low * high) ** 0.5 / 4096) * 4096
        self.tried[name, middle] = (low, high)
        return self.make(name, middle)


def _keyed(cells: Sequence[Cell]) -> Iterator[tuple[Key, Cell]]:
    """The cells of copies, with what they measured."""
    for cell in cells:
        key = cell.key
        if isinstance(key, tuple) and len(key) == 3 and key[1] in ("alone", "queued"):
            yield key, cell


def curve_of(name: str, cells: Sequence[Cell]) -> Curve | None:
    """The curve of the cells of that name, `None` if there are none.

    What was measured beside each of several GPUs counts together.
    """
    found: dict[str, dict[int, Summary]] = {"alone": {}, "queued": {}}
    taken = merged(cell for (own, _, _), cell in _keyed(cells) if own == name and cell.taken)
    for (_, kind, size), cell in _keyed(taken):
        found[kind][size] = cell.summary()
    if not found["alone"]:
        return None
    return curve(found["alone"], found["queued"])


def queued_rate(name: str, cells: Sequence[Cell]) -> float | None:
    """Bytes/s of the largest queued copies of that name."""
    rates = [
        (size, size / cell.summary().median)
        for (own, kind, size), cell in _keyed(cells)
        if own == name and kind == "queued" and cell.taken
    ]
    return max(rates)[1] if rates else None
