"""Queued copies that joint runs prove to be faster than their curve says.

The curve is of a short batch in one stream, after a pause. In a run the streams of many workers
hide a part of what lies between two copies: 1,536 chunks of 4 MiB took 81 us each on one H200,
beside 84.5 us of the curve and 76 of the wire (measured 2026-11-29).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from planner.machine.curve import Curve, Point
from planner.machine.schema import Direction, Machine

Side = Literal["forward", "backward"]
"""Into the GPUs, and out of them: the links of a calibration begin at the host."""


def proved(machine: Machine, seen: Mapping[tuple[Side, int], float]) -> Machine:
    """The machine whose queued copies of a size take no longer than was seen.

    Parameters
    ----------
    machine
        With the curves as their own cells gave them.
    seen
        Seconds of a chunk in runs over the first GPU's link, by direction and bytes. What they
        save is saved on the links of the others too: it is a matter of streams, not of wires.

    """
    first = machine.links.get("pcie0")
    if first is None:
        return machine
    links = dict(machine.links)
    for (side, size), seconds in seen.items():
        known = _queued(getattr(first, side))
        saved = 0.0 if known is None else known.service(size) - seconds
        if saved <= 0:
            continue
        for name, link in links.items():
            own: Direction | None = getattr(link, side)
            curve = _queued(own) if link.kind == "pcie" else None
            if own is None or curve is None:
                continue
            curves = {**own.curves, "pinned": _quicker(curve, size, saved)}
            direction = own.model_copy(update={"curves": curves})
            links[name] = link.model_copy(update={side: direction})
    return machine.model_copy(update={"links": links})


def _queued(direction: Direction | None) -> Curve | None:
    """The curve of pinned copies, if copies in a queue were measured."""
    curve = None if direction is None else direction.curves.get("pinned")
    return curve if curve is not None and curve.queued else None


def _quicker(curve: Curve, size: int, saved: float) -> Curve:
    """The curve with another point for copies of that size in a queue, never above the wire."""
    seconds = max(size / curve.rate, curve.service(size) - saved)
    others = [point for point in curve.queued if point.size_bytes != size]
    points = sorted([*others, Point(size_bytes=size, seconds=seconds)], key=lambda p: p.size_bytes)
    return curve.model_copy(update={"queued": tuple(points)})
