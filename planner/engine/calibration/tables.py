"""Copy capacity C(workers, ring): how fast threads fill or drain a ring without a copy engine.

Each worker goes round its own two slots, as the workers of a transfer do, and takes the next piece
of the source from a counter that all share. One sample is a slice of time after a warm-up; its rate
is the sum of what each worker did in its own time, so that no straggler's tail is counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import Final

import numpy as np

from planner.engine.calibration.rounds import Cell, summaries
from planner.engine.calibration.scope import FEW_CORES
from planner.engine.calibration.statistics import typical
from planner.engine.layout import scattered
from planner.engine.memory import HostBuffer
from planner.engine.strategies.base import Scattered, cut
from planner.machine.schema import CopyName
from planner.machine.tables import CopyTable

MIB: Final = 1 << 20
SLOTS: Final = 2
"""Slots of a worker: one is filled while the other is emptied."""
SMALLEST_CHUNK: Final = MIB
"""Below 1 MiB the interpreter's time for a chunk, which `per_chunk` holds, outweighs the copy."""
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
    """The other side of the ring: how to copy one piece, and how many bytes there are."""

    copy: CopyPiece
    size: int


def worker_counts(cores: int) -> list[int]:
    """Powers of two up to the cores, three quarters of the cores, and the cores."""
    found = {1 << k for k in range(cores.bit_length()) if 1 << k <= cores}
    return sorted(found | {cores} | ({cores * 3 // 4} if cores >= FEW_CORES else set()))


def chunk_of(workers: int, ring: int) -> int | None:
    """Bytes of a chunk of a ring, `None` where it would be too small to measure."""
    chunk = ring // (SLOTS * workers)
    return chunk if chunk >= SMALLEST_CHUNK else None


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

    def work(k: int) -> float:
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
                return done / (now - begin)

    if workers == 1:
        return work(0)
    with ThreadPoolExecutor(workers) as pool:
        return sum(pool.map(work, range(workers)))


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
            slots = [ring[k * chunk : (k + 1) * chunk] for k in range(SLOTS * workers)]

            def run(slots: Sequence[memoryview] = slots, workers: int = workers) -> float:
                return rate(side, slots, workers, seconds)

            yield Cell((copy, workers, size), run, threads=workers, is_rate=True)


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
    by_key = summaries(cell for cell in found if cell.key[0] == copy)  # type: ignore[index]
    rows, counts = [], []
    for workers in axes[0]:
        row: list[float | None] = []
        for ring in axes[1]:
            seen = by_key.get((copy, workers, ring))
            chunk = chunk_of(workers, ring)
            if seen is None or chunk is None:
                row.append(None)
                continue
            seconds = workers * chunk / seen.median
            row.append(workers * chunk / max(seconds - overhead, seconds / 2))
        if any(value is not None for value in row):
            rows.append(tuple(row))
            counts.append(workers)
    if not rows:
        return None
    spread = typical(seen.spread for seen in by_key.values())
    return CopyTable(
        workers=tuple(counts),
        rings=tuple(axes[1]),
        rates=tuple(rows),
        per_chunk=overhead,
        per_piece=piece,
        spread=spread,
    )
