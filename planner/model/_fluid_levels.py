"""Where the sharing stands: the level of each class, what holds it, and what each slot carries.

A class moves at weight * level; where it is on engines, its weight is its share of theirs. It
either rests at its level, held by a slot that is full there or by its own cap, or it is *loose*:
rising, in the middle of a repair, until something holds it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from planner.model._fluid_problem import Problem

CAP = -1
"""In place of the slot that holds a class: its own cap does."""

LOOSE = -2
"""In place of the slot that holds a class: none yet, its level is still rising."""

MARGIN = 1e-9
# Share of the capacity by which the running sums may be off: each of their up to 1e6 changes
# rounds by 1.1e-16. A resource this close to full is looked at with fresh sums.

LOST = 1e-12
# Share of all that was added to a running sum which may be lost (1.1e-16 a step) when most of it
# is subtracted again.


class LevelState:
    """Levels and holders of the active classes, what every slot carries, and how both change.

    Where `_before` is written a repair is under way: it keeps the levels from before it.
    """

    def __init__(self, problem: Problem) -> None:
        classes = problem.classes
        self._resources = problem.resources
        self._tiers = problem.tiers
        self._slots = classes.slots
        self._tier = classes.tier
        self._capacity = list(problem.capacity)
        self._base = problem.capacity
        self.weight = list(classes.weight)
        self._weight = classes.weight
        self._engines = classes.engines
        self._weighed = any(classes.engines)
        # By engine: what the active members of each of its classes weigh there.
        self._sharers: dict[int, dict[int, float]] = {}
        self._charge = classes.charge
        self._cap = classes.cap
        self._top = [cap / weight for cap, weight in zip(classes.cap, classes.weight, strict=True)]
        self._unit = [
            tuple(charge * weight for charge in charges)
            for charges, weight in zip(classes.charge, classes.weight, strict=True)
        ]
        count = len(classes.slots)
        self.level = [math.inf] * count
        self.holder = [LOOSE] * count
        self._active = [False] * count
        self._members = [0.0] * count
        slots = len(problem.capacity)
        self._full = [math.inf] * slots
        self._use: list[dict[int, float]] = [{} for _ in range(slots)]
        self._charged: list[list[float]] = [[] for _ in range(count)]
        # Running sums of a slot: capacity taken by the classes at rest; the uses of those that
        # rise, how many these are, and all that rose in this repair.
        self._taken = [0.0] * slots
        self._room = [0.0] * slots
        self._rising = [0] * slots
        self._risen = [0.0] * slots
        self._before: dict[int, float] = {}

    def _with_shares(self, counts: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
        """The counts, and those of all classes whose weight changes with them, which it sets.

        A class weighs what its share of its engines is: all that is under way on one weighs what
        the engine does.
        """
        members = dict(counts)
        shifted: dict[int, None] = {}
        for number, count in members.items():
            self._members[number] = count
            for engine, weight in self._engines[number]:
                shifted[engine] = None
                sharers = self._sharers.setdefault(engine, {})
                if count > 0.0:
                    sharers[number] = weight * count
                else:
                    sharers.pop(number, None)
        totals: dict[int, float] = {}
        for number in {n: None for engine in shifted for n in self._sharers[engine]}:
            engines = [engine for engine, _ in self._engines[number]]
            for engine in engines:
                if engine not in totals:
                    totals[engine] = sum(self._sharers[engine].values())
            weight = self._weight[number] / max(totals[engine] for engine in engines)
            if weight != self.weight[number]:
                self.weight[number] = weight
                self._top[number] = self._cap[number] / weight
                self._unit[number] = tuple([c * weight for c in self._charge[number]])
                members.setdefault(number, self._members[number])
        return list(members.items())

    def _set_count(self, number: int, members: float) -> Sequence[int]:
        """Enter or remove a class; the slots to look at. Another count is an entry anew."""
        slots, own = self._slots[number], self.level[number]
        if self._active[number]:
            for slot, use in zip(slots, self._charged[number], strict=True):
                self._taken[slot] -= use * own
        if members == 0.0:
            self._active[number] = False
            self.level[number] = math.inf
            self.holder[number] = LOOSE
            for slot in slots:
                del self._use[slot][number]
                if not self._use[slot]:
                    self._taken[slot] = 0.0
            return [slot for slot in slots if self._full[slot] < math.inf]
        charged = self._charged[number] = [unit * members for unit in self._unit[number]]
        for slot, use in zip(slots, charged, strict=True):
            self._use[slot][number] = use
        self._active[number] = True
        self._loosen(number)
        self._before[number] = -1.0  # no level is: counts as changed
        return slots

    def _loosen(self, number: int) -> None:
        """The class, at rest nowhere, rises until something holds it."""
        self.level[number] = self._top[number]
        self.holder[number] = LOOSE
        room, rising, risen = self._room, self._rising, self._risen
        for slot, use in zip(self._slots[number], self._charged[number], strict=True):
            room[slot] += use
            risen[slot] += use
            rising[slot] += 1

    def _rest(self, number: int, own: float) -> None:
        """A class that rose comes to rest at level `own`."""
        room, rising, taken = self._room, self._rising, self._taken
        for slot, use in zip(self._slots[number], self._charged[number], strict=True):
            taken[slot] += use * own
            rising[slot] -= 1
            if rising[slot]:
                room[slot] -= use
            else:
                room[slot] = self._risen[slot] = 0.0

    def _free_until(self, slot: int) -> float:
        """A level below which a slot that is not full cannot become full."""
        spare = self._capacity[slot] * (1.0 - MARGIN) - self._taken[slot]
        if spare <= 0.0:
            return 0.0
        if self._rising[slot] == 0:
            return math.inf
        return spare / (self._room[slot] + LOST * self._risen[slot])

    def _move(self, number: int, own: float, slot: int) -> None:
        """A class at rest rests at level `own` instead, held by the slot."""
        rise = own - self.level[number]
        for other, use in zip(self._slots[number], self._charged[number], strict=True):
            self._taken[other] += use * rise
        self.level[number] = own
        self.holder[number] = slot
