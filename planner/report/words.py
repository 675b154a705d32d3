"""The phrases and small formats that all pages share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.report.style import Tone
from planner.results import Bottleneck, Cause, FlowSchedule, Hop, ObjectiveResult, Rejected
from planner.units import format_rate, format_share, format_size, format_time

CAUSES: Final[dict[Cause, str]] = {
    "bandwidth": "its bandwidth",
    "latency": "its latency",
    "queue_depth": "too few requests in flight",
    "issue_overhead": "the cost of issuing copies",
    "page_faults": "page faults",
    "host_copy": "the copy by the CPU",
    "serial_stages": "stages that wait for each other",
    "peer_path": "the path between the peers",
    "capacity": "its capacity",
    "cipher": "encryption",
    "compute": "computation",
    "setup": "setup before the first byte",
}
"""What each cause of a bottleneck is called in a sentence."""

# From 1.1x a reader should look, from 1.5x the prediction is poor, from 3x it is of no use.
_MARKS: Final = ((3.0, "!!!"), (1.5, "!!"), (1.1, "!"))
SAME: Final = 1.005
"""Factors below this print as 1.00: no direction is claimed for them."""


def distance(factor: float) -> float:
    """How far a factor is from 1, either way."""
    return max(factor, 1 / factor) if factor > 0 else float("inf")


def error_words(factor: float) -> str:
    """Measured by predicted, always from 1 up, with its direction spelled out.

    >>> error_words(1.07), error_words(0.5), error_words(1.001)
    ('1.07× slower', '2.00× faster', 'as predicted')
    """
    if distance(factor) < SAME:
        return "as predicted"
    return f"{distance(factor):.2f}× {'slower' if factor > 1 else 'faster'}"


def error_mark(factor: float) -> str:
    """Nothing below 1.1×, then `!`, `!!` from 1.5× and `!!!` from 3×, either way."""
    return next((mark for least, mark in _MARKS if distance(factor) >= least), "")


def error_tone(factor: float) -> Tone:
    """The colour that goes with `error_mark`."""
    mark = error_mark(factor)
    return "plain" if not mark else "warn" if mark == "!" else "bad"


def hop_words(hop: Hop) -> str:
    """`disk0 → host0`."""
    return f"{hop.start} → {hop.end}"


def route_words(schedule: FlowSchedule) -> str:
    """`disk0 → host0 → gpu0`; of several ways at once `host0 → gpu0 and host0 → gpu1 → gpu0`."""
    ways = [part.hops for part in schedule.parts] or [schedule.hops]
    return " and ".join(
        " → ".join([hops[0].start, *(hop.end for hop in hops)]) for hops in ways if hops
    )


def resource_words(resource: str, machine: Mapping[str, Any]) -> str:
    """A resource as people see it: `pcie0 (host0 → gpu0)`.

    >>> resource_words("host0.copy", {})
    'host0 (CPU copies)'
    """
    owner, _, part = resource.partition(".")
    link = machine.get("links", {}).get(owner)
    if link is not None and part in ("forward", "backward"):
        start, end = link["ends"] if part == "forward" else reversed(link["ends"])
        return f"{owner} ({start} → {end})"
    meaning = {"copy": "CPU copies", "dispatch": "issuing chunks"}.get(part)
    return f"{owner} ({meaning})" if meaning else resource


def limit_words(limit: Bottleneck, machine: Mapping[str, Any]) -> str:
    """`pcie0 (host0 → gpu0): its bandwidth`, or `nothing` where nothing moves."""
    if limit.resource == "none":
        return "nothing"
    return f"{resource_words(limit.resource, machine)}: {CAUSES[limit.cause]}"


def ways_words(rejected: Rejected) -> str:
    """`buffered + pinned`, or the route where no strategy was found for it."""
    return " + ".join(rejected.strategies) or " → ".join(rejected.route)


def reason_words(rejected: Rejected) -> str:
    """Why a candidate was not chosen, without its only strategy's name in front once more."""
    return rejected.reason.removeprefix(f"{ways_words(rejected)}: ").rstrip(". ")


def chunk_words(hop: Hop, size_bytes: int) -> str:
    """The chunk, or `whole` for one single copy."""
    return "whole" if hop.chunk_bytes >= size_bytes else format_size(hop.chunk_bytes)


def interval_words(interval: tuple[float, float] | None) -> str:
    """` (1.850 – 2.270 s)`, or nothing where no spread is known."""
    if interval is None:
        return ""
    low, high = (format_time(seconds) for seconds in interval)
    if low == high:
        return ""
    number, unit = low.split(" ")
    return f" ({number if high.endswith(' ' + unit) else low} – {high})"


def quantity(value: float, unit: str) -> str:
    """A metric's value as people read it."""
    match unit:
        case "s":
            return format_time(value)
        case "bytes":
            return format_size(round(value))
        case "bytes_per_s":
            return format_rate(value)
        case "share":
            return format_share(value)
        case "factor":
            return f"{value:.2f}×"
        case _:
            return f"{value:.4g}"


def objective_mark(objective: ObjectiveResult) -> tuple[str, Tone]:
    """✓ met, ✗ missed, ? not known to this result."""
    if objective.passed is None:
        return "?", "warn"
    return ("✓", "good") if objective.passed else ("✗", "bad")


def value_or_why(objective: ObjectiveResult, unknown: str) -> str:
    """The value of the metric, or why there is none; `unknown` says so of this kind of result."""
    if objective.value is not None:
        return quantity(objective.value, objective.unit)
    if objective.metric == "cost":
        return "the machine states no cost"
    if objective.unit == "share" and objective.metric.endswith((".peak", ".pinned")):
        return "the machine states no capacity"
    return unknown


def margin_words(objective: ObjectiveResult) -> str:
    """`margin 17.6 %`, or by how much the limit is passed: `3.0 % over`."""
    if objective.margin is None:
        return ""
    if objective.passed:
        return f"margin {objective.margin * 100:.1f} %"
    side = "over" if (objective.value or 0.0) > objective.limit else "under"
    return f"{abs(objective.margin) * 100:.1f} % {side}"
