"""Flows and resources, checked and turned into the flat arrays that the simulator works on.

Flows that charge the same resources alike, with the same weight, cap, priority and engines, become
one class: at every instant all that move do so at one rate, so the class is one variable of the
sharing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from planner.model._fluid_types import FluidFlow, Resource

NO_CLASS = -1
"""The class of a flow that never takes a share: no work, or nothing that bounds its rate."""

NO_QUEUE = -1
"""In place of the slot at which calls wait: what is issued piece by piece waits for nobody."""


@dataclass(slots=True)
class Classes:
    """The classes, as parallel lists; `slots` are indices into the tiers' copies of the resources.

    Strict priorities are tiers, the first served first. Tier k sees its own copy of resource r,
    number k * resources + r, whose capacity is what the tiers before it leave.
    """

    slots: list[tuple[int, ...]] = field(default_factory=list)
    charge: list[tuple[float, ...]] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)
    cap: list[float] = field(default_factory=list)
    tier: list[int] = field(default_factory=list)
    engines: list[tuple[tuple[int, float], ...]] = field(default_factory=list)
    """Slots that serve in order, and what share of all one member of the class weighs there."""
    queue: list[int] = field(default_factory=list)
    """The slot at which the class's calls wait for each other, or `NO_QUEUE`."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A checked input: n flows in classes over `tiers` copies of `resources` resources."""

    resources: int
    tiers: int
    capacity: list[float]
    classes: Classes
    flow_class: list[int]
    work: list[float]
    delay: list[float]
    start: list[float]
    members: list[float]
    waits: list[int]
    followers: dict[int, list[int]]


def build(resources: Sequence[Resource], flows: Sequence[FluidFlow]) -> Problem:
    """Check everything, then group the flows into classes.

    Raises `ValueError` that names the resource or the flow, what is wrong and what is allowed.
    """
    _check_resources(resources)
    numbers = _check_flows(flows)
    waits, followers = _dependencies(flows)
    priorities = sorted({flow.priority for flow in flows}, reverse=True)
    classes, flow_class = _classify(resources, flows, priorities)
    if any(resource.capacity == 0.0 for resource in resources):
        _check_stuck(resources, flows)
    for index, work in enumerate(numbers["work"]):
        if work == 0.0:
            flow_class[index] = NO_CLASS
    tiers = max(len(priorities), 1)
    return Problem(
        resources=len(resources),
        tiers=tiers,
        capacity=[float(resource.capacity) for resource in resources] * tiers,
        classes=classes,
        flow_class=flow_class,
        work=numbers["work"],
        delay=numbers["delay"],
        start=numbers["start"],
        members=numbers["members"],
        waits=waits,
        followers=followers,
    )


def _check_resources(resources: Sequence[Resource]) -> None:
    for resource in resources:
        if not resource.capacity >= 0.0:
            raise ValueError(
                f"resource {resource.name!r}: capacity {resource.capacity} is not a rate; "
                "it must be at least 0"
            )
        if not 0.0 < resource.weight < math.inf:
            raise ValueError(
                f"resource {resource.name!r}: weight is {resource.weight}; "
                "it must be finite and greater than 0"
            )
        if resource.members < 1:
            raise ValueError(
                f"resource {resource.name!r}: members is {resource.members}; it must be at least 1"
            )


def _check_stuck(resources: Sequence[Resource], flows: Sequence[FluidFlow]) -> None:
    for flow in flows:
        for index, charge in flow.charges.items():
            if flow.work > 0.0 and charge > 0.0 and resources[index].capacity == 0.0:
                raise ValueError(
                    f"flow {flow.name!r} can never finish: it charges "
                    f"{resources[index].name!r}, whose capacity is 0"
                )


def _finite_and_not_negative(value: float) -> bool:
    return 0.0 <= value < math.inf


_RULES: tuple[tuple[str, Callable[[float], bool], str], ...] = (
    ("work", _finite_and_not_negative, "finite and at least 0"),
    ("delay", _finite_and_not_negative, "finite and at least 0 seconds"),
    ("start", _finite_and_not_negative, "finite and at least 0 seconds"),
    ("weight", lambda v: 0.0 < v < math.inf, "finite and greater than 0"),
    ("cap", lambda v: v > 0.0, "greater than 0 (it could never finish otherwise)"),
    ("members", lambda v: v >= 1.0, "at least 1"),
)


def _check_flows(flows: Sequence[FluidFlow]) -> dict[str, list[float]]:
    """The numeric fields as lists, one number a flow, each within its range."""
    numbers: dict[str, list[float]] = {}
    for name, holds, allowed in _RULES:
        values = list(map(float, map(attrgetter(name), flows)))
        # The rules are intervals: the two extremes tell of all, and only nan is not its own equal.
        total = sum(values)
        if values and (math.isnan(total) or not (holds(min(values)) and holds(max(values)))):
            flow = next(f for f, v in zip(flows, values, strict=True) if not holds(v))
            raise ValueError(
                f"flow {flow.name!r}: {name} is {getattr(flow, name)}; it must be {allowed}"
            )
        numbers[name] = values
    return numbers


