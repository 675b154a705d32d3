"""Sentinels: two quick measurements whose change tells that the machine itself has changed.

A clock that was lowered, a neighbour that took memory bandwidth, a link that fell back: none of
these shows in the counters of `noise`. So the same two things are measured again every two seconds
or so, and where one of them is off, what was sampled since the last look does not count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from planner.engine.calibration.statistics import middle, summary

LINK: Final = "link"
MEMORY: Final = "memory"
"""What they look at: a copy engine, and one thread's copying."""
EVERY: Final = 2.0
"""Seconds between two looks: 30 ms of sentinels are 1.5 % of them."""
DRIFT: Final = 0.03
"""A sentinel this far off its running median voids what was sampled since the last look."""
WAKE: Final = 7
"""Samples before anything else: they tell how steady the sentinel itself is."""
REMEMBERED: Final = 15
"""Looks of which the running median is taken: half a minute."""
OWN: Final = 3.0
"""Half interquartile ranges of its own that a sentinel may be off: on a machine where the sentinel
alone moves by 5 % a change of 3 % cannot be seen, and nothing would ever count."""


@dataclass(slots=True)
class Sentinel:
    """One quick measurement; `run()` gives seconds."""

    name: str
    run: Callable[[], float]
    values: list[float] = field(default_factory=list)
    allowed: float = DRIFT

    def wake(self) -> None:
        """The first samples, which also wake the link and the clocks."""
        self.run()
        self.values = [self.run() for _ in range(WAKE)]
        self.allowed = max(DRIFT, OWN * (self.spread or 0.0))

    @property
    def spread(self) -> float | None:
        """Relative half interquartile range of all looks, `None` before the second."""
        return summary(self.values).spread if self.values else None

    def look(self) -> None:
        """Measure again, for the spread alone."""
        self.values.append(self.run())

    def drifted(self) -> bool:
        """Measure again; whether it is off its running median."""
        value = self.run()
        usual = middle(self.values[-REMEMBERED:])
        self.values.append(value)
        return abs(value / usual - 1) > self.allowed
