"""From samples of copies to a curve: points, latency, gap, rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.engine.calibration.statistics import Summary, typical
from planner.machine.curve import Curve, Point

SMALL: Final = 64 * 1024
"""Bytes up to which a copy is mostly latency: 64 KiB at 50 GB/s are 1.3 us beside about 6."""
LARGE: Final = 16 << 20
"""Bytes from which a copy is nearly only rate: at 16 MiB a latency of 10 us is 3 % at 50 GB/s."""


def asymptotic_rate(alone: Mapping[int, float], queued: Mapping[int, float]) -> float:
    """Bytes/s of a very large copy: the best that any large size reached, alone or queued.

    The best and not the largest size: what disturbs a copy only slows it down. What the smallest
    copies take is no part of it: inside a GPU's memory 20 us are an eighth of 256 MiB. A copy that
    takes less than twice that says more of it than of any rate.
    """
    small = [seconds for size, seconds in alone.items() if size <= SMALL]
    begun = min(small, default=0.0)
    lone = [(size, seconds - begun) for size, seconds in alone.items() if seconds > 2 * begun]
    both = [*lone, *queued.items()] or [*alone.items()]
    large = [(size, seconds) for size, seconds in both if size >= LARGE]
    return max(size / seconds for size, seconds in large or [max(both)])


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
    together = {size: found.median for size, found in (queued or {}).items()}
    rate = asymptotic_rate(times, together)
    base = latency(times, rate)
    between = gap({s: t for s, t in together.items() if s <= SMALL}, rate)
    spreads = [found.spread for size, found in alone.items() if size > SMALL]
    points = tuple(Point(size_bytes=size, seconds=seconds) for size, seconds in times.items())
    return Curve(
        points=points,
        latency=base,
        gap=None if between is None else min(between, base),
        queued=tuple(Point(size_bytes=s, seconds=t) for s, t in sorted(together.items())),
        rate=rate,
        spread=typical(spreads) or typical(found.spread for found in alone.values()),
    )


def grid(smallest: int, largest: int, factor: int = 4) -> list[int]:
    """Sizes from `smallest` to `largest`, each `factor` times the one before."""
    sizes = [smallest]
    while sizes[-1] * factor <= largest:
        sizes.append(sizes[-1] * factor)
    return sizes
