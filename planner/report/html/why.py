"""Why this schedule: what was chosen, what was not and why not, and the arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from planner.report.flow import flow_groups
from planner.report.html.scales import number
from planner.report.words import chunk_words, limit_words, reason_words
from planner.results import Estimate, FlowEstimate, Hop, Rejected
from planner.units import format_size, format_time

_SHOWN: Final = 6
_MOST: Final = 14
"""Rejected candidates that a flow shows; those behind are slower or of the same reasons."""
_ALL: Final = 32
"""Rejected candidates that a page shows, over all flows."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way: what it is, its time and why it was not chosen (or that it was)."""

    ways: str
    route: str
    shape: str
    time: str
    width: str
    factor: str
    reason: str
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Reason:
    """One flow, or several that look alike."""

    flow: str
    likewise: int
    limit: str
    flat: str
    chosen: Candidate
    near: tuple[Candidate, ...]
    far: tuple[Candidate, ...]
    left_out: int
    arithmetic: tuple[str, ...]


def reasons(estimate: Estimate) -> tuple[Reason, ...]:
    """The reasons of every flow."""
    groups = flow_groups(estimate.flows)
    most = max(1, min(_MOST, _ALL // max(1, len(groups))))
    return tuple(_reason(flow, names, estimate, most) for flow, names in groups)


def _reason(flow: FlowEstimate, names: Sequence[str], estimate: Estimate, most: int) -> Reason:
    ordered = sorted(
        flow.rejected, key=lambda r: float("inf") if r.duration_s is None else r.duration_s
    )
    own = flow.alone_s if flow.alone_s is not None else flow.duration_s
    shown = ordered[:most]
    times = [r.duration_s for r in shown if r.duration_s is not None]
    longest = max([own, *times], default=own) or 1.0
    candidates = tuple(_candidate(r, own, longest) for r in shown)
    return Reason(
        flow=flow.name,
        likewise=len(names) - 1,
        limit=limit_words(flow.bottleneck, estimate.machine),
        flat=flow.flat or "",
        chosen=_chosen(flow, own, longest),
        near=candidates[:_SHOWN],
        far=candidates[_SHOWN:],
        left_out=len(ordered) - len(shown),
        arithmetic=flow.arithmetic,
    )


def _chosen(flow: FlowEstimate, own: float, longest: float) -> Candidate:
    hops = flow.schedule.hops
    route = " → ".join([hops[0].start, *(hop.end for hop in hops)]) if hops else ""
    if flow.schedule.parts:
        route = f"{len(flow.schedule.parts)} ways at once"
    return Candidate(
        " + ".join(hop.strategy for hop in hops) or "nothing to do",
        route,
        _shape(hops, flow.size_bytes),
        format_time(own),
        number(1000 * own / longest),
        "",
        "chosen",
        chosen=True,
    )


def _shape(hops: Sequence[Hop], size: int) -> str:
    shapes = dict.fromkeys(
        f"{chunk_words(hop, size)} × {hop.depth} × {hop.workers}" for hop in hops
    )
    return ", ".join(shapes)


def _candidate(rejected: Rejected, own: float, longest: float) -> Candidate:
    time = rejected.duration_s
    shape = ""
    if rejected.chunk_bytes:
        chunk = format_size(rejected.chunk_bytes)
        shape = f"{chunk} × {rejected.depth or 1} × {rejected.workers or 1}"
    return Candidate(
        " + ".join(rejected.strategies) or "–",
        " → ".join(rejected.route),
        shape,
        format_time(time) if time is not None else "not possible",
        number(1000 * time / longest) if time is not None else "0",
        f"{time / own:.2f}×" if time is not None and own > 0 else "",
        reason_words(rejected),
    )
