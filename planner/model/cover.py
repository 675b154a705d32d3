"""The union of intervals, and how much of another interval it leaves uncovered."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

ROUNDING = 1e-12
"""Share of an instant below which a difference of two is rounding."""


class Cover:
    """The union of intervals.

    >>> Cover([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)]).exposed(2.0, 5.5)
    2.0
    """

    def __init__(self, spans: Iterable[tuple[float, float]]) -> None:
        self.starts: list[float] = []
        self.ends: list[float] = []
        self.before: list[float] = []  # seconds covered by the intervals in front
        total = 0.0
        for start, end in sorted(spans):
            if self.ends and start <= self.ends[-1]:
                grown = max(end, self.ends[-1])
                total += grown - self.ends[-1]
                self.ends[-1] = grown
            elif end > start:
                self.starts.append(start)
                self.ends.append(end)
                self.before.append(total)
                total += end - start

    def _until(self, time: float) -> float:
        """Seconds covered before `time`."""
        at = bisect_right(self.starts, time) - 1
        if at < 0:
            return 0.0
        return self.before[at] + min(time, self.ends[at]) - self.starts[at]

    def exposed(self, start: float, end: float) -> float:
        """Seconds between two instants that are not covered."""
        left = end - start - (self._until(end) - self._until(start))
        return left if left > ROUNDING * end else 0.0
