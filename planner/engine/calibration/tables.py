"""Copy capacity C(workers, ring): how fast threads fill or drain a ring without a copy engine.

Each worker goes round its own part of the ring, as the workers of a transfer do, and takes the next
piece of the source from a counter that all share. One sample is a slice of time after a warm-up;
its rate is the sum of what each worker did in its own time, so that no straggler's tail is counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

import numpy as np

from planner.engine.calibration.abreast import abreast
from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.scope import FEW_CORES
from planner.engine.calibration.statistics import middle, spread_around, typical
from planner.engine.layout import scattered
from planner.engine.memory import HostBuffer
from planner.engine.strategies.base import Scattered, cut
from planner.machine.schema import CopyName
from planner.machine.tables import CopyTable

MIB: Final = 1 << 20
SLOTS: Final = 2
"""Slots of a worker at the least, as rings have them: one is filled while the other is emptied."""
SMALLEST_CHUNK: Final = MIB
"""Bytes of a slot at the least: smaller rings are for fewer workers."""
LARGEST: Final = 8 * MIB
"""Bytes that a worker copies in one call, as far as its part of the ring goes. The interpreter's
lock counts least so: by calls of a slot each, twelve workers went round 32 MiB at 37 GB/s and round
64 at 67, one call every 38 us, which is little but turns at the lock (one H200, measured
2026-12-01). Larger copies would leave too few in a sample, and those of 256 MiB go around the
caches, as no ring's do."""
PIECES: Final = 512
"""Pieces that are gathered in one sample: about half a millisecond."""
SMALL: Final = 4 << 10
"""Bytes of each."""
WARM: Final = 0.25
"""Share of a slice that is not counted: the first lap finds other data in the caches."""

CopyPiece = Callable[[memoryview, int], None]
"""Copies between a slot and the source's or sink's bytes at an offset."""


@dataclass(frozen=True, slots=True)
class Side:
    """The other side of the ring: how to copy one piece, and how many bytes there are.

    With `turns` one copy waits for another: most file systems let one writer at a time into a file.
    """

    copy: CopyPiece
    size: int
    turns: bool = False


