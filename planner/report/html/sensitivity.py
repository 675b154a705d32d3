"""Sensitivity: the makespan against each link's rate, what doubling gives, and slack."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from planner.report.html.scales import number, polyline, short_time, ticks
from planner.report.words import resource_words
from planner.results import Estimate
from planner.review.study import Sensitivity
from planner.units import format_rate, format_time

_BOX: Final = (1040.0, 270.0)
_MARGIN: Final = (64.0, 16.0, 210.0, 40.0)
"""Left, top, right and bottom of the plot."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One link: its line, and the same in figures."""

    name: str
    rate: str
    path: str
    dots: tuple[tuple[str, str, str], ...]
    colour: int
    label_y: str
    label: str
    times: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Twice:
    """What a resource twice as fast gives."""

    name: str
    makespan: str
    gain: str
    width: str


@dataclass(frozen=True, slots=True)
class Sensitivities:
    """The chart, its axes, and the tables."""

    curves: tuple[Curve, ...]
    factors: tuple[tuple[str, str], ...]
    levels: tuple[tuple[str, str], ...]
    here: tuple[str, str]
    box: tuple[int, int]
    plot: tuple[str, str, str, str]
    twice: tuple[Twice, ...]


def sensitivity(estimate: Estimate, curves: Sequence[Sensitivity]) -> Sensitivities:
    """The chart of the links' rates, and what doubling each resource gives."""
    left, top, right, bottom = _MARGIN
    (wide, high), span = _BOX, estimate.makespan_s
    x0, x1, y0, y1 = left, wide - right, high - bottom, top
    most = max([span, *(t for c in curves for _, t in c.points)], default=span) or 1.0
    factors = [f for f, _ in curves[0].points] if curves else []

    def x(factor: float) -> float:
        low, far = math.log(factors[0]), math.log(factors[-1])
        return x0 + (math.log(factor) - low) / (far - low) * (x1 - x0)

    def y(seconds: float) -> float:
        return y0 - seconds / most * (y0 - y1) * 0.96

    drawn = tuple(
        Curve(
            resource_words(curve.resource, estimate.machine),
            format_rate(curve.rate_bytes_per_s),
            polyline([(x(f), y(t)) for f, t in curve.points]),
            tuple(
                (number(x(f)), number(y(t)), f"{f:g}× the rate: {format_time(t)}")
                for f, t in curve.points
            ),
            i % 6,
            "",
            curve.resource,
            tuple(format_time(t) for _, t in curve.points),
        )
        for i, curve in enumerate(curves)
    )
    levels = ticks(most, 5)
    return Sensitivities(
        drawn,
        tuple((number(x(f)), f"{f:g}×") for f in factors),
        tuple((number(y(t)), short_time(t)) for t in levels) if curves else (),
        (number(x(1.0)), number(y(span))) if curves else ("0", "0"),
        (round(wide), round(high)),
        (number(x0), number(x1), number(y0), number(y1)),
        tuple(_twice(estimate)),
    )


def _twice(estimate: Estimate) -> list[Twice]:
    span = estimate.makespan_s
    rows = []
    for what in estimate.what_if[:12]:
        gain = 1 - what.makespan_s / span if span > 0 else 0.0
        told = f"{gain * 100:.1f} % less" if gain >= 0.0005 else "no change"
        name = resource_words(what.resource, estimate.machine)
        rows.append(
            Twice(
                f"{name} × {what.factor:g}",
                format_time(what.makespan_s),
                told,
                number(1000 * max(0.0, gain)),
            )
        )
    return rows
