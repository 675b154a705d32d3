"""The samples of a run as strips of dots: the spread, outliers, and the prediction beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from planner.results import FlowRun, Run
from planner.units import format_time
from planner.wording import counted

_FAR: Final = 3.5
"""Modified z-score beyond which a sample is an outlier: Iglewicz and Hoaglin, How to Detect and
Handle Outliers (1993)."""
_LEAST: Final = 0.04
"""Width of a strip at the least, as a share of the time."""
_NORMAL: Final = 0.6745
"""The median absolute deviation of a normal distribution, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Dot:
    """A sample: where it stands, what it took, and whether it lies apart."""

    x: str
    text: str
    outlier: bool


@dataclass(frozen=True, slots=True)
class Strip:
    """The samples of one flow."""

    flow: str
    dots: tuple[Dot, ...]
    median_x: str
    predicted_x: str
    predicted: str
    median: str
    spread: str
    least: str
    most: str
    p95: str
    first: str
    outliers: str
    cache: str
    verified: str
    numbers: str


@dataclass(frozen=True, slots=True)
class Samples:
    """All strips, and how the samples were taken."""

    strips: tuple[Strip, ...]
    how: str


def sample_plots(run: Run) -> Samples:
    """The strips of all flows."""
    how = (
        f"{counted(run.samples, 'sample')} after {run.warmup} warm-up run{'s' * (run.warmup != 1)}"
    )
    how += "; the first run of all, with setup, is told apart."
    return Samples(tuple(map(_strip, run.flows)), how)


def outliers(samples: Sequence[float]) -> list[bool]:
    """Which samples lie apart, by the median absolute deviation.

    >>> outliers([1.0, 1.01, 0.99, 1.0, 2.0])
    [False, False, False, False, True]
    """
    if len(samples) < 3:
        return [False] * len(samples)
    middle = median(samples)
    deviation = median(abs(s - middle) for s in samples)
    if deviation == 0:
        return [s != middle and abs(s - middle) > 1e-3 * middle for s in samples]
    return [_NORMAL * abs(s - middle) / deviation > _FAR for s in samples]


def _strip(flow: FlowRun) -> Strip:
    samples = flow.samples_s
    values = [*samples, flow.predicted_steady_s]
    low, high = min(values), max(values)
    # A scale of a few per cent at the least: noise must not look like a spread.
    room = max((high - low) * 0.08, (_LEAST * high - (high - low)) / 2) or 1.0
    low, high = max(0.0, low - room), high + room

    def x(value: float) -> str:
        return f"{100 * (value - low) / (high - low):.2f}%"

    apart = outliers(samples)
    dots = tuple(
        Dot(x(s), f"sample {i}: {format_time(s)}", odd)
        for i, (s, odd) in enumerate(zip(samples, apart, strict=True), start=1)
    )
    found = [str(i) for i, odd in enumerate(apart, start=1) if odd]
    verified = {True: "verified", False: "damaged", None: "not verified"}[flow.verified]
    return Strip(
        flow.name,
        dots,
        x(flow.steady_s),
        x(flow.predicted_steady_s),
        format_time(flow.predicted_steady_s),
        format_time(flow.steady_s),
        f"± {format_time(flow.spread_s)}",
        format_time(min(samples, default=0.0)),
        format_time(max(samples, default=0.0)),
        format_time(flow.p95_s),
        format_time(flow.first_s),
        f"sample {', '.join(found)}" if found else "none",
        flow.cache,
        verified,
        ", ".join(format_time(s) for s in samples[:40]),
    )
