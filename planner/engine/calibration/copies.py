"""Single copies by size, alone and queued, and both directions of a link at once.

Every copy walks on through both buffers, so that no byte is met again while it may be in a cache:
that is how weights and batches are copied. The hot pageable copy is the exception and says so.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from planner.engine.calibration.bench import Bench, Block
from planner.engine.calibration.fit import curve, grid
from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.statistics import Summary
from planner.machine.curve import Curve

Key = tuple[str, str, int]
"""Name of the curve, `alone` or `queued`, and bytes."""

KIB: Final = 1 << 10
MIB: Final = 1 << 20
ALONE: Final = tuple(grid(4 * KIB, 256 * MIB))
"""4 KiB to 256 MiB: below is all latency, above all rate."""
QUEUED: Final = (4 * KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB)
"""Small copies tell the gap, large ones the rate of a queue."""
PAGEABLE: Final = (256 * KIB, MIB, 8 * MIB, 64 * MIB, 256 * MIB)
"""The driver changes its method, and the source leaves the caches, between 1 and 64 MiB."""
HOT: Final = 8 * MIB
"""A buffer that stays in the last-level cache of any server when it is copied again and again."""
BATCH_BYTES: Final = 64 * MIB
"""Bytes of a batch of queued copies at most: 1.2 ms at 55 GB/s, 8 ms where memory is slow."""
BATCH: Final = 64
"""Copies of a batch at most: enough to hide the first one's latency (2 % of 64)."""


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
    """Seconds for each of many copies that queue behind one another."""
    count = max(2, min(BATCH, BATCH_BYTES // size))
    return bench.copies(gpu, walk.pairs(count, size), size) / count


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


def _cell(probe: Probe, bench: Bench, gpu: int, walk: Walk, key: Key, rounds: int) -> Cell:
    """The cell that probes the size at the end of its key."""

    def run() -> float:
        return probe(bench, gpu, walk, key[2])

    return Cell(key, run, rounds=rounds)


def cells(bench: Bench, gpu: int, name: str, walk: Walk, rounds: int) -> Iterator[Cell]:
    """The cells of one pinned (or peer, or local) curve; large sizes take part in fewer rounds."""
    for size in sizes_for(walk, ALONE):
        few = rounds if size <= 16 * MIB else min(rounds, 3)
        yield _cell(alone, bench, gpu, walk, (name, "alone", size), few)
    for size in sizes_for(walk, QUEUED):
        yield _cell(queued, bench, gpu, walk, (name, "queued", size), 3)


def pageable_cells(bench: Bench, gpu: int, name: str, walk: Walk) -> Iterator[Cell]:
    """The cells of the pageable curves: walking on (cold), and the same place again (hot)."""
    for size in sizes_for(walk, PAGEABLE):
        yield _cell(alone, bench, gpu, walk, (name, "alone", size), 3)
    for size in sizes_for(walk, [s for s in PAGEABLE if s <= HOT]):
        yield _cell(again, bench, gpu, walk, (f"{name}_hot", "alone", size), 3)


def _keyed(cells: Sequence[Cell]) -> Iterator[tuple[Key, Cell]]:
    """The cells of copies, with what they measured."""
    for cell in cells:
        key = cell.key
        if isinstance(key, tuple) and key[1] in ("alone", "queued"):
            yield key, cell


def curve_of(name: str, cells: Sequence[Cell]) -> Curve | None:
    """The curve of the cells of that name, `None` if there are none."""
    found: dict[str, dict[int, Summary]] = {"alone": {}, "queued": {}}
    for (own, kind, size), cell in _keyed(cells):
        if own == name:
            found[kind][size] = cell.summary()
    if not found["alone"]:
        return None
    return curve(found["alone"], found["queued"])


def queued_rate(name: str, cells: Sequence[Cell]) -> float | None:
    """Bytes/s of the largest queued copies of that name."""
    rates = [
        (size, size / cell.summary().median)
        for (own, kind, size), cell in _keyed(cells)
        if own == name and kind == "queued"
    ]
    return max(rates)[1] if rates else None


def duplex(
    bench: Bench, gpu: int, inward: Walk, outward: Walk, seconds: float
) -> tuple[float, float]:
    """Bytes/s of each direction while both are at work for `seconds`: (into the GPU, out of it)."""
    size = min(16 * MIB, *(min(w.target.size, w.source.size) for w in (inward, outward)))
    ready = threading.Barrier(2)
    rates = [0.0, 0.0]

    def work(k: int, walk: Walk) -> None:
        ready.wait()
        start = time.perf_counter()
        done = 0
        while True:
            bench.copies(gpu, walk.pairs(4, size), size)
            done += 4 * size
            elapsed = time.perf_counter() - start
            if elapsed >= seconds:
                rates[k] = done / elapsed
                return

    other = threading.Thread(target=work, args=(1, outward))
    other.start()
    work(0, inward)
    other.join()
    return rates[0], rates[1]


def interference(alone_rate: float, beside: float, other: float) -> float:
    """Bytes of this direction's capacity that a byte of the opposite one takes.

    `alone_rate` is this direction alone, `beside` what is left of it while the other moves `other`.
    """
    return max(0.0, (alone_rate - beside) / other) if other > 0 else 0.0
