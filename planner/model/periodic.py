"""Ten thousand repeats without playing ten thousand: exact where a shorter run proves periodic.

Two runs, of n and of n + 24 repeats, are compared. If every event of the longer run either happens
at the same instant (before half of the shorter run) or later by one and the same time D, then the
system has reached a state that comes again every 24 repeats: the further repeats each add D / 24
of what 24 of them add. Periods of 1, 2, 3, 4, 6, 8, 12 and 24 repeats divide 24; another period,
or anything else that happens meanwhile, fails the comparison and everything is played.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.model.compose import Composition, Part
from planner.model.needs import Demand
from planner.plan.schema import Plan

MANY = 240
"""Up to so many repeats everything is played: two short runs would cost as much."""
SHORT = 96
"""Repeats of the shorter run: four times the longest period, so the start has died away."""
PERIOD = 24
SAME = 1e-11
"""Two times are the same within this share of the longer run: sums of some thousand terms in
double precision (1.1e-16 a step)."""


def extrapolated(
    plan: Plan, demands: Sequence[Demand], play: Callable[[int], Composition]
) -> Composition | None:
    """The composition for all repeats from two short runs, or `None` where that is not exact."""
    counts = [d.need.repeat for d in demands] + [b.repeat for b in plan.compute.values()]
    many = {count for count in counts if count > MANY}
    if len(many) != 1:
        return None
    total = many.pop()
    short = SHORT + (total - SHORT) % PERIOD
    one, two = play(short), play(short + PERIOD)
    starts = [d.start for d in demands] + [b.start for b in plan.compute.values()]
    if not _periodic(one, two, max(starts, default=0.0)):
        return None
    return _further(one, two, (total - short) // PERIOD)


def _periodic(one: Composition, two: Composition, latest: float) -> bool:
    """Whether the longer run is the shorter one with a period put in."""
    if one.resources != two.resources or two.makespan <= 0:
        return False
    slack = SAME * two.makespan
    pairs = list(zip((*one.parts, *one.compute), (*two.parts, *two.compute), strict=True))
    longer = [(a, b) for a, b in pairs if len(b.ends) > len(a.ends)]
    shift = longer[0][1].finish - longer[0][0].finish
    middle = min(a.ends[len(a.ends) // 2] for a, _ in longer)
    if latest > middle:
        return False
    for a, b in pairs:
        more = len(b.ends) - len(a.ends)
        half = len(a.ends) // 2 if more else 0
        if any(abs(x - y) > slack for x, y in zip(a.ends[:half], b.ends[:half], strict=True)):
            return False
        later = [y - x for x, y in zip(a.ends[half:], b.ends[half + more :], strict=True)]
        still = not more and all(abs(d) <= slack for d in later) and a.finish <= middle
        if not still and any(abs(d - shift) > slack for d in later):
            return False
    return True


def _further(one: Composition, two: Composition, times: int) -> Composition:
    """The shorter run with `times` more of the period that the longer one has more."""

    def on(a: float, b: float) -> float:
        return a + times * (b - a)

    def part(a: Part, b: Part) -> Part:
        return replace(
            a,
            start=on(a.start, b.start),
            first=on(a.first, b.first),
            finish=on(a.finish, b.finish),
            moving=on(a.moving, b.moving),
            exposed=on(a.exposed, b.exposed),
            lanes=tuple(map(on, a.lanes, b.lanes)),
        )

    return Composition(
        tuple(map(part, one.parts, two.parts)),
        tuple(map(part, one.compute, two.compute)),
        one.resources,
        tuple(map(on, one.load, two.load)),
        tuple(map(on, one.busy, two.busy)),
        on(one.makespan, two.makespan),
        one.flows + two.flows,
    )
