"""The clock of the null backend: events in order of time, engines, and what flows share."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Final

from planner.model.copier import Copier, slowed
from planner.model.pipeline import Stage

ROUNDING: Final = 1e-9
"""Shares that add up to 1 but for rounding are no contention."""
NOBODY: Final[Mapping[str, Copier]] = {}
"""Nothing that copies."""


@dataclass(slots=True)
class _Copying:
    """Workers and bytes of the rings of all that copy on a host now; workers by reading GPU."""

    workers: int = 0
    ring: int = 0
    gpus: Counter[str] = field(default_factory=Counter)


class VirtualClock:
    """Events in order of time, and the FIFO engines that all flows share."""

    def __init__(self) -> None:
        self.now = 0.0
        self.free: dict[str, float] = {}
        # By resource: start, end and share of what is being served.
        self._held: defaultdict[str, list[tuple[float, float, float]]] = defaultdict(list)
        # By engine: how many flows of each class have repeats to move over it.
        self._classes: defaultdict[str, defaultdict[int, int]] = defaultdict(
            lambda: defaultdict(int)
        )
        self._copying: defaultdict[str, _Copying] = defaultdict(_Copying)
        self._events: list[tuple[float, bool, int, Callable[[], None]]] = []
        self._serial = count()

    def at(self, time: float, action: Callable[[], None], *, last: bool = False) -> None:
        """Do `action` at `time`; behind all else of that instant if it is `last`."""
        heappush(self._events, (time, last, next(self._serial), action))

    def run(self) -> float:
        """Play all events; returns the time of the last."""
        while self._events:
            self.now, _, _, action = heappop(self._events)
            action()
        return self.now

    def count(self, queue: str, rank: int, more: int) -> None:
        """So many more flows of the class have repeats to move over the engine."""
        self._classes[queue][rank] += more

    def held(self, queue: str, at: float, rank: int) -> float:
        """Until when a class may not queue on the engine: while a higher one moves, none stands."""
        higher = any(n for other, n in self._classes[queue].items() if other > rank)
        return max(at, self.free.get(queue, 0.0)) if higher else at

    def copying(self, copier: Copier, turn: int) -> None:
        """A movement begins to copy (`turn` 1), or has ended (-1)."""
        totals = self._copying[copier.resource]
        totals.workers += turn * copier.workers
        totals.ring += turn * copier.ring
        for gpu in copier.gpus:
            totals.gpus[gpu] += turn * copier.workers

    def serve(self, queue: str, at: float, stage: Stage, length: int) -> tuple[float, float]:
        """Queue `length` bytes for an engine at `at`; returns when the service starts and ends."""
        start = max(at, self.free.get(queue, 0.0))
        end = self.free[queue] = start + self.claim(stage, start, length)
        return start, end

    def occupy(self, queue: str, at: float, seconds: float) -> tuple[float, float]:
        """Keep what serves `queue` for some time, behind what it does already; (start, end)."""
        start = max(at, self.free.get(queue, 0.0))
        end = self.free[queue] = start + seconds
        return start, end

    def claim(
        self, stage: Stage, start: float, length: int, copiers: Mapping[str, Copier] = NOBODY
    ) -> float:
        """Seconds in which the stage serves `length` bytes beside all that is served at `start`.

        Each service asks for a share of the resources that it charges; where they are asked for
        more than they have, it takes longer by that factor, and leaves as much of the others. What
        began before is not slowed any more, which matters less the shorter the chunks are.
        `copiers` say what the copies of a host take while others copy there too.
        """
        alone, charges = stage.seconds(length), stage.charges
        for name in copiers.keys() & charges.keys():
            all_of, copier = self._copying[name], copiers[name]
            several = sum(count > 0 for count in all_of.gpus.values()) > 1
            factor, own = copier.among(all_of.workers, all_of.ring, several=several)
            crowding = copier.crowding(factor) if all_of.workers > copier.workers else 1.0
            if factor != 1.0 or own != copier.own or crowding != 1.0:
                # Its own workers on the caches that all share; and what all take together.
                alone += copier.shape.workers * length * (own - copier.own)
                charges = slowed(charges, factor, crowding)
        if alone <= 0 or not charges:
            return alone
        shares = {name: per * length / alone for name, per in charges.items() if per > 0}
        loads = {}
        for name, share in shares.items():
            held = self._held[name] = [row for row in self._held[name] if row[1] > self.now]
            load = share + sum(s for low, high, s in held if low <= start < high)
            loads[name] = 1.0 if load <= 1 + ROUNDING else load
        slower = max(loads.values(), default=1.0)
        for name, share in shares.items():
            asked = share * loads[name] / slower
            self._held[name].append((start, start + alone * slower, asked))
        return alone * slower
