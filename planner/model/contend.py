"""The choice where flows meet: a local search, scored by the simulation of the whole plan.

Every flow brings a few arrangements: its best ways, with fewer workers and smaller rings too
(shared caches and copies like those), a split over several routes, and copies from where the bytes
are. Few combinations are all tried; else the search starts from what each would do alone and
changes one flow, all copies of one flow, or two at a time while that helps. In the end all rings go
from shape to shape together. By name, so the order of keys in a plan changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

from planner.machine.replicate import members
from planner.machine.schema import Ram
from planner.machine.topology import Topology
from planner.model.arrange import Arrangement, alone, yielding
from planner.model.capacity import may_overflow, overdrawn
from planner.model.choose import decide
from planner.model.compose import Composition, compose
from planner.model.flat import neighbourhood
from planner.model.held import pinned_by_tool
from planner.model.needs import Demand, pinned_budget
from planner.model.options import (
    alike,
    distinct,
    one_at_a_time,
    other_ways,
    same_way,
    single_way,
    smaller,
)
from planner.model.paced import paced
from planner.model.score import Score, better
from planner.model.ways import routes_of
from planner.model.why_not import shared_instead, split_instead, told_once
from planner.plan.schema import Plan
from planner.results import Rejected

ALL = 256
"""Combinations up to which all are tried: as many simulations as the search would take."""
FEW = 8
"""Flows up to which changes of two at a time are tried as well."""
STEPS = 6
"""Steps from shape to shape that all rings take together, at the most."""
MOST_FLOWS = 24_000
"""Flows simulated in the search at the most, a few seconds; then the best so far is taken."""
MOST_ALIKE = 2_000
"""The same of the steps that all rings take together."""


@dataclass(frozen=True)
class Chosen:
    """One demand with its arrangement, what else was looked at, and shapes that do as well."""

    demand: Demand
    arrangement: Arrangement
    rejected: tuple[Rejected, ...] = ()
    flat: str | None = None


def choose_together(
    plan: Plan,
    topology: Topology,
    demands: Sequence[Demand],
    fixed: Mapping[str, Arrangement],
    *,
    only: Collection[str] | None = None,
    single_ways: bool = False,
    brief: bool = False,
) -> tuple[list[Chosen], Composition]:
    """Choose for all flows of a plan; the simulation of the choice.

    Parameters
    ----------
    plan, topology
        The plan and the machine.
    demands
        What moves; the results are in this order.
    fixed
        Arrangements that are given, by the name of the need.
    only
        Names of the strategies that may be chosen; all where it is `None`.
    single_ways
        No splits, and no copies of copies.
    brief
        Leave out what was looked at beside the choice.

    Raises
    ------
    InfeasibleError
        If a flow has no way.
    """
    search = _Search(plan, topology, demands, fixed, only, single_ways=single_ways, brief=brief)
    search.run()
    chosen = [search.chosen(i) for i in range(len(demands))]
    return chosen, search.composed


class _Search:
    def __init__(
        self,
        plan: Plan,
        topology: Topology,
        demands: Sequence[Demand],
        fixed: Mapping[str, Arrangement],
        only: Collection[str] | None,
        *,
        single_ways: bool,
        brief: bool,
    ) -> None:
        self.plan, self.topology, self.demands = plan, topology, demands
        self.only, self.single_ways = only, single_ways
        self.fixed = fixed
        self.brief = brief
        # A flow that meets no other takes its best way, so the others need not be searched.
        self.lonely = brief and len(demands) == 1 and demands[0].members == 1
        self.rejected: dict[int, tuple[Rejected, ...]] = {}
        self.order = sorted(range(len(demands)), key=lambda i: demands[i].need.name)
        self.options: list[list[Arrangement]] = [[] for _ in demands]
        self.fanned: dict[str, list[dict[int, Arrangement]]] = {}
        for i in self.order:
            self._first(i)
        self.tight = may_overflow(topology.machine, demands)
        self.present = [options[0] for options in self.options]
        self.played, self.most = 0, MOST_FLOWS
        self.composed = self._play(self.present)
        self.score = self._score(self.present, self.composed)

    def _first(self, i: int) -> None:
        """What a flow does with the machine to itself, split where that is faster."""
        demand = self.demands[i]
        if demand.need.name in self.fixed:
            self.options[i] = [self.fixed[demand.need.name]]
            return
        brief = self.lonely and not demand.copies
        decision = decide(self.topology, demand.need, only=self.only, brief=brief)
        single = alone(demand.need, decision.best)
        self.rejected[i] = () if self.brief else decision.rejected()
        self.options[i] = [single]
        if not self.single_ways and len(routes_of(self.topology, demand.need)) > 1:
            self._split(i, single)
        self.options[i] += other_ways(demand.need, decision)
        self.options[i] = [self._suited(demand, option) for option in self.options[i]]

    def _suited(self, demand: Demand, option: Arrangement) -> Arrangement:
        """An option with chunks that suit the flow's class and its cap, where it has one."""
        machine = self.topology.machine
        if demand.priority < max(other.priority for other in self.demands):
            option = yielding(machine, option)
        return option if demand.need.rate is None else paced(machine, option)

    def _split(self, i: int, single: Arrangement) -> None:
        """Put a split over several routes in front of the best single way, where it is faster."""
        from planner.model.split import best_split  # only for flows with several routes

        demand = self.demands[i]
        split = best_split(
            self.topology,
            demand.need,
            single,
            lambda a: self._alone(demand, a),
            only=self.only,
        )
        if split.rejected is not None:
            self.rejected[i] = (split.rejected, *self.rejected[i])
        if split.arrangement is not None:
            self.options[i] = [split.arrangement, single]
            self.rejected[i] = (split_instead(single, demand, split.arrangement), *self.rejected[i])

    def _alone(self, demand: Demand, arrangement: Arrangement) -> Composition:
        """One repeat of a flow with the machine to itself."""
        lonely = replace(
            demand, after=(), start=0.0, members=1, need=replace(demand.need, repeat=1)
        )
        plan = self.plan.model_copy(update={"compute": {}})
        return compose(plan, self.topology.machine, [lonely], [arrangement])

    def run(self) -> None:
        """Look for something better than what each would do alone, where flows meet at all."""
        if not self._meet():
            return
        machine = self.topology.machine
        free = [i for i in self.order if self.demands[i].need.name not in self.fixed]
        for i in free:
            demand = self.demands[i]
            for candidate in [a.candidate for a in self.options[i] if len(a.lanes) == 1][:2]:
                self.options[i] += smaller(machine, demand.need, candidate)
            self.options[i] = distinct([self._suited(demand, one) for one in self.options[i]])
        self._search()
        free = [i for i in free if self.demands[i].need.rate is None]
        self.most = self.played + MOST_ALIKE
        for _ in range(STEPS if len(self.demands) <= FEW else 0):
            rings = {i: self.present[i] for i in free if not self._in_fan(i)}
            if not self._improve(alike(machine, rings)):
                break

    def _search(self) -> None:
        """Try all combinations of the options, or change them while that helps."""
        moves = self._fans()
        if not moves and math.prod(len(o) for o in self.options) <= ALL:
            self._try_all()
        else:
            self._improve(same_way([self.options[i] for i in self.order], self.order))
            while self._improve(self._joint(moves)) or self._improve(self._single()):
                pass
            if len(self.demands) <= FEW:
                self._improve(self._pairs())

    def _meet(self) -> bool:
        """Whether two flows, or several members of one, use a resource at all."""
        users: dict[str, int] = {}
        for demand, arrangement in zip(self.demands, self.present, strict=True):
            for name in _used(arrangement):
                count = demand.members // members(self.topology.machine, name)
                users[name] = users.get(name, 0) + max(1, count)
        copies = any(d.copies for d in self.demands)
        return copies or any(count > 1 for count in users.values())

    def _fans(self) -> list[dict[int, Arrangement]]:
        """Copies from where the bytes are already, for each flow with several destinations."""
        found: list[dict[int, Arrangement]] = []
        groups = self._groups()
        if self.single_ways or not groups:
            return found
        from planner.model.fanout import fans  # only for several copies of one flow

        for indices in groups:
            group = [self.demands[i] for i in indices]
            if any(d.need.name in self.fixed for d in group):
                continue
            where = {d.need.name: i for i, d in zip(indices, group, strict=True)}
            best = {name: self.options[i][0] for name, i in where.items()}
            single = {name: single_way(self.options[i]) for name, i in where.items()}
            for first in [best] if best == single else [best, single]:
                kinds = fans(self.topology, group, first, self.only, self._suited).values()
                found += [{where[name]: a for name, a in kind.items()} for kind in kinds]
        return found

    def _groups(self) -> list[list[int]]:
        """The copies of each flow that has several, by name."""
        by_flow: dict[str, list[int]] = {}
        for i in self.order:
            by_flow.setdefault(self.demands[i].flow, []).append(i)
        return [indices for _, indices in sorted(by_flow.items()) if len(indices) > 1]

    def _try_all(self) -> None:
        for several in product(*(self.options[i] for i in self.order)):
            self._consider(dict(zip(self.order, several, strict=True)))

    def _joint(self, moves: Sequence[dict[int, Arrangement]]) -> Iterator[dict[int, Arrangement]]:
        """One change for all copies of a flow."""
        yield from moves
        for indices in self._groups():
            for at in range(max(len(self.options[i]) for i in indices)):
                yield {i: self.options[i][min(at, len(self.options[i]) - 1)] for i in indices}

    def _single(self) -> Iterator[dict[int, Arrangement]]:
        """One change of one flow; of all that are alike, where they are too many to try each."""
        free = [i for i in self.order if not self._in_fan(i)]
        tries = sum(len(self.options[i]) for i in free)
        few = tries * len(self.demands) <= MOST_FLOWS
        return one_at_a_time({i: self.options[i] for i in free}, alike=not few)

    def _in_fan(self, i: int) -> bool:
        """Whether the flow is a copy of another, or another one is a copy of it."""
        name = self.demands[i].need.name
        sources = {a.source for a in self.present}
        return self.present[i].source is not None or name in sources

    def _pairs(self) -> Iterator[dict[int, Arrangement]]:
        for i, j in combinations(self.order, 2):
            if self._in_fan(i) or self._in_fan(j):
                continue
            for one, two in product(self.options[i], self.options[j]):
                yield {i: one, j: two}

    def _improve(self, moves: Iterator[dict[int, Arrangement]]) -> bool:
        """Take every move that helps, in order; whether any did."""
        helped = False
        for move in moves:
            if self.played > self.most:
                return False
            helped = self._consider(move) or helped
        return helped

    def _consider(self, move: Mapping[int, Arrangement]) -> bool:
        changed = [move.get(i, a) for i, a in enumerate(self.present)]
        if all(a is b for a, b in zip(changed, self.present, strict=True)):
            return False
        composed = self._play(changed)
        score = self._score(changed, composed)
        if not better(score, self.score):
            return False
        self.present, self.composed, self.score = changed, composed, score
        return True

    def _play(self, arrangements: Sequence[Arrangement]) -> Composition:
        composed = compose(self.plan, self.topology.machine, self.demands, arrangements)
        self.played += composed.flows
        return composed

    def _score(self, arrangements: Sequence[Arrangement], composed: Composition) -> Score:
        ends = [p.finish for p in sorted(composed.parts, key=lambda p: p.name)]
        return self._excess(arrangements, composed), composed.makespan, sum(ends)

    def _excess(self, arrangements: Sequence[Arrangement], composed: Composition) -> float:
        """How far pinned memory, cores and memories are overdrawn, as a share of what there is."""
        machine = self.topology.machine
        if len(arrangements) == 1 and self.demands[0].members == 1:
            return 0.0
        excess = 0.0
        taken = pinned_by_tool(machine, self.demands, arrangements, composed)
        for name, (pinned, workers) in sorted(taken.items()):
            host = machine.nodes[name]
            if isinstance(host, Ram):
                budget = pinned_budget(host, self.plan.budget.pinned)
                excess += max(0.0, pinned / max(1, budget) - 1)
                cores = min(host.cores, self.plan.budget.cores or host.cores)
                excess += max(0.0, workers / cores - 1)
        if self.tight:
            excess += overdrawn(machine, self.demands, arrangements, composed)
        return excess

    def chosen(self, i: int) -> Chosen:
        """The demand with what was taken in the end."""
        demand, taken = self.demands[i], self.present[i]
        if self.brief:
            return Chosen(demand, taken)
        rejected, first = self.rejected.get(i, ()), self.options[i][0]
        if taken is not first:
            rejected = (shared_instead(first, taken, demand), *rejected)
            mine = taken.candidate.way
            rejected = tuple(
                r for r in rejected if (r.strategies, r.route) != (mine.names, mine.places)
            )
        one = len(taken.lanes) == 1 and demand.need.name not in self.fixed
        flat = neighbourhood(taken.main.need, taken.candidate) if one else None
        return Chosen(demand, taken, told_once(rejected), flat)


def _used(arrangement: Arrangement) -> set[str]:
    own = [arrangement.preparing, *(f for lane in arrangement.lanes for f in lane.fluids)]
    return {name for f in own for name in f.charges}
