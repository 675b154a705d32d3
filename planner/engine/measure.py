"""Figures of samples: medians, spreads, and the time in which something was at work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

Interval = tuple[float, float]


def union(intervals: Iterable[Interval]) -> float:
    """Seconds covered by at least one interval.

    >>> union([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    total, end = 0.0, float("-inf")
    for start, stop in sorted(intervals):
        if stop > end:
            total += stop - max(start, end)
            end = stop
    return total


def served(issued: Iterable[Interval], free: float = float("-inf")) -> list[Interval]:
    """The service of copies on one FIFO engine, from their issues and ends.

    A service starts at the later of its issue and the previous end on that engine.

    >>> served([(0.0, 2.0), (0.5, 3.0), (4.0, 5.0)])
    [(0.0, 2.0), (2.0, 3.0), (4.0, 5.0)]
    """
    found = []
    for issue, end in sorted(issued, key=lambda pair: pair[1]):
        found.append((min(max(issue, free), end), end))
        free = end
    return found


def quantile(samples: Sequence[float], share: float) -> float:
    """The value below which `share` of the samples lie, linear between neighbours.

    >>> quantile([4.0, 1.0, 2.0, 3.0], 0.5)
    2.5
    """
    ordered = sorted(samples)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def spread(samples: Sequence[float]) -> float:
    """Half the interquartile range, in the unit of the samples."""
    return (quantile(samples, 0.75) - quantile(samples, 0.25)) / 2


def middle(samples: Sequence[float]) -> float:
    """The median."""
    return median(samples)
