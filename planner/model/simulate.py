"""When do flows that share resources finish? An exact fluid simulation; it knows no plans.

A flow is ready when its predecessors are done, is silent for its delay, and then moves its work
at its weighted max-min share of the resources that it charges, until all of it has moved. Between
two events all rates are constant, so finish times are exact up to rounding.

>>> link = Resource("link", capacity=10.0)
>>> a = FluidFlow("a", work=10.0, charges={0: 1.0})
>>> b = FluidFlow("b", work=20.0, charges={0: 1.0}, delay=1.0)
>>> simulate([link], [a, b]).finish  # a is alone for one second
(1.0, 3.0)
"""

from __future__ import annotations

import importlib.util
import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Literal, get_args

from planner.errors import UnavailableError
from planner.model._fluid_events import Trace, run
from planner.model._fluid_problem import NO_CLASS, Problem, build
from planner.model._fluid_repair import Levels
from planner.model._fluid_types import FluidFlow, FluidResult, RateChange, Resource

__all__ = ["FluidFlow", "FluidResult", "RateChange", "Resource", "simulate"]

Helper = Literal["auto", "numpy", "python", "numba"]

_WORTH_ARRAYS = 64
# Classes from which on whole arrays can pay: `_fluid_vector` refills a tier by arrays only after
# bursts of many changes, and importing numpy alone takes some 50 ms.
_WORTH_COMPILING = 5000
# Classes from which on numba is the better choice unasked: 6,000 classes that begin together take
# Python 11 s, about as much as the 12 s of compiling once and 0.7 s of running; later processes
# load what was compiled in 0.3 s (measured 2026-11-29, Python 3.11, shared x86-64 core).


def simulate(
    resources: Sequence[Resource],
    flows: Sequence[FluidFlow],
    *,
    record: bool = False,
    helper: Helper = "auto",
) -> FluidResult:
    """Play all flows over the resources that they share.

    Parameters
    ----------
    resources
        What is shared; flows charge them by index.
    flows
        What moves; `after` names them by index.
    record
        Also return every change of every rate.
    helper
        What does the arithmetic; all give the same answer. "python" uses plain lists, "numpy"
        arrays as well where very many flows begin at once, "numba" compiles everything (the extra
        `fast`; seconds on the first use on a computer). "auto" takes numba if it is installed and
        the input large enough to repay that, else numpy.

    Raises
    ------
    ValueError
        A number out of its range, an index out of range, members that do not spread evenly, flows
        that wait for one another in a circle, or a flow that can never finish; it names the flow.
    UnavailableError
        The helper is "numba", which is not installed.
    """
    if helper not in get_args(Helper):
        raise ValueError(f"helper {helper!r} is none of {', '.join(get_args(Helper))}")
    problem = build(resources, flows)
    trace = _play(problem, helper, record=record)
    return _result(problem, flows, trace, record=record)


def _play(problem: Problem, helper: Helper, *, record: bool) -> Trace:
    has_numba = importlib.util.find_spec("numba") is not None
    if helper == "numba" and not has_numba:
        raise UnavailableError(
            "the compiled simulation needs numba, which is not installed",
            hint="pip install 'transfer-planner[fast]', or leave the choice to helper=\"auto\"",
        )
    large = len(problem.classes.slots) >= _WORTH_COMPILING
    if helper == "numba" or (helper == "auto" and has_numba and large):
        from planner.model import _fluid_numba

        return _fluid_numba.run(problem, record=record)
    few = helper == "auto" and len(problem.classes.slots) < _WORTH_ARRAYS
    if helper == "python" or few:
        return run(problem, Levels(problem), record=record)
    from planner.model._fluid_vector import VectorLevels

    return run(problem, VectorLevels(problem), record=record)


def _result(
    problem: Problem, flows: Sequence[FluidFlow], trace: Trace, *, record: bool
) -> FluidResult:
    for flow, finish in zip(flows, trace.finish, strict=True):
        if math.isnan(finish):  # no event is left that could end it
            raise ValueError(f"flow {flow.name!r} can never finish: it gets no share any more")
    return FluidResult(
        ready=tuple(trace.ready),
        begin=tuple(trace.begin),
        finish=tuple(trace.finish),
        busy=tuple(trace.busy),
        load=_load(problem),
        makespan=max(trace.finish, default=0.0),
        bottleneck=tuple(trace.bottleneck),
        events=trace.events,
        rates=_rates(problem, trace) if record else None,
    )


def _load(problem: Problem) -> tuple[float, ...]:
    """Work charged to each resource over its capacity, seconds."""
    classes = problem.classes
    moved = [0.0] * len(classes.slots)
    for number, work in zip(
        problem.flow_class,
        [w * m for w, m in zip(problem.work, problem.members, strict=True)],
        strict=True,
    ):
        if number != NO_CLASS:
            moved[number] += work
    load = [0.0] * problem.resources
    for slots, charges, work in zip(classes.slots, classes.charge, moved, strict=True):
        for slot, charge in zip(slots, charges, strict=True):
            resource = slot % problem.resources
            if work > 0.0:
                load[resource] += charge * work / problem.capacity[resource]
    return tuple(load)


def _rates(problem: Problem, trace: Trace) -> tuple[RateChange, ...]:
    """The changes of the classes' rates, told apart for the flows that were in them."""
    by_class: dict[int, list[tuple[float, float]]] = {}
    for time, number, rate in trace.log:
        by_class.setdefault(number, []).append((time, rate))
    times = {number: [time for time, _ in log] for number, log in by_class.items()}
    changes = []
    for flow, number in enumerate(problem.flow_class):
        if number == NO_CLASS:
            continue
        begin, finish = trace.begin[flow], trace.finish[flow]
        log = by_class[number]
        last = 0.0
        first = bisect_left(times[number], begin * (1.0 - 1e-14))
        for time, rate in log[first:]:
            if time >= finish:
                break
            if rate != last:
                changes.append(RateChange(time, flow, rate))
            last = rate
        changes.append(RateChange(finish, flow, 0.0))
    return tuple(sorted(changes))
