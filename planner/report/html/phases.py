"""Fill, steady and drain: when each flow's pipeline runs full."""

from __future__ import annotations

from dataclasses import dataclass

from planner.results import Estimate, Timeline
from planner.units import format_time


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase: its name, where it lies, and its time."""

    name: str
    x: int
    width: int
    time: str


@dataclass(frozen=True, slots=True)
class Phases:
    """The phases of one flow."""

    flow: str
    parts: tuple[Phase, ...]
    text: str


def phases(timeline: Timeline, estimate: Estimate, span: float, units: int) -> tuple[Phases, ...]:
    """The phases of every flow of the predicted timeline.

    A pipeline fills until its last hop begins to serve, and drains once its first hop has served
    all. Between repeats it does both again: told are the first fill and the last drain. A flow
    without setup may wait before its first byte: for its latency, or for a link that is taken.
    """
    found = []
    for flow in estimate.flows:
        hops = [r for r in timeline.rows if r.flow == flow.name and r.kind == "hop" and r.start_s]
        if not hops:
            continue
        begin = min(row.start_s[0] for row in hops)
        full = max(row.start_s[0] for row in hops)
        empty = max(full, min(row.end_s[-1] for row in hops))
        end = max(row.end_s[-1] for row in hops)
        before = "setup" if flow.setup else "wait"
        marks = [(before, flow.start_s, begin), ("fill", begin, full), ("steady", full, empty)]
        marks.append(("drain", empty, end))
        parts = tuple(
            Phase(
                name,
                round(a / span * units),
                max(1, round((b - a) / span * units)),
                format_time(b - a),
            )
            for name, a, b in marks
            if b > a
        )
        told = ", ".join(f"{part.name} {part.time}" for part in parts)
        found.append(Phases(flow.name, parts, told))
    return tuple(found)
