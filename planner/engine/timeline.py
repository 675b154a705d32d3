"""What every hop did in one sample, on the plan's clock, in a bounded number of slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planner.engine.flow_sample import FlowSample
from planner.engine.measure import Interval
from planner.engine.outcome import services_of
from planner.engine.sample import PlanSample
from planner.machine.schema import Machine
from planner.model.slices import Slice, disjoint, merged, row, sizes_of
from planner.results import Estimate, FlowEstimate, Timeline, TimelineRow

SLICES: Final = 800
"""Slices that a run keeps: with 50 bytes each its file grows by 40 kB at the most."""
_LEAST: Final = 4
_DIGITS: Final = 9
"""Digits after the point: the clock itself ticks in nanoseconds."""


def timeline(machine: Machine, estimate: Estimate, sample: PlanSample) -> Timeline:
    """The rows of all flows and compute blocks of a sample; chunks are merged to bound them."""
    count = sum(len(flow.hops) for flow in estimate.flows) + len(sample.compute)
    most = max(_LEAST, SLICES // max(1, count))
    rows: list[TimelineRow] = []
    for flow in estimate.flows:
        own = sample.flows.get(flow.name)
        if own is not None:
            rows += _rows(machine, flow, own, sample.origin, most)
    for block in estimate.compute:
        runs = sample.compute.get(block.name, ())
        slices = _slices(runs, [0] * len(runs), sample.origin, most)
        rows.append(_row(slices, f"{block.gpu}.compute", "compute", block.name))
    return Timeline(origin="measured", span_s=round(sample.makespan_s, _DIGITS), rows=tuple(rows))


def _rows(
    machine: Machine, flow: FlowEstimate, sample: FlowSample, origin: float, most: int
) -> list[TimelineRow]:
    """The setup and the hops of one flow."""
    rows = []
    begun = sample.moves[0].start if sample.moves else sample.end
    if sample.setup and begun > sample.start:
        slices = _slices([(sample.start, begun)], [0], origin, 1)
        rows.append(_row(slices, "setup", "setup", flow.name))
    services = services_of(machine, flow.schedule, sample)
    for number, (hop, own) in enumerate(zip(flow.hops, services, strict=True)):
        if own:
            sizes = sizes_of(flow.size_bytes * flow.repeat, len(own))
            slices = _slices(own, sizes, origin, most)
            rows.append(_row(slices, hop.resource, "hop", flow.name, number))
    return rows


def _slices(
    intervals: Sequence[Interval], sizes: Sequence[int], origin: float, most: int
) -> list[Slice]:
    found = merged(disjoint(intervals, sizes), most)
    return [s._replace(start=s.start - origin, end=s.end - origin) for s in found]


def _row(
    slices: Sequence[Slice], lane: str, kind: str, flow: str, hop: int | None = None
) -> TimelineRow:
    return row(slices, digits=_DIGITS, lane=lane, kind=kind, flow=flow, hop=hop)
