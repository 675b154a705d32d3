"""From samples of copies to a curve: points, latency, gap, rate."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from planner.engine.calibration.statistics import Summary, typical
from planner.machine.curve import Curve, Point

SMALL: Final = 64 * 1024
"""Bytes up to which a copy is mostly latency: 64 KiB at 50 GB/s are 1.3 us beside about 6."""
LARGE: Final = 16 << 20
"""Bytes from which a copy is nearly only rate: at 16 MiB a latency of 10 us is 3 % at 50 GB/s."""


def asymptotic_rate(times: Mapping[int, float]) -> float:
    """Bytes/s of a very large copy: the slope over the large sizes, or the best rate seen.

    The slope between two sizes leaves the latency out, but noise in either end can make it
    absurd; it counts only within a fifth of what the largest copy reached.
    """
    largest = max(times)
    reached = largest / times[largest]
    low = min((size for size in times if LARGE <= size < largest), default=None)
    if low is None or times[largest] <= times[low]:
        return reached
    slope = (largest - low) / (times[largest] - times[low])
    return slope if reached <= slope <= 1.2 * reached else reached


def latency(times: Mapping[int, float], rate: float) -> float:
    """Seconds of a copy of nothing: the small copies less their bytes."""
    small = sorted(size for size in times if size <= SMALL) or [min(times)]
    rests = sorted(max(0.0, times[size] - size / rate) for size in small[:2])
    return rests[0]


def gap(queued: Mapping[int, float], rate: float) -> float | None:
    """Engine seconds of a queued copy beside its bytes, `None` where none was queued."""
    found = sorted(max(0.0, seconds - size / rate) for size, seconds in queued.items())
    return found[len(found) // 2] if found else None


def curve(alone: Mapping[int, Summary], queued: Mapping[int, Summary] | None = None) -> Curve:
    """The curve of copies of each size alone, and of `queued` copies back to back.

    Parameters
    ----------
    alone
        Seconds by bytes of a copy that finds the engine idle.
    queued
        Seconds for each copy of many that queue behind one another; small sizes tell the gap.

    """
    times = {size: found.median for size, found in sorted(alone.items())}
    rate = asymptotic_rate(times)
    together = {size: found.median for size, found in (queued or {}).items()}
    base = latency(times, rate)
    between = gap({s: t for s, t in together.items() if s <= SMALL}, rate)
    spreads = [found.spread for size, found in alone.items() if size > SMALL]
    points = tuple(Point(size_bytes=size, seconds=seconds) for size, seconds in times.items())
    return Curve(
        points=points,
        latency=base,
        gap=None if between is None else min(between, base),
        rate=rate,
        spread=typical(spreads or [found.spread for found in alone.values()]),
    )


def grid(smallest: int, largest: int, factor: int = 4) -> list[int]:
    """Sizes from `smallest` to `largest`, each `factor` times the one before."""
    sizes = [smallest]
    while sizes[-1] * factor <= largest:
        sizes.append(sizes[-1] * factor)
    return sizes


def knots(largest: int, *inner: int) -> list[int]:
    """The given sizes up to `largest`, in order and once each."""
    found = sorted({size for size in (*inner, largest) if size <= largest})
    return [b for a, b in pairwise([0, *found]) if b > a]
