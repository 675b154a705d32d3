"""What a report shows beyond a result: the timeline, memory over time, and the effect of each link.

All of it follows from the result alone: its schedules are played again on its own machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from planner.errors import PlannerError
from planner.plan.schema import Plan
from planner.results import (
    Estimate,
    FlowEstimate,
    MemoryTrack,
    Run,
    Timeline,
    TimelineRow,
)
from planner.review.saved import require_agreement

if TYPE_CHECKING:
    from planner.model.slower import Replay

SLICES: Final = 1000
"""Slices of the predicted timeline of a page; with as many measured ones a page stays below 2,000,
and an SVG path of 1,000 boxes takes 20 kB."""
TRACE_SLICES: Final = 20_000
"""Slices of a trace: viewers of the JSON format stay quick up to some ten thousand events."""
FACTORS: Final = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
LINKS: Final = 6
"""Links whose rate is varied: the busiest ones decide, and a chart with more lines is not read."""
MOST_PARTS: Final = 400
"""Repeats of flows, all together, up to which rates are varied: 42 simulations of them take about
two seconds."""
SAME: Final = 1e-6
"""A replay whose makespan differs from the estimate's by a larger share is not of that estimate."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The makespan in seconds with one link at other rates: pairs of factor and makespan."""

    resource: str
    rate_bytes_per_s: float
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Study:
    """What is known beyond a result; `remarks` say what could not be found out."""

    predicted: Timeline
    measured: Timeline | None
    memory: tuple[MemoryTrack, ...]
    sensitivity: tuple[Sensitivity, ...]
    remarks: tuple[str, ...] = ()


def study(result: Estimate | Run, *, slices: int = SLICES, sensitivity: bool = True) -> Study:
    """Play the schedules of a result once more.

    Parameters
    ----------
    result
        an estimate, or a run with the estimate in it.
    slices
        the most slices of the predicted timeline, about.
    sensitivity
        also vary the rate of each link that matters.

    """
    estimate = result.estimate if isinstance(result, Run) else result
    measured = result.timeline if isinstance(result, Run) else None
    try:
        found = _replayed(estimate, slices)
    except (PlannerError, ValidationError, ValueError) as error:
        reason = str(error).splitlines()[0]
        found = None, f"its schedules cannot be played again: {reason}"
    replay, told = found
    if replay is None:
        return Study(outline(estimate), measured, (), (), (told,))
    timeline, memory, again = replay
    varied = _vary(estimate, again) if sensitivity else ()
    return Study(timeline, measured, memory, varied, (told,) if told else ())


def _replayed(
    estimate: Estimate, slices: int
) -> tuple[tuple[Timeline, tuple[MemoryTrack, ...], Replay] | None, str]:
    """The timeline, memory and what was played; or nothing, and why."""
    from planner.machine.schema import Machine
    from planner.model.classes import fitted
    from planner.model.periodic import MANY
    from planner.model.replay import replay
    from planner.model.slower import Replay

    require_agreement(estimate)
    repeats = [f.repeat for f in estimate.flows]
    if max(repeats, default=1) > MANY:
        return None, f"{max(repeats)} repeats are too many to be shown one by one"
    plan = Plan.model_validate(estimate.plan)
    machine = fitted(plan, Machine.model_validate(estimate.machine))
    again = Replay(plan, machine, {flow.name: flow.schedule for flow in estimate.flows})
    seen = replay(plan, machine, again.wanted, again.arrangements, most=slices)
    span = seen.timeline.span_s
    if not math.isclose(span, estimate.makespan_s, rel_tol=SAME):
        return None, "its schedules give another time when they are played again"
    return (seen.timeline, seen.memory, again), ""


def outline(estimate: Estimate) -> Timeline:
    """When each hop is under way, from the estimate alone: one slice each."""
    rows = [row for flow in estimate.flows for row in _outline_rows(flow)]
    rows += [
        _single(
            f"{block.gpu}.compute",
            "compute",
            block.name,
            (block.start_s, block.finish_s, block.finish_s - block.start_s),
        )
        for block in estimate.compute
    ]
    return Timeline(origin="outline", span_s=estimate.makespan_s, rows=tuple(rows))


def _outline_rows(flow: FlowEstimate) -> list[TimelineRow]:
    setup = sum(step.duration_s for step in flow.setup if not step.overlapped)
    begin = flow.start_s + setup
    rows = []
    if setup > 0:
        rows.append(_single("setup", "setup", flow.name, (flow.start_s, begin, setup)))
    for number, hop in enumerate(flow.hops):
        if hop.busy_s > 0:
            busy = hop.busy_s * flow.repeat
            size = flow.size_bytes * flow.repeat
            chunks = -(-flow.size_bytes // max(1, hop.hop.chunk_bytes)) * flow.repeat
            row = _single(hop.resource, "hop", flow.name, (begin, flow.finish_s, busy))
            about = {"hop": number, "members": flow.members}
            columns = {"size_bytes": (size,), "chunks": (max(1, chunks),)}
            rows.append(row.model_copy(update={**about, **columns}))
    return rows


def _single(lane: str, kind: str, flow: str, times: tuple[float, float, float]) -> TimelineRow:
    start, end, busy = times
    return TimelineRow.model_validate(
        {
            "lane": lane,
            "kind": kind,
            "flow": flow,
            "start_s": (start,),
            "end_s": (end,),
            "busy_s": (busy,),
            "size_bytes": (0,),
            "chunks": (1,),
        }
    )


def _vary(estimate: Estimate, again: Replay) -> tuple[Sensitivity, ...]:
    """The makespan with each of the busiest links at other rates; links that act alike once."""
    from planner.model.slower import rate_of, with_rate

    if sum(f.repeat for f in estimate.flows) > MOST_PARTS:
        return ()
    rates = {use.name: rate_of(again.machine, use.name) for use in estimate.resources}
    names = [use.name for use in estimate.resources if rates[use.name] and use.share >= 0.02]
    found: dict[tuple[float, ...], Sensitivity] = {}
    for name in names[:LINKS]:
        rate = rates[name] or 0.0
        spans = [
            estimate.makespan_s
            if factor == 1.0
            else again.on(with_rate(again.machine, name, rate * factor)).makespan
            for factor in FACTORS
        ]
        key = tuple(float(f"{span:.6g}") for span in spans)
        points = tuple(zip(FACTORS, spans, strict=True))
        found.setdefault(key, Sensitivity(name, rate, points))
    return tuple(found.values())


def busy_of(rows: Sequence[TimelineRow], flow: str, hop: int) -> float:
    """Seconds that a hop serves in all, by the slices of its rows."""
    return math.fsum(
        busy for row in rows if (row.flow, row.hop) == (flow, hop) for busy in row.busy_s
    )
