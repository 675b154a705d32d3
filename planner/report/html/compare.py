"""Predicted beside measured: every step of every flow as a row with its bars."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner.report.flow import flow_groups
from planner.report.html.scales import number
from planner.report.words import (
    distance,
    error_mark,
    error_tone,
    error_words,
    hop_words,
    route_words,
)
from planner.results import Estimate, FlowEstimate, FlowRun, Run, SetupStep
from planner.units import format_rate, format_share, format_size, format_time

_WIDE = 1000.0
_FARTHEST = 3.0
"""Error factor at the ends of the scale; what is farther off ends there."""
_MANY = 8
"""Flows beyond which setup is told in the row of the first run alone."""
_WORTH = 1e-4
"""Seconds from which a step's error is told: below a tenth of a millisecond it is noise."""


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars of a row on three scales: pairs of a class and the path of a box, 1,000 by 22."""

    time: tuple[tuple[str, str], ...]
    share: tuple[tuple[str, str], ...]
    error: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table."""

    name: str
    about: str
    kind: str
    predicted: str
    measured: str
    share: str
    error: str
    tone: str
    rate: str
    bars: Bars


@dataclass(frozen=True, slots=True)
class Comparison:
    """One flow, or several that look alike."""

    name: str
    facts: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Step:
    """A row before it is drawn, in seconds."""

    name: str
    about: str
    kind: str
    predicted: float | None
    measured: float | None
    interval: tuple[float, float] | None = None
    range: tuple[float, float] | None = None
    rate: str = ""


def comparisons(estimate: Estimate, run: Run | None) -> tuple[Comparison, ...]:
    """All flows of a run; of an estimate those that look alike are shown once."""
    if run is None:
        groups = flow_groups(estimate.flows)
        many = len(groups) > _MANY
        return tuple(_of_estimate(flow, names, whole=many) for flow, names in groups)
    predicted = {flow.name: flow for flow in estimate.flows}
    many = len(run.flows) > _MANY
    found = [_of_run(flow, predicted.get(flow.name), whole=many) for flow in run.flows]
    blocks = [
        _Step(b.name, f"compute on {b.gpu}", "total", b.predicted_s, b.duration_s)
        for b in run.compute
    ]
    whole = _Step(
        "makespan",
        "first run of the whole plan",
        "total",
        run.predicted_makespan_s,
        run.makespan_s,
        interval=estimate.interval_s,
    )
    found.append(Comparison("Whole plan", "", _drawn([*blocks, whole])))
    return tuple(found)


def _of_estimate(flow: FlowEstimate, names: Sequence[str], *, whole: bool) -> Comparison:
    setup = () if whole else flow.setup
    steps = [_Step("setup", step.name, "setup", step.duration_s, None) for step in setup]
    steps += [
        _Step(
            hop_words(hop.hop),
            hop.hop.strategy,
            "hop",
            hop.busy_s,
            None,
            rate=format_rate(hop.rate_bytes_per_s) if hop.busy_s > 0 else "",
        )
        for hop in flow.hops
    ]
    steps.append(_Step("steady", "one repeat, hops overlapped", "total", flow.steady_s, None))
    first = flow.first_interval_s
    with_setup = _with_setup(flow.setup)
    steps.append(_Step("first", with_setup, "total", flow.first_s, None, interval=first))
    if flow.repeat > 1:
        about = f"{flow.repeat} repeats"
        step = _Step("duration", about, "total", flow.duration_s, None, interval=flow.interval_s)
        steps.append(step)
    notes = (f"likewise {', '.join(names[1:])}",) if len(names) > 1 else ()
    return Comparison(flow.name, _facts(flow), _drawn(steps), notes)


def _facts(flow: FlowEstimate | FlowRun) -> str:
    facts = [format_size(flow.size_bytes), route_words(flow.schedule)]
    if flow.repeat > 1:
        facts.append(f"{flow.repeat} times")
    if isinstance(flow, FlowEstimate) and flow.members > 1:
        facts.append(f"each of {flow.members}")
    cache = flow.cache if isinstance(flow, FlowRun) else flow.schedule.cache
    if cache != "none":
        facts.append(f"cache {cache}")
    return " · ".join(fact for fact in facts if fact)


