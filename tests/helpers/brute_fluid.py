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
    engines: dict[Place, Fraction]
    one_call: bool
    left: Fraction
    issued: Fraction | None = None
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
            {
                (e, member % resources[e].members): Fraction(resources[e].weight)
                for e in flow.engines
            },
            flow.one_call,
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
    while _settle_once(flows, singles, now) or _start_calls(singles, now):
        pass


def _settle_once(flows: Sequence[FluidFlow], singles: list[Single], now: Fraction) -> bool:
    """One look at all but the calls that stand in a queue; whether anything was new."""
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
        if single.ready is not None and single.issued is None:
            issued = single.ready + Fraction(flow.delay)
            if issued <= now:
                single.issued = issued
                news = True
        if single.issued is not None and single.begin is None and not _queues(single):
            single.begin = now
            news = True
        unbounded = not single.charges and single.cap is None
        if single.begin is not None and (single.left == 0 or unbounded):
            single.finish = now
            news = True
    return news


def _start_calls(singles: list[Single], now: Fraction) -> bool:
    """Begin the calls whose turn it is, once all that is issued at this instant is known."""
    news = False
    for single in singles:
        waits = _queues(single) and single.issued is not None and single.begin is None
        if waits and _is_next(single, singles):
            single.begin = now
            news = True
    return news


def _queues(single: Single) -> bool:
    return single.one_call and single.left > 0


def _is_next(single: Single, singles: list[Single]) -> bool:
    """Whether no call stands before this one; members of one flow begin and end together."""
    rivals = [
        s
        for s in singles
        if s.one_call and s.engines == single.engines and s.priority == single.priority
        if s.flow != single.flow and s.left and s.finish is None and s.issued is not None
    ]
    turn = known(single.issued), single.flow
    return not any(s.begin is not None or (known(s.issued), s.flow) < turn for s in rivals)


def _shares(moving: list[Single]) -> dict[int, Fraction]:
    """The weight of each: its own, or what share it has of the fullest of its engines."""
    totals: dict[Place, Fraction] = {}
    for single in moving:
        for place in single.engines:
            totals[place] = totals.get(place, Fraction(0)) + single.weight
    return {
        id(single): single.weight
        / max([totals[place] / all_of_it for place, all_of_it in single.engines.items()], default=1)
        for single in moving
    }


def _set_rates(singles: list[Single], capacity: dict[Place, Fraction]) -> None:
    left = dict(capacity)
    for single in singles:
        single.rate = Fraction(0)
    for priority in sorted({s.priority for s in singles}, reverse=True):
        rising = [s for s in singles if s.moves and s.priority == priority]
        weight = _shares(rising)
        while rising:
            # How far can all rise together from where they are?
            need = {
                p: sum(
                    (s.charges[p] * weight[id(s)] for s in rising if p in s.charges), Fraction(0)
                )
                for p in left
            }
            rooms = [left[place] / need[place] for place in left if need[place]]
            rooms += [(s.cap - s.rate) / weight[id(s)] for s in rising if s.cap is not None]
            rise = min(rooms)
            for single in rising:
                single.rate += rise * weight[id(single)]
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
        if s.ready is not None and s.issued is None
    ]
    # A start that lies ahead is known as soon as the flow has nothing else to wait for.
    return min([time for time in times if time > now], default=now)
