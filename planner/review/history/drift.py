"""Where the level of a figure changed, and stayed changed: a robust change-point test.

The figures are daily medians, so one slow run moves nothing. The days are split where two medians
describe them best: where the sum of absolute deviations from the median before and from the median
after is least (Bai, "Estimation of multiple-regime regressions with least absolutes deviation",
J. Statist. Plann. Inference 74, 1998). That split counts as a drift if

- at least `LEAST_DAYS` days on either side lie nearer to their own side's median than to the
  other's: neither one bad day nor two are a drift,
- the medians differ by at least `LEAST_CHANGE`: less is no reason to act,
- and by `least_score` standard errors. The standard error of the difference of two medians is
  sqrt(pi / 2) sigma sqrt(1/n + 1/m), and sigma is 1.4826 times the median absolute deviation of all
  days from their own side's median, so outliers do not hide a drift.

The bound on the score is high, because the split was searched for, and the higher the fewer days
there are, because the deviation of few days is uncertain. 2,000 simulated histories of pure noise
for each number of days gave the 0.98 quantile of the score (11 for 6 days, 17 for 7, 9 for 8, 7
for 10, 5 for 15, 4 for 30); the bound lies above it, and so fewer than 2 in 100 histories that did
not change raise an alarm (`tests/unit/review/history/test_drift.py` counts them).

Then the days after the change are looked at alone, again and again: what is reported is the
latest change. One split cannot describe a level that fell and came back; so where the whole shows
none, the latest half is looked at, and the latest quarter, down to `LEAST_WINDOW` days.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

LEAST_DAYS: Final = 3
LEAST_CHANGE: Final = 0.05
LEAST_WINDOW: Final = 12
"""Days of the shortest window that is looked at apart from what was before it."""
LEAST_SIGMA: Final = 0.005
"""Of the level: clocks and rounding differ by as much, so days that agree exactly are no proof."""


def least_score(days: int) -> float:
    """How many standard errors a change must have among so many days.

    >>> least_score(6), least_score(10), least_score(46)
    (25.0, 11.0, 5.0)
    """
    return 4 + 42 / (days - 4)


@dataclass(frozen=True, slots=True)
class Change:
    """A level that changed from the value number `at` on."""

    at: int
    before: float
    after: float
    score: float

    @property
    def share(self) -> float:
        """By how much, relative to before: -0.1 is a tenth less."""
        return self.after / self.before - 1


def last_change(values: Sequence[float]) -> Change | None:
    """The latest change of the level of `values` (all above 0), `None` where it stayed the same."""
    found = None
    begin, width = 0, len(values)
    while True:
        change = _change(values[begin:])
        if change is not None:
            found = Change(begin + change.at, change.before, change.after, change.score)
            begin = found.at
        elif found is None and width // 2 >= LEAST_WINDOW:
            width //= 2
            begin = len(values) - width
        else:
            return found


def _change(values: Sequence[float]) -> Change | None:
    """The change at the best split of `values`, if it is one."""
    count = len(values)
    if count < 2 * LEAST_DAYS:
        return None
    left = running_costs(values)
    right = running_costs(values[::-1])[::-1]
    splits = range(LEAST_DAYS, count - LEAST_DAYS + 1)
    at = min(splits, key=lambda split: left[split - 1] + right[split])
    before, after = median(values[:at]), median(values[at:])
    if abs(after / before - 1) < LEAST_CHANGE:
        return None
    middle = (before + after) / 2
    kept = (
        sum((value < middle) == (level < middle) for value in side)
        for level, side in ((before, values[:at]), (after, values[at:]))
    )
    if min(kept) < LEAST_DAYS:
        return None
    residuals = [abs(value - before) for value in values[:at]]
    residuals += [abs(value - after) for value in values[at:]]
    sigma = max(1.4826 * median(residuals), LEAST_SIGMA * min(before, after))
    error = math.sqrt(math.pi / 2) * sigma * math.sqrt(1 / at + 1 / (count - at))
    score = abs(after - before) / error
    return Change(at, before, after, score) if score >= least_score(count) else None


def running_costs(values: Sequence[float]) -> list[float]:
    """Of each beginning of `values`: the sum of absolute deviations from its median.

    Two heaps hold the lower and the upper half; O(n log n) for all beginnings together.

    >>> running_costs([1.0, 3.0, 2.0])
    [0.0, 2.0, 2.0]
    """
    low: list[float] = []  # negated, so that its largest comes first
    high: list[float] = []
    below = above = 0.0
    costs = []
    for value in values:
        moved = -heapq.heappushpop(low, -value)
        below += value - moved
        heapq.heappush(high, moved)
        above += moved
        if len(high) > len(low):
            back = heapq.heappop(high)
            above -= back
            heapq.heappush(low, -back)
            below += back
        middle = -low[0]
        costs.append((middle * len(low) - below) + (above - middle * len(high)))
    return costs
