"""How far a link or a port may slow down before an objective is missed.

All that use it slow down with it, so the whole plan is played again with the same schedules: the
lowest rate that still holds is looked for, and it is checked that the objective holds above it too.
Who types that rate in has the schedules chosen anew: it has to hold with those as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pydantic import ValidationError

from planner.errors import PlannerError
from planner.machine.schema import Machine
from planner.model.estimate import estimate as predict
from planner.model.slower import Replay, rate_of, with_rate
from planner.plan.objectives import Objective
from planner.plan.schema import Plan
from planner.results import Estimate
from planner.review.objectives import estimate_metrics, judge

SLOWEST = 1000
"""How much slower is looked at: what holds there does not depend on the resource."""
NEAR = 1e-3
"""Share of the rate between what holds and what does not at which the search ends."""
PLAYS = 24
"""Plays of one search at the most: up to 10 to find where it ends, some 5 to find how far."""
HIGHER = (1.0, 1.01, 1.03, 1.1)
"""What is tried where schedules chosen anew take longer: a ring of few bytes may be preferred to
one that is a little faster."""
MOST_ANEW = 8
"""Flows up to which the schedules are chosen anew: beyond, that is a search of seconds."""
BETWEEN = 4
"""Rates above the answer at which the objective is checked as well."""
MOST_FLOWS = 20_000
"""Flows simulated for one answer at the most, about a second; beyond that nothing is claimed."""


def lowest_rate(objective: Objective, estimate: Estimate, resource: str) -> float | None:
    """Bytes/s of the resource down to which the objective holds, in three digits, rounded up.

    `None` where the resource is no link and no port, where the objective does not depend on it, or
    where nothing can be told.
    """
    played = sum(f.repeat * max(1, len(f.schedule.parts)) for f in estimate.flows)
    played += len(estimate.compute)
    if played * PLAYS > MOST_FLOWS:
        return None
    try:
        machine = Machine.model_validate(estimate.machine)
        schedules = {flow.name: flow.schedule for flow in estimate.flows}
        replay = Replay(Plan.model_validate(estimate.plan), machine, schedules)
        present = rate_of(machine, resource)
        return None if present is None else _search(objective, replay, resource, present)
    except (ValidationError, PlannerError, KeyError):
        return None  # a result that somebody else wrote


def _search(objective: Objective, replay: Replay, resource: str, present: float) -> float | None:
    """The lowest rate, looked for in times: they grow about linearly as a link gets slower."""
    limit = _limit(objective, replay)

    def late(slower: float) -> float:
        """Seconds by which the objective is missed on a resource so many times slower."""
        machine = with_rate(replay.machine, resource, present / slower)
        seconds = _seconds(objective, replay, machine)
        return math.inf if seconds is None else seconds - limit

    good, bad = _bracket(late)
    if good is None or bad is None:
        return None
    lowest = present / _between(late, good, bad)
    for more in HIGHER:
        found = rounded_up(lowest * more)
        if found > present:
            return None
        step = (present / found) ** (1 / BETWEEN)
        kept = all(late(step**k) <= 0 for k in range(1, BETWEEN + 1))
        if not kept or _holds_anew(objective, replay, with_rate(replay.machine, resource, found)):
            return found if kept else None
    return None


def _holds_anew(objective: Objective, replay: Replay, machine: Machine) -> bool:
    """Whether the objective holds there with schedules that are chosen for that machine."""
    if len(replay.wanted) > MOST_ANEW:
        return True
    found = estimate_metrics(predict(replay.plan, machine, brief=True))
    return judge(objective, found).passed is not False


_Point = tuple[float, float]
"""How many times slower, and how late that is."""


def _bracket(late: Callable[[float], float]) -> tuple[_Point | None, _Point | None]:
    """A slowness that holds and one, twice as large at most, that does not."""
    slower, good = 1.0, None
    while slower <= SLOWEST:
        point = slower, late(slower)
        if point[1] > 0:
            return good, point
        good, slower = point, slower * 2
    return good, None


def _between(late: Callable[[float], float], good: _Point, bad: _Point) -> float:
    """The largest slowness that holds, by the Illinois method."""
    (low, early), (high, over) = good, bad
    side = 0
    for _ in range(PLAYS):
        if high - low <= NEAR * low:
            break
        at = low - early * (high - low) / (over - early)
        # Never closer to an end than half of what is wanted: then both ends close in.
        edge = NEAR * low / 2
        at = min(max(at, low + edge), high - edge)
        value = late(at)
        if value > 0:
            high, over = at, value
            early = early / 2 if side > 0 else early
            side = 1
        else:
            low, early = at, value
            over = over / 2 if side < 0 else over
            side = -1
    return low


def _limit(objective: Objective, replay: Replay) -> float:
    """The longest time that still meets the objective, seconds."""
    if objective.metric != "rate":
        return objective.limit if objective.operator in ("<=", "<") else -math.inf
    if objective.operator in ("<=", "<") or objective.limit <= 0:
        return -math.inf
    return replay.bytes_of(objective.subject) / objective.limit


def _seconds(objective: Objective, replay: Replay, machine: Machine) -> float | None:
    """The time that the objective is about, on another machine."""
    if objective.metric == "makespan":
        return replay.on(machine).makespan
    metric = "duration" if objective.metric == "rate" else objective.metric
    return max(replay.times(machine, objective.subject, metric), default=None)


def rounded_up(rate: float) -> float:
    """A rate in bytes/s, in three digits that are not less than it."""
    digit = 10.0 ** (math.floor(math.log10(rate)) - 2)
    return math.ceil(rate / digit - 1e-9) * digit
