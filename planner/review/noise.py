"""Whether two measurements differ by more than their own noise.

The question is asked one-sidedly with a risk of 5 %: a change is told apart from noise where the
90 % interval of the difference leaves out 0. Samples are compared by ranks, so that one disturbed
sample decides nothing and no shape of their distribution is assumed; nothing is drawn at random,
so the same files give the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement, product
from statistics import NormalDist, median, variance
from typing import Final, NamedTuple

RISK: Final = 0.05
"""Chance of calling noise a change, on either side."""
_EXACT_UP_TO: Final = 2500
"""Pairs up to which ranks are counted; beyond, their distribution is all but normal."""
# Student's t, 0.95 quantile, for 1 to 10 degrees of freedom (Fisher and Yates, table III).
_STUDENT: Final = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812)


class Interval(NamedTuple):
    """The differences in seconds, after less before, that the samples leave possible."""

    low: float
    high: float

    @property
    def half(self) -> float:
        """Half its width, in seconds."""
        return (self.high - self.low) / 2


def shift(before: Sequence[float], after: Sequence[float]) -> Interval | None:
    """By how much `after` is shifted against `before`, both in seconds.

    The interval that the rank-sum test (Mann and Whitney 1947) leaves: between the k-th smallest
    and the k-th largest of all differences of pairs (Hodges and Lehmann 1963). `None` where there
    are too few samples for any: 3 beside 3 are enough, 2 beside 5 too.
    """
    n, m = len(before), len(after)
    differences = sorted(b - a for a, b in product(before, after))
    if n * m <= _EXACT_UP_TO:
        k = _rank(_rank_sums(n, m))
    else:
        k = _normal_rank(n * m / 2, n * m * (n + m + 1) / 12)
    return Interval(differences[k - 1], differences[-k]) if k else None


def shift_from(value: float, after: Sequence[float]) -> Interval | None:
    """By how much the samples `after` are shifted against an exact `value`, all in seconds.

    The interval of the signed-rank test (Wilcoxon 1945), from the means of all pairs; `None` for
    less than 5 samples, which are too few.
    """
    n = len(after)
    means = sorted((a + b) / 2 - value for a, b in combinations_with_replacement(after, 2))
    if n * n <= _EXACT_UP_TO:
        k = _rank(_signed_ranks(n))
    else:
        k = _normal_rank(n * (n + 1) / 4, n * (n + 1) * (2 * n + 1) / 24)
    return Interval(means[k - 1], means[-k]) if k else None


class Once(NamedTuple):
    """Something that a run observed once, in seconds, and the samples of its usual repeats."""

    seconds: float
    samples: Sequence[float]

    def scaled(self) -> list[float]:
        """The samples as if each were as long as the one observation.

        A first run is longer by its setup, which varies too: no less in proportion, as far as
        anybody knows. An observation shorter than its samples has their noise as it is.
        """
        usual = median(self.samples)
        longer = max(1.0, self.seconds / usual) if usual > 0 else 1.0
        return [sample * longer for sample in self.samples]


def lone(difference: float, *sides: Once) -> Interval | None:
    """The interval of a difference between single observations, in seconds.

    What happens once has no samples of its own. It is taken to vary, in proportion to its length,
    as the samples do of which it is the first: the pooled standard deviation of the `sides` that
    were measured, times the root of their number, times Student's t. `None` where a side has less
    than 2 samples.
    """
    if not sides or any(len(side.samples) < 2 for side in sides):
        return None
    own = [side.scaled() for side in sides]
    freedom = sum(len(samples) - 1 for samples in own)
    pooled = sum(variance(samples) * (len(samples) - 1) for samples in own) / freedom
    half = _student(freedom) * math.sqrt(pooled * len(own))
    return Interval(difference - half, difference + half)


def _rank(counts: Sequence[int]) -> int:
    """The largest k with a chance of at most `RISK` that a rank statistic is below k; 0 if none."""
    total, below = sum(counts), 0
    for k, count in enumerate(counts):
        below += count
        # Whole numbers: 1 of 20 is a risk of 5 %, not of 5 % and a rounding.
        if below * round(1 / RISK) > total:
            return k
    return 0


def _rank_sums(n: int, m: int) -> list[int]:
    """In how many orders of n and m samples u pairs are out of order, by u: Gauss's binomial."""
    counts = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for u in range(n * m, m + i - 1, -1):
            counts[u] -= counts[u - m - i]
        for u in range(i, n * m + 1):
            counts[u] += counts[u - i]
    return counts


def _signed_ranks(n: int) -> list[int]:
    """In how many ways of signs the positive ranks of n samples sum to w, by w."""
    counts = [1] + [0] * (n * (n + 1) // 2)
    for rank in range(1, n + 1):
        for w in range(len(counts) - 1, rank - 1, -1):
            counts[w] += counts[w - rank]
    return counts


def _normal_rank(mean: float, squared: float) -> int:
    """The same k from the mean and variance of the statistic."""
    return max(0, math.floor(mean + NormalDist().inv_cdf(RISK) * math.sqrt(squared)))


def _student(freedom: int) -> float:
    """Student's t, 0.95 quantile: the table, then the expansion of Cornish and Fisher."""
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    z = NormalDist().inv_cdf(1 - RISK)
    first = (z**3 + z) / 4 / freedom
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96 / freedom**2
    return z + first + second
