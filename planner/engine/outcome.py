"""From samples to a `Run`: medians, busy times of the hops, errors against the prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from planner.engine.flow_sample import FlowSample
from planner.engine.lines import all_hops, groups_of
from planner.engine.measure import Interval, middle, quantile, spread, union
from planner.engine.strategies import stages_of_hops
from planner.machine.schema import Machine
from planner.model.cover import Cover
from planner.plan.schema import Plan
from planner.results import (
    CacheState,
    ComputeRun,
    Estimate,
    FlowEstimate,
    FlowRun,
    FlowSchedule,
    Hop,
    HopRun,
    PartRun,
)


@dataclass(frozen=True, slots=True)
class FlowRecord:
    """What was collected of one flow: its first sample of all, the measured ones, and its state."""

    first: FlowSample
    samples: tuple[FlowSample, ...]
    cache: CacheState
    verified: bool | None
    pinned_bytes: int
    covers: tuple[Cover, ...] = ()
    """When compute blocks ran in each of the samples."""


def flow_run(machine: Machine, predicted: FlowEstimate, record: FlowRecord) -> FlowRun:
    """The result of one flow."""
    exposed, moving = _exposed(record)
    steadies = [sample.steady_s for sample in record.samples]
    steady, first = middle(steadies), record.first.first_s
    duration = first + (predicted.repeat - 1) * steady
    interval = predicted.interval_s
    return FlowRun(
        name=predicted.name,
        size_bytes=predicted.size_bytes,
        repeat=predicted.repeat,
        schedule=predicted.schedule,
        samples_s=tuple(steadies),
        first_s=first,
        steady_s=steady,
        spread_s=spread(steadies),
        p50_s=quantile(steadies, 0.5),
        p95_s=quantile(steadies, 0.95),
        duration_s=duration,
        setup=record.first.setup,
        rate_bytes_per_s=_ratio(predicted.size_bytes, steady),
        predicted_s=predicted.duration_s,
        predicted_first_s=predicted.first_s,
        predicted_steady_s=predicted.steady_s,
        error_factor=_ratio(duration, predicted.duration_s),
        steady_error_factor=_ratio(steady, predicted.steady_s),
        first_error_factor=_ratio(first, predicted.first_s),
        inside_interval=None if interval is None else interval[0] <= duration <= interval[1],
        hops=_hops(machine, predicted, record.samples),
        parts=_parts(predicted.schedule, record.samples),
        cache=record.cache,
        verified=record.verified,
        pinned_bytes=record.pinned_bytes,
        exposed_s=exposed,
        hidden_share=1 - exposed / moving if moving > 0 else 0.0,
        predicted_exposed_s=predicted.exposed_s,
        predicted_hidden_share=predicted.hidden_share,
    )


def _exposed(record: FlowRecord) -> tuple[float, float]:
    """Seconds in which a repeat was under way and no compute block ran, and all such: medians."""
    covers = record.covers or (Cover(()),) * len(record.samples)
    turns = [sample.turns() for sample in record.samples]
    exposed = [
        sum(cover.exposed(*turn) for turn in own) for own, cover in zip(turns, covers, strict=True)
    ]
    return middle(exposed), middle([sum(end - start for start, end in own) for own in turns])


def compute_runs(
    plan: Plan, estimate: Estimate, samples: Sequence[Mapping[str, Sequence[Interval]]]
) -> tuple[ComputeRun, ...]:
    """The result of every compute block of the plan, from its runs in each sample."""
    found = []
    for predicted in estimate.compute:
        name = predicted.name
        took = middle([sample[name][-1][1] - sample[name][0][0] for sample in samples])
        found.append(
            ComputeRun(
                name=name,
                gpu=predicted.gpu,
                repeat=plan.compute[name].repeat,
                duration_s=took,
                predicted_s=predicted.duration_s,
                error_factor=_ratio(took, predicted.duration_s),
            )
        )
    return tuple(found)


def cover_of(compute: Mapping[str, Sequence[Interval]]) -> Cover:
    """The time in which any compute block ran in a sample."""
    return Cover(run for runs in compute.values() for run in runs)


def _hops(
    machine: Machine, predicted: FlowEstimate, samples: Sequence[FlowSample]
) -> tuple[HopRun, ...]:
    """Each hop's busy time: the median over the samples."""
    busy = [_busy(machine, predicted.schedule, sample) for sample in samples]
    sizes = _sizes(predicted, samples)
    found = []
    for k, hop in enumerate(predicted.hops):
        seconds = middle([row[k] for row in busy])
        found.append(
            HopRun(
                hop=hop.hop,
                resource=hop.resource,
                predicted_s=hop.busy_s,
                busy_s=seconds,
                error_factor=_ratio(seconds, hop.busy_s),
                rate_bytes_per_s=_ratio(sizes[k], seconds),
                predicted_rate_bytes_per_s=hop.rate_bytes_per_s,
            )
        )
    return tuple(found)


