"""A time before which no order and no sharing could end: the yardstick of a choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.machine.schema import Machine
from planner.model.arrange import Arrangement
from planner.model.build import block_seconds
from planner.model.compose import Composition
from planner.model.needs import Demand
from planner.plan.schema import Plan


def lower_bound(
    plan: Plan,
    machine: Machine,
    demands: Sequence[Demand],
    arrangements: Sequence[Arrangement],
    composed: Composition,
) -> float:
    """The larger of: what the busiest resource must carry, and the longest chain of `after`.

    Seconds. A flow counts with its time alone; one that goes in step with another cannot end
    before one repeat of it and all of its own.
    """
    alone: dict[str, tuple[float, float, int, float]] = {}
    for demand, arrangement in zip(demands, arrangements, strict=True):
        once = max(lane.seconds for lane in arrangement.lanes)
        if arrangement.fan == "chain":
            once = 0.0  # its bytes are counted with those that it is copied from
        known = alone.get(demand.flow, (0.0, 0.0, 1, 0.0))
        alone[demand.flow] = (
            max(known[0], once),
            max(known[1], arrangement.setup_seconds),
            demand.need.repeat,
            demand.start,
        )
    for name, block in plan.compute.items():
        alone[name] = block_seconds(plan, machine, name), 0.0, block.repeat, block.start
    after = {d.flow: d.after for d in demands}
    after |= {name: block.after for name, block in plan.compute.items()}
    ends: dict[str, tuple[float, float]] = {}
    for name in after:
        _end(name, after, alone, ends)
    carried = max(composed.load, default=0.0)
    return min(composed.makespan, max([carried, *(end for _, end in ends.values())]))


def _end(
    name: str,
    after: Mapping[str, tuple[str, ...]],
    alone: Mapping[str, tuple[float, float, int, float]],
    ends: dict[str, tuple[float, float]],
) -> tuple[float, float]:
    """The earliest ends of the first and of the last repeat, along the chain of what it awaits."""
    if name not in ends:
        once, setup, repeat, begin = alone[name]
        last = 0.0
        for other in after[name]:
            first, end = _end(other, after, alone, ends)
            if alone[other][2] == repeat > 1:  # at best in step
                begin, last = max(begin, first), max(last, end + once)
            else:
                begin = max(begin, end)
        ends[name] = begin + setup + once, max(begin + setup + repeat * once, last)
    return ends[name]
