"""What is said of the arrangements that were not taken when flows meet."""

from __future__ import annotations

from collections.abc import Sequence

from planner.model.arrange import Arrangement
from planner.model.choose import Candidate
from planner.model.needs import Demand
from planner.results import Rejected
from planner.units import format_time


def split_instead(single: Arrangement, demand: Demand, split: Arrangement) -> Rejected:
    """The best single way beside the split that was taken."""
    candidate = single.candidate
    duration = candidate.duration(demand.need.repeat)
    return _row(candidate, duration, f"one way alone is slower than {len(split.lanes)} at once")


def shared_instead(first: Arrangement, taken: Arrangement, demand: Demand) -> Rejected:
    """What would have been taken without the other flows."""
    duration = first.duration(demand.need.repeat)
    what = "copied on from where it is already" if taken.source else "shared with the other flows"
    reason = f"best alone with {format_time(duration)}, but the whole plan ends sooner when {what}"
    return _row(first.candidate, duration, reason)


def told_once(rejected: Sequence[Rejected]) -> tuple[Rejected, ...]:
    """Detours that differ in the names of equal places only are told once, with their number."""
    found: dict[tuple[object, ...], list[Rejected]] = {}
    for row in rejected:
        shape = row.chunk_bytes, row.depth, row.workers
        key = (row.strategies, len(row.route), shape, row.duration_s, row.reason)
        found.setdefault(key, []).append(row)
    return tuple(
        rows[0]
        if len(rows) == 1
        else rows[0].model_copy(
            update={"reason": f"{rows[0].reason}; so do {len(rows) - 1} routes alike"}
        )
        for rows in found.values()
    )


def _row(candidate: Candidate, duration: float, reason: str) -> Rejected:
    shape = max(candidate.shapes, key=lambda s: s.ring)
    return Rejected(
        strategies=candidate.way.names,
        route=candidate.way.places,
        chunk_bytes=shape.chunk,
        depth=shape.depth,
        workers=shape.workers,
        duration_s=duration,
        reason=reason,
    )