def _busy(machine: Machine, schedule: FlowSchedule, sample: FlowSample) -> list[float]:
    """Busy seconds of each hop of all ways in one repeat: of its engine, else of its last stage."""
    movements = max(1, len(groups_of(schedule)))
    repeats = max(1, len(sample.moves) // movements)
    services = services_of(machine, schedule, sample)
    return [union(own) / repeats for own in services]


def services_of(
    machine: Machine, schedule: FlowSchedule, sample: FlowSample
) -> list[list[Interval]]:
    """When each hop of all ways served, in all repeats: its engine, else its last stage."""
    movements = groups_of(schedule)
    found: dict[int, list[Interval]] = {}
    for at, routes in enumerate(movements):
        moves = sample.moves[at :: len(movements)]
        stages = iter(zip(*(move.intervals for move in moves), strict=True))
        rows = [row for group in routes for row in _kinds(machine, group)]
        for hop, own in rows:
            served = [(kind, list(chain(*next(stages)))) for kind in own]
            engines = [intervals for kind, intervals in served if kind != "pool"]
            last = (engines or [intervals for _, intervals in served])[-1:]
            # Nothing for a mapping that is copied from in place.
            found[id(hop)] = [interval for intervals in last for interval in intervals]
    # A hop that is not among them is a mapping, which moves nothing by itself.
    return [found.get(id(hop), []) for hop in all_hops(schedule)]


def _kinds(machine: Machine, group: Sequence[Hop]) -> list[tuple[Hop, list[str]]]:
    """The kinds of stages of each of the hops that run together."""
    found = zip(group, stages_of_hops(machine, group), strict=True)
    return [(hop, [stage.kind for stage in own]) for hop, own in found]


def _sizes(predicted: FlowEstimate, samples: Sequence[FlowSample]) -> list[float]:
    """Bytes that crossed each hop in one repeat."""
    schedule, size = predicted.schedule, predicted.size_bytes
    if not schedule.parts:
        return [size] * len(schedule.hops)
    shares = _parts(schedule, samples)
    pairs = zip(schedule.parts, shares, strict=True)
    return [own.share * size for part, own in pairs for _ in part.hops]


def _parts(schedule: FlowSchedule, samples: Sequence[FlowSample]) -> tuple[PartRun, ...]:
    """Each way of a split flow: the median of the shares that it took from the common queue."""
    if not schedule.parts:
        return ()
    taken = [
        [sum(column) / sum(map(sum, rows)) for column in zip(*rows, strict=True)]
        for rows in ([move.shares for move in sample.moves] for sample in samples)
        if sum(map(sum, rows))
    ]
    total = max(1, schedule.size_bytes)
    return tuple(
        PartRun(
            route=(part.hops[0].start, *(hop.end for hop in part.hops)),
            predicted_share=part.share_bytes / total,
            share=middle([row[k] for row in taken]) if taken else 0.0,
        )
        for k, part in enumerate(schedule.parts)
    )


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else 0.0
