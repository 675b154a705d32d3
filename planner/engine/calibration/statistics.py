"""Medians and spreads of a handful of samples.

A calibration predicts with medians and gives intervals from quartiles, so a single bad sample
changes neither.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Summary:
    """Median of some samples, their relative half interquartile range, and how many they were.

    One sample has no spread: it is `None` then.
    """

    median: float
    spread: float | None
    samples: int


def quartile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted samples lie, linear between neighbours."""
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def summary(samples: Iterable[float]) -> Summary:
    """Median and relative half interquartile range; raises `ValueError` without any sample."""
    ordered = sorted(samples)
    if not ordered:
        raise ValueError("a summary needs at least one sample")
    middle = quartile(ordered, 0.5)
    half = (quartile(ordered, 0.75) - quartile(ordered, 0.25)) / 2
    share = half / abs(middle) if middle else 0.0
    return Summary(middle, share if len(ordered) > 1 else None, len(ordered))


def middle(samples: Iterable[float]) -> float:
    """The median; raises `ValueError` without any sample."""
    return summary(samples).median


def spread_around(
    samples: Mapping[Key, Sequence[float]], centres: Mapping[Key, float]
) -> float | None:
    """Relative half interquartile range of samples of several cells, each around its own value.

    No sample is left out; `None` where no cell has more than one.
    """
    if all(len(values) < 2 for values in samples.values()):
        return None
    off = [value / centres[key] for key, values in samples.items() for value in values]
    return summary(off).spread


def typical(spreads: Iterable[float | None]) -> float | None:
    """The median of the spreads that are known, `None` where there is none."""
    found = [spread for spread in spreads if spread is not None]
    return median(found) if found else None
