"""Numbers to places on a drawing: scales, ticks, and the small texts beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from planner.units import format_time


def ticks(span: float, most: int = 8) -> list[float]:
    """Round values from 0 up to `span`, at most `most` steps, each 1, 2 or 5 times a power of ten.

    >>> ticks(0.285, 6)
    [0.0, 0.05, 0.1, 0.15, 0.2, 0.25]
    """
    if not (span > 0 and math.isfinite(span)):
        return [0.0]
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * k for k in (1, 2, 5, 10) if power * k * most >= span)
    return [round(i * step, 12) for i in range(int(span / step * (1 + 1e-9)) + 1)]


def number(value: float) -> str:
    """A coordinate with at most two digits after the point.

    >>> number(12.0), number(0.126)
    ('12', '0.13')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def short_time(seconds: float) -> str:
    """A time for an axis: `50 ms`, without zeros that say nothing."""
    text, unit = format_time(seconds).split(" ")
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"


def polyline(points: Sequence[tuple[float, float]]) -> str:
    """The `d` of a path through points."""
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def step_of(share: float) -> int:
    """The colour step, 0 to 4, of a busy share."""
    return min(4, max(0, int(share * 5)))
