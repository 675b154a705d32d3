"""What copying costs a host's workers when others copy at the same time: caches are shared.

The capacity is that of all workers together on the sum of all their rings.
"""

from __future__ import annotations

from planner.model.movement import Movement
from planner.model.strategies import Shape


class Copier:
    """A movement with a copy stage: its workers, its ring, and its charge at other totals.

    Parameters
    ----------
    movement, shape
        What is copied, and how.
    resource
        The host's copies, `host0.copy`.
    times
        How many equal movements it stands for.

    """

    def __init__(self, movement: Movement, shape: Shape, resource: str, times: int = 1) -> None:
        self.movement, self.shape, self.resource = movement, shape, resource
        self.times = times
        self.own = self.charge(shape.workers, shape.ring)
        self._known: dict[tuple[int, int], tuple[float, float]] = {}

    def charge(self, workers: int, ring: int) -> float:
        """Seconds of the host's copying per byte if all had these workers and this ring."""
        chunk = max(1, ring // (workers * self.shape.depth))
        probe = Shape(chunk, self.shape.depth, workers)
        stages = self.movement.stages(probe)
        return sum(stage.charges.get(self.resource, 0.0) for stage in stages)

    def among(self, workers: int, ring: int) -> tuple[float, float]:
        """Factor of the charge, and seconds per byte of its own workers, among all these."""
        if (workers, ring) == (self.shape.workers, self.shape.ring):
            return 1.0, self.own
        if (workers, ring) not in self._known:
            both = self.charge(workers, ring) / self.own, self.charge(self.shape.workers, ring)
            self._known[workers, ring] = both
        return self._known[workers, ring]