def _of_run(flow: FlowRun, predicted: FlowEstimate | None, *, whole: bool) -> Comparison:
    expected = predicted.setup if predicted is not None else ()
    steps = [] if whole else list(_setup(flow.setup, expected))
    for hop in flow.hops:
        about, rate = hop.hop.strategy, ""
        if hop.busy_s > 0:
            rate = format_rate(hop.rate_bytes_per_s)
        steps.append(
            _Step(hop_words(hop.hop), about, "hop", hop.predicted_s, hop.busy_s, rate=rate)
        )
    spread = min(flow.samples_s, default=0.0), max(flow.samples_s, default=0.0)
    about = f"median of {len(flow.samples_s)}, ± {format_time(flow.spread_s)}"
    steps.append(
        _Step("steady", about, "total", flow.predicted_steady_s, flow.steady_s, range=spread)
    )
    interval = predicted.first_interval_s if predicted is not None else None
    about = _with_setup(flow.setup)
    steps.append(_Step("first", about, "total", flow.predicted_first_s, flow.first_s, interval))
    if flow.repeat > 1:
        interval = predicted.interval_s if predicted is not None else None
        about = f"{flow.repeat} repeats"
        step = _Step("duration", about, "total", flow.predicted_s, flow.duration_s, interval)
        steps.append(step)
    parts = tuple(
        f"{' → '.join(part.route)}: {format_share(part.share)} of the bytes, "
        f"predicted {format_share(part.predicted_share)}"
        for part in flow.parts
    )
    return Comparison(flow.name, _facts(flow), _drawn(steps), parts)


def _with_setup(setup: Sequence[SetupStep]) -> str:
    """What the first run has beyond a steady one."""
    seconds = sum(step.duration_s for step in setup if not step.overlapped)
    return f"with {format_time(seconds)} of setup" if seconds > 0 else "no setup"


def _setup(measured: Sequence[SetupStep], predicted: Sequence[SetupStep]) -> Iterable[_Step]:
    took = {step.name: step.duration_s for step in measured}
    expected = {step.name: step.duration_s for step in predicted}
    for name in dict.fromkeys([*expected, *took]):
        yield _Step("setup", name, "setup", expected.get(name), took.get(name))


def _drawn(steps: Sequence[_Step]) -> tuple[Line, ...]:
    """The rows with their bars, all on the scale of the longest."""
    ends = [t for s in steps for t in (s.predicted, s.measured, *(s.interval or ())) if t]
    longest = max([*ends, *(s.range[1] for s in steps if s.range)], default=0.0) or 1.0
    totals = [s for s in steps if s.kind == "total"]
    whole = totals[-1] if totals else None
    return tuple(_line(step, longest, whole) for step in steps)


def _line(step: _Step, longest: float, whole: _Step | None) -> Line:
    predicted, measured = step.predicted, step.measured
    known = bool(predicted) and measured is not None and measured > 0
    worth = known and max(predicted or 0.0, measured or 0.0) >= _WORTH
    factor = (measured or 0.0) / (predicted or 1.0) if worth else 1.0
    share = _share(predicted, whole.predicted if whole else None)
    own = _share(measured, whole.measured if whole else None)
    told = own if measured is not None and own is not None else share
    bars = Bars(
        (
            *_pair(predicted, measured, longest),
            *_span("i", step.interval, longest, (0, 12)),
            *_span("w", step.range, longest, (15, 2)),
        ),
        _pair(share, own, 1.0),
        _off(factor) if worth else (),
    )
    return Line(
        step.name,
        step.about,
        step.kind,
        format_time(predicted) if predicted is not None else "–",
        format_time(measured) if measured is not None else "–",
        format_share(told) if told is not None else "–",
        f"{error_words(factor)} {error_mark(factor)}".strip() if worth else "",
        error_tone(factor) if worth else "plain",
        step.rate,
        bars,
    )


def _share(part: float | None, whole: float | None) -> float | None:
    return min(1.0, part / whole) if part is not None and whole else None


def _pair(
    predicted: float | None, measured: float | None, longest: float
) -> tuple[tuple[str, str], ...]:
    """The two bars, one above the other; a lone one is higher."""
    high = 12 if measured is None else 8
    first = _span("p", (0.0, predicted or 0.0), longest, (2, high))
    return (*first, *_span("m", (0.0, measured or 0.0), longest, (12, 8)))


def _span(
    kind: str, span: tuple[float, float] | None, longest: float, rows: tuple[int, int]
) -> tuple[tuple[str, str], ...]:
    """The box of a span, unless it is empty."""
    if span is None or span[0] >= span[1]:
        return ()
    x, width = _WIDE * span[0] / longest, _WIDE * (span[1] - span[0]) / longest
    return ((kind, _box(x, width, rows)),)


def _box(x: float, width: float, rows: tuple[int, int]) -> str:
    top, high = rows
    return f"M{number(x)} {top}h{number(width)}v{high}h-{number(width)}z"


def _off(factor: float) -> tuple[tuple[str, str], ...]:
    """The bar of an error: to the right of the middle where it took longer."""
    reach = min(1.0, math.log(distance(factor)) / math.log(_FARTHEST)) * _WIDE / 2
    start = _WIDE / 2 if factor >= 1 else _WIDE / 2 - reach
    return (("m", _box(start, reach, (5, 12))),)