def worker_counts(cores: int) -> list[int]:
    """Powers of two up to the cores, three quarters of the cores, and the cores."""
    found = {1 << k for k in range(cores.bit_length()) if 1 << k <= cores}
    return sorted(found | {cores} | ({cores * 3 // 4} if cores >= FEW_CORES else set()))


def chunk_of(workers: int, ring: int) -> int | None:
    """Bytes that a worker copies in one call, `None` where its slots would be too small to measure.

    Its whole part of the ring, or equal shares of that.
    """
    part = ring // workers
    if part < SLOTS * SMALLEST_CHUNK:
        return None
    return part // -(-part // LARGEST)


def rate(side: Side, slots: Sequence[memoryview], workers: int, seconds: float) -> float:
    """Bytes/s of `workers` threads that go round their slots for `seconds`.

    Parameters
    ----------
    side
        What is copied from or to.
    slots
        `workers` times the slots of each, one worker's next to each other.
    workers, seconds
        How many threads, and for how long.

    """
    chunk = len(slots[0])
    pieces = max(1, side.size // chunk)
    turns = count()
    ready = threading.Barrier(workers)
    own = len(slots) // workers

    def work(k: int) -> tuple[int, float, float]:
        mine = slots[k * own : (k + 1) * own]
        ready.wait()
        start = time.perf_counter()
        counted_from, end = start + seconds * WARM, start + seconds
        done, turn, begin = 0, 0, start
        while True:
            side.copy(mine[turn % own], next(turns) % pieces * chunk)
            turn += 1
            now = time.perf_counter()
            if begin is start and now >= counted_from:
                begin, done = now, 0  # the warm-up ends
                continue
            done += chunk
            if now >= end and done:
                return done, begin, now

    found = abreast(work, workers, ready)
    if not side.turns:
        return sum(done / (end - begin) for done, begin, end in found)
    # Who comes last finds nobody in its way, so its own time says too much. From the first end of a
    # warm-up to the last end of a piece all pieces came one after another, warm-ups of others too.
    first, last = min(begin for _, begin, _ in found), max(end for *_, end in found)
    return (sum(done for done, *_ in found) + (workers - 1) * chunk) / (last - first)


def cells(
    copy: CopyName,
    side: Side,
    ring: memoryview,
    axes: tuple[Sequence[int], Sequence[int]],
    seconds: float,
) -> Iterator[Cell]:
    """The cells of one table: workers x rings, each `seconds` a sample.

    Parameters
    ----------
    copy, side
        The kind of copy, and what is copied from or to.
    ring
        Memory that is at least as large as the largest ring; smaller rings are its front.
    axes
        The numbers of workers and the sizes of the rings.
    seconds
        Of one sample.

    """
    for workers in axes[0]:
        for size in axes[1]:
            chunk = chunk_of(workers, size)
            if chunk is None:
                continue
            own = size // workers // chunk
            slots = [ring[k * chunk : (k + 1) * chunk] for k in range(own * workers)]

            def run(slots: Sequence[memoryview] = slots, workers: int = workers) -> float:
                return rate(side, slots, workers, seconds)

            key = (copy, workers, size)
            yield Cell(key, run, threads=workers, is_rate=True, waits=side.turns)


def per_chunk_cell(copy: CopyName, side: Side, ring: memoryview) -> Cell:
    """Seconds of the interpreter for one chunk: what a copy of next to nothing takes."""
    slot = ring[:64]

    def run() -> float:
        start = time.perf_counter()
        for _ in range(100):
            side.copy(slot, 0)
        return (time.perf_counter() - start) / 100

    return Cell(("overhead", copy), run)


def per_piece_cell(copy: CopyName, ring: memoryview) -> Cell:
    """Seconds of the interpreter for one more small piece that is gathered into a chunk.

    Pieces of 4 KiB are copied while the lock is held, so the copy itself is part of it.
    """
    count = min(PIECES, len(ring) // SMALL)

    def run() -> float:
        layout = scattered([SMALL] * count)
        memory = HostBuffer(layout.extent)
        try:
            memory.touch()
            target = np.frombuffer(ring, np.uint8).ctypes.data
            source = Scattered(layout, memory.address, cut(layout.size, layout.size))
            start = time.perf_counter()
            source.gather(0, target)
            return (time.perf_counter() - start) / count
        finally:
            memory.close()

    return Cell(("piece", copy), run)


def table(
    copy: CopyName,
    found: Sequence[Cell],
    axes: tuple[Sequence[int], Sequence[int]],
    overhead: float,
    piece: float = 0.0,
) -> CopyTable | None:
    """The table of one kind of copy from its sampled cells, `None` if none was sampled.

    The interpreter's `overhead` for a chunk is in every sample; the model adds it by itself, so
    the rates are those of the bytes alone. `piece` is its time for one more piece of a chunk.
    """
    by_key, spread = _medians(copy, found, axes)
    rows, counts = [], []
    for workers in axes[0]:
        row: list[float | None] = []
        for ring in axes[1]:
            seen = by_key.get((workers, ring))
            chunk = chunk_of(workers, ring)
            if seen is None or chunk is None:
                row.append(None)
                continue
            seconds = workers * chunk / seen
            row.append(workers * chunk / max(seconds - overhead, seconds / 2))
        if any(value is not None for value in row):
            rows.append(tuple(row))
            counts.append(workers)
    if not rows:
        return None
    return CopyTable(
        workers=tuple(counts),
        rings=tuple(axes[1]),
        rates=tuple(rows),
        per_chunk=overhead,
        per_piece=piece,
        spread=spread,
    )


def _medians(
    copy: CopyName, found: Sequence[Cell], axes: tuple[Sequence[int], Sequence[int]]
) -> tuple[dict[tuple[int, int], float], float | None]:
    """The rate of every sampled (workers, ring), and the spread of the samples."""
    cells = {cell.key[1:]: cell for cell in found if cell.key[0] == copy and cell.taken}  # type: ignore[index]
    if copy != "save":
        seen = {at: cell.summary() for at, cell in cells.items()}
        return {at: one.median for at, one in seen.items()}, typical(
            one.spread for one in seen.values()
        )
    # How fast pages come varies by more from one sample to the next than from one cell to the next,
    # so each cell counts twice and those beside it once.
    samples = {at: [*cell.clean, *cell.dirty] for at, cell in cells.items()}
    rates = {at: middle(_around(samples, at, axes)) for at in samples}
    return rates, spread_around(samples, rates) if samples else None


def _around(
    samples: Mapping[tuple[int, int], Sequence[float]],
    at: tuple[int, int],
    axes: tuple[Sequence[int], Sequence[int]],
) -> list[float]:
    """The samples of a cell, and of it and its neighbours."""
    i, j = axes[0].index(at[0]), axes[1].index(at[1])
    beside = [(i, j), (i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)]
    keys = [
        (axes[0][k], axes[1][n])
        for k, n in beside
        if 0 <= k < len(axes[0]) and 0 <= n < len(axes[1])
    ]
    return [*samples[at], *(value for key in keys for value in samples.get(key, ()))]
