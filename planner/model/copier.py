"""What copying costs a host's workers when others copy at the same time: caches are shared.

The capacity is that of all workers together on the sum of all their rings. What a copy engine
writes into host memory passes through the last-level cache too and drives the rings out of it: it
counts like a ring of its size. Beside 800 MB out of an H200 rings were filled at 20 to 31 GB/s by 4
and 6 workers, as fast as alone into a ring of 1 GiB, and at 29 to 39 without (measured 2026-11-29).
What an engine reads leaves the cache as it is.

A copy engine is slower beside many workers, which looks as if they copied less: sixteen of one load
brought 49 GB/s over a link of 55, twelve of two loads into a GPU each 62 (two H200s, measured
2026-11-30). So workers whose rings several GPUs read have a capacity of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from planner.machine.schema import Hbm, Ram
from planner.model.movement import Movement
from planner.model.one_slot import together
from planner.model.stage import Stage
from planner.model.strategies import Shape
from planner.model.strategies.copying import COPY, DISPATCH

CROWD: Final = 8.0
"""Power in which copies and turns of several flows add up; those of one flow cost each other more
(`copying.CROWD`). Two cached loads, bounds and what was measured, us a chunk: copies 115 and turns
75, 115; 55 and 75, 75; 70 and 75, 88; 51 and 51, 51 (two machines of two H200s, 2026-11-30)."""


@dataclass(frozen=True, slots=True)
class Slower:
    """What others make of a copier's copies.

    `factor` is by how much a byte takes longer of the host's copies (the `resource`), `rate` what
    its own workers copy then, and `crowding` by how much both copies and turns at the locks take
    longer on top, as workers of several flows crowd there.
    """

    factor: float
    rate: float
    crowding: float
    resource: str


def slowed(charges: Mapping[str, float], factor: float, crowding: float) -> dict[str, float]:
    """The charges of a byte, by resource, of copies that others slow down; see `Slower`."""
    longer = {COPY: factor * crowding, DISPATCH: crowding}
    return {
        name: value * longer.get(name[name.rfind(".") :], 1.0) for name, value in charges.items()
    }


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
        self.gpus = frozenset(_reading(movement, movement.stages(shape)))
        self._known: dict[tuple[int, int, bool], tuple[float, float]] = {}

    @property
    def workers(self) -> int:
        """How many of its workers copy."""
        return self.shape.workers

    @property
    def ring(self) -> int:
        """Bytes that it brings into the cache again and again."""
        return self.shape.ring

    def charge(self, workers: int, ring: int, *, several: bool = False) -> float:
        """Seconds of the host's copying per byte if all had these workers and this ring.

        With `several` more than one GPU reads the rings.
        """
        chunk = max(1, ring // (workers * self.shape.depth))
        probe = Shape(chunk, self.shape.depth, workers)
        stages = self.movement.stages(probe)
        return sum(
            stage.charges.get(self.resource, 0.0) / (stage.several if several else 1.0)
            for stage in stages
        )

    @property
    def turns(self) -> float:
        """Seconds of the locks per byte."""
        charges = [stage.charges.items() for stage in self.movement.stages(self.shape)]
        return sum(value for row in charges for name, value in row if name.endswith(DISPATCH))

    def crowding(self, factor: float) -> float:
        """By how much copies and turns take longer where others crowd at both, too.

        What one flow's workers lose by crowding is in its own pace; of several flows only the sums
        of copies and of turns are shared, and those would do side by side what they cannot.
        """
        bounds = self.own * factor, self.turns
        longest = max(bounds)
        return together(bounds, CROWD) / longest if longest > 0 else 1.0

    def among(self, workers: int, ring: int, *, several: bool) -> tuple[float, float]:
        """Factor of the charge, and seconds per byte of its own workers, among all these.

        `several` says whether more than one GPU reads the rings.
        """
        if (workers, ring) == (self.shape.workers, self.shape.ring):
            return 1.0, self.own
        key = workers, ring, several
        if key not in self._known:
            charge = self.charge(workers, ring, several=several)
            self._known[key] = charge / self.own, self.charge(self.shape.workers, ring)
        return self._known[key]


def _reading(movement: Movement, stages: Sequence[Stage]) -> Iterator[str]:
    """The GPUs that read the rings which workers fill: what goes outward was never run together."""
    ends = {crossing.resource: crossing.end for crossing in movement.crossings}
    nodes = movement.crossings[0].machine.nodes
    for one, other in pairwise(stages):
        gpu = ends.get(other.resource, "")
        if one.kind == "pool" and other.kind == "engine" and isinstance(nodes.get(gpu), Hbm):
            yield gpu


class Stream(Copier):
    """A movement by a copy engine into host memory: no workers, and bytes that fill the cache."""

    @property
    def workers(self) -> int:
        """None: the engine copies."""
        return 0

    @property
    def ring(self) -> int:
        """All bytes that pass by."""
        return self.movement.size

    def among(self, _workers: int, _ring: int, *, several: bool) -> tuple[float, float]:  # noqa: ARG002
        """An engine does not mind the caches."""
        return 1.0, self.own

    def crowding(self, _factor: float) -> float:
        """Nor the locks."""
        return 1.0


def streamed_into(movement: Movement) -> str | None:
    """The copies, `host0.copy`, whose cache a movement's engine writes through, if it does."""
    last = movement.crossings[-1]
    nodes = last.machine.nodes
    from_gpu = isinstance(nodes[last.start], Hbm) and isinstance(nodes[last.end], Ram)
    return f"{last.end}{COPY}" if from_gpu and not movement.has_pool else None
