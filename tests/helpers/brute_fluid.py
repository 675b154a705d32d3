"""The fluid simulation as one would do it by hand, in exact fractions; slow on purpose.

Nothing of `planner.model` computes here. Every member of a class is a flow of its own and every
member of a resource a resource of its own; at every event all rates are found anew by raising one
level over everything that moves. There is no rounding, so there is no tolerance either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from planner.model.simulate import FluidFlow, Resource

Place = tuple[int, int]  # resource, which of its members


@dataclass
class Single:
    """One member of one flow."""

    flow: int
    charges: dict[Place, Fraction]
    weight: Fraction
    cap: Fraction | None
    priority: int
    left: Fraction
    ready: Fraction | None = None
    begin: Fraction | None = None
    finish: Fraction | None = None
    rate: Fraction = Fraction(0)

    @property
    def moves(self) -> bool:
        return self.begin is not None and self.finish is None


@dataclass
class Answer:
    """Exact times in seconds; the first three one a flow, the others one a resource."""

    ready: list[Fraction]
    begin: list[Fraction]
    finish: list[Fraction]
    busy: list[Fraction]
    load: list[Fraction] = field(default_factory=list)


def known(time: Fraction | None) -> Fraction:
    assert time is not None
    return time


def brute_fluid(resources: Sequence[Resource], flows: Sequence[FluidFlow]) -> Answer:
    """Play the flows to the end; the capacities must be finite and the flows able to finish."""
    singles = [
        Single(
            index,
            {
                (r, member % resources[r].members): Fraction(charge)
                for r, charge in flow.charges.items()
                if charge
            },
            Fraction(flow.weight),
            None if flow.cap == math.inf else Fraction(flow.cap),
            flow.priority,
            Fraction(flow.work),
        )
        for index, flow in enumerate(flows)
        for member in range(flow.members)
    ]
    capacity = {
        (r, member): Fraction(resource.capacity)
        for r, resource in enumerate(resources)
        for member in range(resource.members)
    }
    busy = [Fraction(0)] * len(resources)
    used = [Fraction(0)] * len(resources)
    now = Fraction(0)
    while any(single.finish is None for single in singles):
        _settle(flows, singles, now)
        _set_rates(singles, capacity)
        step = _next_event(flows, singles, now) - now
        for r in range(len(resources)):
            on_first = [s for s in singles if s.moves and s.rate and (r, 0) in s.charges]
            busy[r] += step if on_first else 0
            used[r] += step * sum((s.rate * s.charges[r, 0] for s in on_first), Fraction(0))
        for single in singles:
            if single.moves:
                single.left -= single.rate * step
        now += step
        _settle(flows, singles, now)
    first = [next(s for s in singles if s.flow == index) for index in range(len(flows))]
    for single in singles:
        assert single.finish == first[single.flow].finish, "the members of a class drift apart"
    return Answer(
        [known(s.ready) for s in first],
        [known(s.begin) for s in first],
        [known(s.finish) for s in first],
        busy,
        [used[r] / Fraction(resource.capacity) for r, resource in enumerate(resources)],
    )


def _settle(flows: Sequence[FluidFlow], singles: list[Single], now: Fraction) -> None:
    """Everything that is so at this instant: finished, ready, begun; until nothing is new."""
    news = True
    while news:
        news = False
        for single in singles:
            flow = flows[single.flow]
            if single.finish is not None:
                continue
            if single.ready is None:
                before = [s.finish for s in singles if s.flow in flow.after]
                ends = [end for end in before if end is not None]
                if len(ends) == len(before):
                    single.ready = max([Fraction(flow.start), *ends])
                    news = True
            if single.ready is not None and single.begin is None:
                begin = single.ready + Fraction(flow.delay)
                if begin <= now:
                    single.begin = begin
                    news = True
            unbounded = not single.charges and single.cap is None
            if single.begin is not None and (single.left == 0 or unbounded):
                single.finish = now
                news = True


def _set_rates(singles: list[Single], capacity: dict[Place, Fraction]) -> None:
    left = dict(capacity)
    for single in singles:
        single.rate = Fraction(0)
    for priority in sorted({s.priority for s in singles}, reverse=True):
        rising = [s for s in singles if s.moves and s.priority == priority]
        while rising:
            # How far can all rise together from where they are?
            need = {
                p: sum((s.charges[p] * s.weight for s in rising if p in s.charges), Fraction(0))
                for p in left
            }
            rooms = [left[place] / need[place] for place in left if need[place]]
            rooms += [(s.cap - s.rate) / s.weight for s in rising if s.cap is not None]
            rise = min(rooms)
            for single in rising:
                single.rate += rise * single.weight
            for place in left:
                left[place] -= rise * need[place]
            rising = [
                s for s in rising if s.rate != s.cap and all(left[place] > 0 for place in s.charges)
            ]


def _next_event(flows: Sequence[FluidFlow], singles: list[Single], now: Fraction) -> Fraction:
    times = [now + s.left / s.rate for s in singles if s.moves and s.rate]
    times += [
        s.ready + Fraction(flows[s.flow].delay)
        for s in singles
        if s.ready is not None and s.begin is None
    ]
    # A start that lies ahead is known as soon as the flow has nothing else to wait for.
    return min([time for time in times if time > now], default=now)