def _dependencies(flows: Sequence[FluidFlow]) -> tuple[list[int], dict[int, list[int]]]:
    """Number of predecessors of each flow, and the followers of each flow that has any."""
    waits = [0] * len(flows)
    followers: dict[int, list[int]] = {}
    for index, flow in enumerate(flows):
        if not flow.after:
            continue
        before = set(flow.after)
        for other in before:
            if not 0 <= other < len(flows):
                raise ValueError(
                    f"flow {flow.name!r}: after names flow {other}, "
                    f"but the flows are numbered 0 to {len(flows) - 1}"
                )
            followers.setdefault(other, []).append(index)
        waits[index] = len(before)
    if followers:
        _check_acyclic(flows, waits, followers)
    return waits, followers


def _check_acyclic(
    flows: Sequence[FluidFlow], waits: Sequence[int], followers: dict[int, list[int]]
) -> None:
    left = list(waits)
    done = [index for index, count in enumerate(left) if count == 0]
    for index in done:
        for follower in followers.get(index, ()):
            left[follower] -= 1
            if left[follower] == 0:
                done.append(follower)
    if len(done) == len(flows):
        return
    stuck = {index for index, count in enumerate(left) if count > 0}
    walk = [min(stuck)]  # every stuck flow waits for a stuck one, so this walk must close
    while (before := next(i for i in flows[walk[-1]].after if i in stuck)) not in walk:
        walk.append(before)
    cycle = [*walk[walk.index(before) :], before]
    names = " after ".join(repr(flows[index].name) for index in cycle)
    raise ValueError(f"flows wait for one another in a circle: {names}")


def _classify(
    resources: Sequence[Resource], flows: Sequence[FluidFlow], priorities: Sequence[int]
) -> tuple[Classes, list[int]]:
    classes = Classes()
    tier_of = {priority: tier for tier, priority in enumerate(priorities)}
    known: dict[object, int] = {}  # as the caller spells the charges, and in order
    flow_class = [NO_CLASS] * len(flows)
    replicated = any(resource.members > 1 for resource in resources)
    for index, flow in enumerate(flows):
        # Two flat tuples: pairs would be some hundred thousand objects more for large inputs.
        charges = flow.charges
        kind = (flow.weight, flow.cap, flow.priority, flow.engines, flow.one_call)
        key = (tuple(charges), tuple(charges.values()), kind)
        number = known.get(key)
        if number is None:
            slots, values = _charges(resources, flow)
            number = known.get((slots, values, kind))
            if number is None:
                tier = tier_of[flow.priority]
                number = _add(classes, resources, flow, (slots, values), tier)
                known[slots, values, kind] = number
            known[key] = number
        if replicated:
            _check_members(resources, flow)
        flow_class[index] = number
    return classes, flow_class


_Charges = tuple[tuple[int, ...], tuple[float, ...]]
"""Resources, and what a byte takes of each."""


def _charges(resources: Sequence[Resource], flow: FluidFlow) -> _Charges:
    """The charges that are not zero, sorted by resource; checked."""
    charges = sorted(flow.charges.items())
    if charges and not (charges[0][0] >= 0 and charges[-1][0] < len(resources)):
        wrong = charges[0][0] if charges[0][0] < 0 else charges[-1][0]
        raise ValueError(
            f"flow {flow.name!r}: charges resource {wrong}, "
            f"but there are {len(resources)} resources, numbered from 0"
        )
    for index, charge in charges:
        if not 0.0 <= charge < math.inf:
            raise ValueError(
                f"flow {flow.name!r}: charges {resources[index].name!r} {charge} times; "
                "a multiplicity must be finite and at least 0"
            )
    taken = [pair for pair in charges if pair[1] > 0.0]
    return tuple([index for index, _ in taken]), tuple([charge for _, charge in taken])


def _check_members(resources: Sequence[Resource], flow: FluidFlow) -> None:
    for index in flow.charges:
        if flow.members % resources[index].members:
            raise ValueError(
                f"flow {flow.name!r}: its {flow.members} members do not spread evenly over the "
                f"{resources[index].members} members of resource {resources[index].name!r}; "
                "use a multiple, or a resource of its own for the part that it uses"
            )


def _check_engines(resources: Sequence[Resource], flow: FluidFlow, charged: Sequence[int]) -> None:
    for index in flow.engines:
        if index not in charged:
            name = resources[index].name if 0 <= index < len(resources) else index
            raise ValueError(f"flow {flow.name!r}: its engine {name!r} is nothing that it charges")
    if flow.one_call and len(flow.engines) != 1:
        raise ValueError(
            f"flow {flow.name!r}: one call goes to one engine, not to {len(flow.engines)}"
        )


def _add(
    classes: Classes,
    resources: Sequence[Resource],
    flow: FluidFlow,
    charges: _Charges,
    tier: int,
) -> int:
    """The number of the new class, or `NO_CLASS` where nothing bounds its rate."""
    indices, values = charges
    _check_engines(resources, flow, indices)
    if flow.cap == math.inf and all(resources[index].capacity == math.inf for index in indices):
        return NO_CLASS
    first = tier * len(resources)
    classes.slots.append(tuple([first + index for index in indices]) if first else indices)
    # On one of M equal resources only members / M of the flow's members are found.
    per_member = [v / resources[i].members for i, v in zip(indices, values, strict=True)]
    classes.charge.append(tuple(per_member))
    classes.weight.append(flow.weight)
    classes.cap.append(flow.cap)
    classes.tier.append(tier)
    used = [(first + i, resources[i]) for i in flow.engines]
    engines = [(slot, flow.weight / engine.members / engine.weight) for slot, engine in used]
    classes.engines.append(tuple(engines))
    classes.queue.append(engines[0][0] if flow.one_call else NO_QUEUE)
    return len(classes.slots) - 1
