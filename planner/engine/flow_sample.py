"""What one sample of a flow found."""

from __future__ import annotations

from dataclasses import dataclass

from planner.engine.measure import Interval
from planner.engine.transfer import Moved
from planner.results import SetupStep


@dataclass(frozen=True, slots=True)
class FlowSample:
    """One sample of a flow: from its first operation (or setup) to its last arrival.

    `steady_s` is one repeat without setup, the mean of the later ones where there are any;
    `first_s` the first repeat with the setup that the sample had. `moves` are the movements of all
    `repeat` repeats in order.
    """

    start: float
    end: float
    setup: tuple[SetupStep, ...]
    steady_s: float
    first_s: float
    moves: tuple[Moved, ...]
    repeat: int = 1

    def turns(self) -> list[Interval]:
        """Start and end of each repeat, without the setup before the first."""
        each = len(self.moves) // self.repeat
        if not each:
            return []
        firsts, lasts = self.moves[::each], self.moves[each - 1 :: each]
        return [(one.start, other.end) for one, other in zip(firsts, lasts, strict=True)]
