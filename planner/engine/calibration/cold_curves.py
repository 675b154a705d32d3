"""From samples of the disk to its curves: readers or writers together, parts of a mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from planner.engine.calibration import writes
from planner.engine.calibration.disk import AROUND
from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.statistics import middle, spread_around
from planner.machine.curve import Curve, Point
from planner.machine.reads import ReadTable
from planner.machine.schema import CurveName, Direction

Pool = tuple[int, int]
"""Readers, and bytes of the request that each has under way."""


def forward(cells: Sequence[Cell]) -> Direction | None:
    """The disk's reading direction, `None` where nothing could be read."""
    names: tuple[CurveName, ...] = ("buffered", "direct")
    curves = {name: curve for name in names if (curve := curve_of(cells, name)) is not None}
    if not curves:
        return None
    rate = max(curve.rate for curve in curves.values())
    mapped = mapped_curve(cells)
    return Direction(rate=rate, curves=curves if mapped is None else {**curves, "mmap": mapped})


def backward(cells: Sequence[Cell]) -> Direction | None:
    """The disk's writing direction from samples of writing and syncing, and of writing around."""
    ways: dict[CurveName, str] = {"buffered": writes.THROUGH, "direct": writes.AROUND}
    curves = {way: curve for way, name in ways.items() if (curve := curve_of(cells, name))}
    for cell in cells:
        if cell.key == ("disk", "write") and cell.taken and "buffered" not in curves:
            seen = cell.summary()
            curves["buffered"] = Curve(latency=0.0, rate=seen.median, spread=seen.spread)
    if not curves:
        return None
    return Direction(rate=max(curve.rate for curve in curves.values()), curves=curves)


def curve_of(cells: Sequence[Cell], name: str) -> Curve | None:
    """The curve of one way of reading or writing; its rate is what the best pool reaches."""
    samples: dict[Pool, list[float]] = {}
    for cell in cells:
        if isinstance(cell.key, tuple) and cell.key[:3] == ("disk", name, "readers") and cell.taken:
            samples[cell.key[3], cell.key[4]] = [*cell.clean, *cell.dirty]
    if not samples:
        return None
    rates = {pool: middle(_alike(samples, pool, name)) for pool in samples}
    table = _table(rates).model_copy(update={"into_memory": _into_memory(cells, name, samples)})
    few = table.workers[0]
    points = tuple(
        Point(size_bytes=size, seconds=few * size / rates[few, size])
        for size in table.requests
        if (few, size) in rates
    )
    return Curve(
        points=points,
        latency=_latency(points),
        rate=table.fastest,
        readers=table,
        spread=spread_around(samples, rates),
    )


def _alike(samples: Mapping[Pool, Sequence[float]], pool: Pool, name: str) -> list[float]:
    """The samples of a pool, twice, and of those beside it, once.

    The next fewer and the next more readers change little. Around the page cache what counts are
    the bytes under way, however many requests they are: a quarter of the readers with requests four
    times as large reach the same within what a disk varies by itself. Through it the read-ahead
    makes the requests: the next smaller and the next larger ones change little either, and the best
    of all cells was a tenth to a quarter more than runs reached (three H200 machines, measured
    2026-12-01). So one lucky cell is not taken for the best, and one that stands out on one
    side, where too few bytes are under way, changes no median.
    """
    sizes = sorted({size for _, size in samples})
    counts = sorted({count for count, _ in samples})
    at, turn = sizes.index(pool[1]), counts.index(pool[0])
    beside = {(count, pool[1]) for count in counts[max(0, turn - 1) : turn + 2]}
    if name in (AROUND, writes.AROUND):
        under_way = pool[0] * pool[1]
        beside |= {(under_way // size, size) for size in sizes[max(0, at - 1) : at + 2]}
    else:
        beside |= {(pool[0], size) for size in sizes[max(0, at - 1) : at + 2]}
    return [*samples[pool], *(value for one in beside for value in samples.get(one, ()))]


def _into_memory(
    cells: Sequence[Cell], name: str, samples: Mapping[Pool, Sequence[float]]
) -> float:
    """The share of the pools' rates that reads into memory reach which is in no cache."""
    shares = [
        middle([*cell.clean, *cell.dirty]) / middle(samples[pool])
        for cell in cells
        if isinstance(cell.key, tuple) and cell.key[:3] == ("disk", name, "afar") and cell.taken
        if (pool := (cell.key[3], cell.key[4])) in samples
    ]
    return min(1.0, median(shares)) if shares else 1.0


def _table(rates: Mapping[Pool, float]) -> ReadTable:
    workers = sorted({count for count, _ in rates})
    sizes = sorted({size for _, size in rates})
    rows = tuple(tuple(rates.get((count, size)) for size in sizes) for count in workers)
    return ReadTable(workers=tuple(workers), requests=tuple(sizes), rates=rows)


def mapped_curve(cells: Sequence[Cell]) -> Curve | None:
    """The curve of touching parts of a cold mapping."""
    parts: dict[int, list[float]] = {}
    for cell in cells:
        if isinstance(cell.key, tuple) and cell.key[:3] == ("disk", "mmap", "alone") and cell.taken:
            parts[cell.key[3]] = [*cell.clean, *cell.dirty]
    if not parts:
        return None
    times = {size: middle(parts[size]) for size in sorted(parts)}
    points = tuple(Point(size_bytes=size, seconds=seconds) for size, seconds in times.items())
    last = points[-1]
    return Curve(
        points=points,
        latency=_latency(points),
        rate=last.size_bytes / last.seconds,
        spread=spread_around(parts, times),
    )


def _latency(points: Sequence[Point]) -> float:
    """Seconds where the line through the smallest and the largest request meets the axis."""
    first, last = points[0], points[-1]
    if last is first:
        return 0.0
    slope = (last.seconds - first.seconds) / (last.size_bytes - first.size_bytes)
    return min(first.seconds, max(0.0, first.seconds - max(0.0, slope) * first.size_bytes))
