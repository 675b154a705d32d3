"""How one flow, one hop, one time changed: the parts of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planner.results import Hop
from planner.results.diff import Direction, FlowChange, HopChange, Judged, Kind, TimeChange
from planner.review.noise import Interval, Once, lone, shift, shift_from
from planner.review.view import FlowView, HopView, View

_SETTINGS: Final = {
    "link": "link",
    "strategy": "strategy",
    "chunk_bytes": "chunk",
    "depth": "depth",
    "workers": "workers",
    "coupled": "coupled",
}
"""What is chosen for a hop, by its key in a schedule, and what people call it."""
_ROUNDING: Final = 1e-9
"""Times closer than this share of them differ by the order of additions alone."""


def time_change(
    metric: str,
    before: float | None,
    after: float | None,
    noise: Interval | None = None,
    judged: Judged = "exact",
) -> TimeChange:
    """The change of one time, in seconds; `noise` is the interval of its difference."""
    if before is None or after is None:
        return TimeChange(metric=metric, before_s=before, after_s=after)
    difference = after - before
    if judged != "exact" and noise is None:
        judged = "too_few"
    return TimeChange(
        metric=metric,
        before_s=before,
        after_s=after,
        difference_s=difference,
        share=difference / before if before > 0 else None,
        noise_s=None if noise is None else (noise.low, noise.high),
        direction=_direction(difference, max(before, after), noise),
        judged=judged,
    )


def _direction(difference: float, size: float, noise: Interval | None) -> Direction:
    if abs(difference) <= _ROUNDING * size:
        return "same"
    # Medians may lean one way and the ranks of all samples the other: then nothing is claimed.
    if noise is not None and not (noise.low > 0 < difference or noise.high < 0 > difference):
        return "noise"
    return "slower" if difference > 0 else "faster"


def makespan_change(before: View, after: View) -> TimeChange:
    """The makespan: a first run where it was measured."""
    difference = after.makespan_s - before.makespan_s
    sides = [side for side in (before, after) if side.measured]
    own = [Once(side.makespan_s, side.makespan_samples) for side in sides]
    judged: Judged = "first_run" if own else "exact"
    noise = lone(difference, *own)
    return time_change("makespan", before.makespan_s, after.makespan_s, noise, judged)


def flow_change(name: str, before: View, after: View) -> FlowChange:
    """The change of the flow `name`, which at least one of them has."""
    a, b = before.flows.get(name), after.flows.get(name)
    steady, times = _times(a, b)
    hops = _hops(a, b, steady, exact=not (before.measured or after.measured))
    inside = None
    if a is not None and b is not None and a.interval_s is not None and after.measured:
        inside = a.interval_s[0] <= b.duration_s <= a.interval_s[1]
    return FlowChange(
        name=name,
        kind=_flow_kind(a, b, times, hops),
        size_before_bytes=a.size_bytes if a else None,
        size_after_bytes=b.size_bytes if b else None,
        route_before=_route(a),
        route_after=_route(b),
        times=times,
        hops=hops,
        bottleneck_before=a.bottleneck if a else None,
        bottleneck_after=b.bottleneck if b else None,
        inside_interval=inside,
    )


def _flow_kind(
    a: FlowView | None,
    b: FlowView | None,
    times: Sequence[TimeChange],
    hops: Sequence[HopChange],
) -> Kind:
    if a is None or b is None:
        return "added" if a is None else "removed"
    quiet = all(change.direction in ("same", "noise") for change in times)
    same = (a.size_bytes, a.repeat) == (b.size_bytes, b.repeat)
    alike = same and all(hop.kind == "unchanged" for hop in hops)
    return "unchanged" if quiet and alike else "changed"


def _route(flow: FlowView | None) -> tuple[str, ...]:
    hops = flow.schedule.hops if flow else ()
    return (hops[0].start, *(hop.end for hop in hops)) if hops else ()


def _times(
    a: FlowView | None, b: FlowView | None
) -> tuple[Interval | None, tuple[TimeChange, ...]]:
    """The interval of the steady time's difference; and the changes of all three times."""
    if a is None or b is None:
        return None, tuple(
            time_change(name, getattr(a, f"{name}_s", None), getattr(b, f"{name}_s", None))
            for name in ("duration", "first", "steady")
        )
    own = [Once(flow.first_s, flow.samples) for flow in (a, b) if flow.samples]
    first = lone(b.first_s - a.first_s, *own)
    steady = _steady(a, b)
    duration = None
    if first is not None and steady is not None:
        # setup once and the first repeat, then repeat - 1 steady ones
        half = first.half + (max(a.repeat, b.repeat) - 1) * steady.half
        difference = b.duration_s - a.duration_s
        duration = Interval(difference - half, difference + half)
    sampled: Judged = "samples" if own else "exact"
    once: Judged = "first_run" if own else "exact"
    return steady, (
        time_change("duration", a.duration_s, b.duration_s, duration, once),
        time_change("first", a.first_s, b.first_s, first, once),
        time_change("steady", a.steady_s, b.steady_s, steady, sampled),
    )


def _steady(a: FlowView, b: FlowView) -> Interval | None:
    if a.samples and b.samples:
        return shift(a.samples, b.samples)
    if b.samples:
        return shift_from(a.steady_s, b.samples)
    if a.samples:
        found = shift_from(b.steady_s, a.samples)
        return None if found is None else Interval(-found.high, -found.low)
    return None


def _hops(
    a: FlowView | None, b: FlowView | None, steady: Interval | None, *, exact: bool
) -> tuple[HopChange, ...]:
    """Every hop of either, in the order of A, then those that only B has."""
    before, after = a.hops if a else {}, b.hops if b else {}
    return tuple(
        _hop(key[:2], before.get(key), after.get(key), steady, exact=exact)
        for key in dict.fromkeys([*before, *after])
    )


def _hop(
    ends: tuple[str, str],
    a: HopView | None,
    b: HopView | None,
    steady: Interval | None,
    *,
    exact: bool,
) -> HopChange:
    settings = _settings(a.hop, b.hop) if a and b else ()
    kind: Kind = "added" if a is None else "removed" if b is None else "unchanged"
    noise = None
    if steady is not None and a and b:
        # The samples of a hop are not kept; it is part of the flow's time and varies with it.
        difference = b.busy_s - a.busy_s
        noise = Interval(difference - steady.half, difference + steady.half)
    busy = time_change(
        "busy",
        a.busy_s if a else None,
        b.busy_s if b else None,
        noise,
        "exact" if exact else "like_flow",
    )
    if a and b and (settings or busy.direction in ("faster", "slower")):
        kind = "changed"
    return HopChange(
        start=ends[0],
        end=ends[1],
        kind=kind,
        before=a.hop if a else None,
        after=b.hop if b else None,
        settings=settings,
        busy=busy,
    )


def _settings(a: Hop, b: Hop) -> tuple[str, ...]:
    return tuple(name for key, name in _SETTINGS.items() if getattr(a, key) != getattr(b, key))
