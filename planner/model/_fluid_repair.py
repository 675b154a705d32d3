"""The weighted max-min levels of all active classes, repaired where a change reaches.

Progressive filling raises one level for all classes, each moving at weight * level, until a
resource is full; the classes on it stop there, the others go on. So a class stops at the lowest
level among its resources, and a change at some level leaves everything below that level as it was.
The repair replays the filling from low to high, for the changed resources only:

- A resource is *full* at level L when its classes, each at the lower of L and its own level, use
  all of its capacity. `_full_at` solves that; as long as the levels of some of its classes can
  still fall the answer is a lower bound, and a heap of these bounds gives the order.
- If a resource turns out to be full only above the level it had, the classes it held are let go
  when the filling passes the old level, and their other resources are looked at again.
- If it is full at or below that, it holds its classes there; where that lowers one, the other
  full resources of that class gain room and are looked at again.
- If its level comes out as it was, nothing spreads from it.
- A resource that is not full is not searched: what it carries and what may still rise on it are
  kept as running sums, which give a lower bound of the level at which it could become full.

The result is the one max-min allocation of the whole system: each class still ends at a full
resource on which no class has a higher level, which is what characterises max-min fairness.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from planner.model._fluid_levels import CAP, LOOSE, LevelState
from planner.model._fluid_problem import Problem

SAME = 2e-14
# Two levels closer than this, relative, are one level. Sums of some hundred terms in double
# precision (2.2e-16 a step) differ by about 1e-14 when only the order of the terms differs.

EMPTY = 1e-12
# A remainder of capacity below this share of the whole is rounding of the sum of what higher
# priorities take, not room for lower ones.


class Levels(LevelState):
    """The levels of the active classes; `update` keeps them max-min fair."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        # Only valid during one repair:
        self._heap: list[tuple[float, int]] = []
        self._due: dict[int, float] = {}
        self._passed: set[int] = set()
        self._settled: set[int] = set()

    def update(self, counts: Iterable[tuple[int, float]]) -> list[int]:
        """Set the numbers of active members of some classes; return the classes that changed.

        With them change the weights of those that they share engines with.
        A class changed if its level differs, or if it is among `counts` and still active.
        """
        if self._weighed:
            counts = self._with_shares(counts)
        if self._tiers == 1:
            return self._update_tier(counts, ())
        by_tier: list[list[tuple[int, float]]] = [[] for _ in range(self._tiers)]
        for number, members in counts:
            by_tier[self._tier[number]].append((number, members))
        changed: list[int] = []
        dirty: set[int] = set()
        for tier, tier_counts in enumerate(by_tier):
            shifted = self._shift_capacity(tier, dirty)
            if not tier_counts and not shifted:
                continue
            moved = self._update_tier(tier_counts, shifted)
            changed += moved
            first = tier * self._resources
            for number in (*moved, *(number for number, _ in tier_counts)):
                dirty.update(slot - first for slot in self._slots[number])
        return changed

    def _shift_capacity(self, tier: int, dirty: set[int]) -> list[int]:
        """Give a tier what the tiers before it leave of the dirty resources; the changed slots."""
        shifted = []
        for resource in sorted(dirty):
            above = (tier - 1) * self._resources + resource
            used = sum(use * self.level[number] for number, use in self._use[above].items())
            left = self._capacity[above] - used
            if left <= EMPTY * self._base[resource]:
                left = 0.0
            slot = above + self._resources
            if left != self._capacity[slot]:
                self._capacity[slot] = left
                shifted.append(slot)
        return shifted

    def _update_tier(
        self, counts: Iterable[tuple[int, float]], shifted: Sequence[int]
    ) -> list[int]:
        self._due.clear()
        self._passed.clear()
        self._settled.clear()
        self._before.clear()
        joined = [self._set_count(number, members) for number, members in counts]
        for slot in itertools.chain(shifted, *joined):
            self._look_at(slot, 0.0 if self._full[slot] < math.inf else self._free_until(slot))
        self._replay()
        return self._collect()

    def _look_at(self, slot: int, level: float) -> None:
        """Look at a slot again when the filling reaches `level`."""
        if level == math.inf:
            return
        due = self._due.get(slot)
        if due is None or due > level:
            self._due[slot] = level
            heappush(self._heap, (level, slot))

    def _replay(self) -> None:
        heap, due, full = self._heap, self._due, self._full
        while heap:
            now, slot = heappop(heap)
            if slot in self._settled or due.get(slot) != now:
                continue
            del due[slot]
            old = full[slot]
            if old == math.inf and (free := self._free_until(slot)) > now:
                self._look_at(slot, free)
                continue
            new = self._full_at(slot, now)
            if slot in self._passed:
                if new <= now * (1.0 + SAME):
                    self._hold(slot, new)
                else:
                    self._look_at(slot, new)
            elif new > old * (1.0 + SAME):
                if now < old:
                    self._look_at(slot, old)
                else:
                    self._let_go(slot, now)
                    self._look_at(slot, max(new, now))
            elif new <= now * (1.0 + SAME) or now >= old:
                self._hold(slot, new)
            else:
                self._look_at(slot, min(new, old))

    def _full_at(self, slot: int, now: float) -> float:
        """The level at which the slot is full, inf if never, given the levels of its classes.

        The classes that it holds itself rise freely. All others count with their level: as used
        where that is below the answer, which is found by Newton's method from below on a concave
        piecewise linear function, hence exact after finitely many steps.
        """
        level, holder, top = self.level, self.holder, self._top
        rising = []
        used = room = 0.0
        for number, use in self._use[slot].items():
            own = level[number] if holder[number] != slot else top[number]
            if own <= now:
                used += use * own
            else:
                room += use
                rising.append((own, use))
        while rising:
            full = (self._capacity[slot] - used) / room
            above = [pair for pair in rising if pair[0] > full]
            if len(above) == len(rising):
                return max(full, 0.0)
            for own, use in rising:
                if own <= full:
                    used += use * own
            rising = above
            room = sum([use for _, use in rising])
        return math.inf

    def _let_go(self, slot: int, now: float) -> None:
        """The filling passes the level at which the slot was full: its classes rise on."""
        self._passed.add(slot)
        self._full[slot] = math.inf
        level, holder, full = self.level, self.holder, self._full
        for number in self._use[slot]:
            if holder[number] != slot:
                continue
            self._before.setdefault(number, level[number])
            others = self._slots[number]
            tie = next((other for other in others if other in self._settled), None)
            if tie is not None:  # another resource is full at the same level
                self._move(number, self._full[tie], tie)
                continue
            for other, use in zip(others, self._charged[number], strict=True):
                self._taken[other] -= use * level[number]
            self._loosen(number)
            for other in others:
                if other != slot:
                    free = now if full[other] < math.inf else self._free_until(other)
                    self._look_at(other, max(free, now))

    def _hold(self, slot: int, new: float) -> None:
        """The slot is full at level `new`: no class on it rises above."""
        self._settled.add(slot)
        full, level, holder = self._full, self.level, self.holder
        if abs(new - full[slot]) <= SAME * new:
            new = full[slot]
        full[slot] = new
        limit = new * (1.0 + SAME)
        for number in self._use[slot]:
            own = level[number]
            if own > limit or (holder[number] == slot and own != new):
                self._before.setdefault(number, own)
                if holder[number] == LOOSE:
                    self._rest(number, new)
                    level[number] = new
                    holder[number] = slot
                    continue
                for other in self._slots[number]:
                    if full[other] < math.inf and other != slot:
                        self._look_at(other, max(new, full[other]))
                self._move(number, new, slot)

    def _collect(self) -> list[int]:
        """The classes whose level differs from before the repair."""
        level, holder = self.level, self.holder
        changed = []
        for number, before in self._before.items():
            if holder[number] == LOOSE:
                self._rest(number, level[number])
                holder[number] = CAP
            if level[number] != before:
                changed.append(number)
        return changed
