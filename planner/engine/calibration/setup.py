"""From what making memory ready took to a machine's figures: its setup, its device allocations."""

from __future__ import annotations

from collections.abc import Mapping as Table, Sequence
from typing import Final

from planner.engine.calibration.costs import PAGE
from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.statistics import Summary, middle, typical
from planner.machine.curve import Curve, Point
from planner.machine.schema import Setup

FREE: Final = 1e15
"""Bytes/s that stand for a call that does nothing: a petabyte in a second."""

BLOCK: Final = 2 << 20
"""Bytes of device memory that a driver maps at a time."""


def _rate(size: int, seconds: float) -> float:
    return min(FREE, size / seconds) if seconds > 0 else FREE


def setup_of(cells: Sequence[Cell]) -> Setup:
    """The block of the machine file from the cells of `costs.py` and of first flows."""
    own = {c.key[1:]: c for c in cells if isinstance(c.key, tuple) and c.key[0] == "setup"}
    seen: dict[str, tuple[int, Summary, float | None]] = {
        name: (size, cell.summary(), cell.second())
        for (name, size), cell in own.items()
        if size != PAGE and cell.taken and name not in ("workers", "wake")
    }
    latency, release = _calls(own, "register")
    rates = {name: _rate(size, found.median) for name, (size, found, _) in seen.items()}
    if "register" in seen:
        size, found, undone = seen["register"]
        latency, release = min(latency, found.median / 2), min(release, (undone or 0.0) / 2)
        rates["register"] = _rate(size, found.median - latency)
        rates["unregister"] = _rate(size, (undone or 0.0) - release)
    if "touch" in seen and (pinned := seen["touch"][2]) is not None:
        rates["register_ring"] = _rate(seen["touch"][0], pinned - min(latency, pinned / 2))
    if "ring" in seen and "register_ring" in rates:
        # Among the other steps of a flow the call's own part is longer than many times in a row.
        size, found, _ = seen["ring"]
        latency = max(latency, found.median - size / rates["register_ring"])
    allocation, _ = _calls(own, "host_alloc")
    if "host_alloc" in seen:
        size, found, _ = seen["host_alloc"]
        allocation = min(allocation, found.median / 2)
        rates["host_alloc"] = _rate(size, found.median - allocation)
    if "map" in seen:
        size, found, pinned = seen["map"]
        rates["map_touch"] = _rate(size, found.median)
        rates["register_file"] = _rate(size, found.median + (pinned or 0.0))
    mapped = own.get(("mmap", PAGE))
    start, worker = _teams(own)
    return Setup(
        touch_fresh=rates.get("fresh"),
        touch_recycled=rates.get("touch"),
        touch_worker=rates.get("touch_worker"),
        register_rate=rates.get("register"),
        register_ring=rates.get("register_ring"),
        register_latency=latency,
        unregister=rates.get("unregister"),
        unregister_latency=release,
        unregister_file=_undone(cells),
        register_file=rates.get("register_file"),
        host_alloc=rates.get("host_alloc"),
        host_alloc_latency=allocation,
        map_latency=mapped.summary().median if mapped is not None and mapped.taken else 0.0,
        map_touch=rates.get("map_touch"),
        start=start,
        worker=worker,
        lane=seen["lane"][1].median if "lane" in seen else 0.0,
        ready=seen["ready"][1].median if "ready" in seen else 0.0,
        ready_ring=seen["ready_ring"][1].median if "ready_ring" in seen else None,
        wake=_wake(own),
        spread=typical(found.spread for _, found, _ in seen.values()),
    )


def _calls(own: Table[tuple[object, ...], Cell], name: str) -> tuple[float, float]:
    """Seconds of a call about one page, and of undoing it; 0 where that was not sampled."""
    small = own.get((name, PAGE))
    if small is None or not small.taken:
        return 0.0, 0.0
    return small.summary().median, small.second() or 0.0


def _undone(cells: Sequence[Cell]) -> float | None:
    """Bytes/s of giving registered pieces of a file back, `None` where none were registered."""
    found = [
        cell.key[2] / seconds
        for cell in cells
        if isinstance(cell.key, tuple) and cell.key[:2] == ("register_ahead", "alone")
        if (seconds := cell.second())
    ]
    return middle(found) if found else None


def _teams(cells: Table[tuple[object, ...], Cell]) -> tuple[float, float]:
    """Seconds of a team of one, and of each further worker."""
    found = {
        int(size): cell.summary().median
        for (name, size), cell in cells.items()
        if name == "workers" and cell.taken and isinstance(size, int)
    }
    if not found:
        return 0.0, 0.0
    few, many = min(found), max(found)
    each = max(0.0, found[many] - found[few]) / max(1, many - few)
    return max(0.0, found[few] - (few - 1) * each), each


def _wake(cells: Table[tuple[object, ...], Cell]) -> float:
    """Seconds that each worker after the first adds until all are at it, by least squares."""
    found = {
        int(count) - 1: cell.summary().median
        for (name, count), cell in cells.items()
        if name == "wake" and cell.taken and isinstance(count, int)
    }
    if not found:
        return 0.0
    return sum(n * seconds for n, seconds in found.items()) / sum(n * n for n in found)


def allocation(cells: Sequence[Cell], gpu: int, *, real: bool) -> Curve | None:
    """Seconds of allocating device memory by bytes, `None` where that was not sampled.

    A `real` driver cuts small pieces out of a block that it keeps, so that one of 1 MiB takes 40 us
    once there is such a block. A flow's first finds none: of up to 2.3 MB they took 320 to 550 us
    (two machines of two H200s, measured 2026-11-30), as long as a block.
    """
    times: Table[int, float] = {
        c.key[2]: c.summary().median
        for c in cells
        if isinstance(c.key, tuple) and c.key[:2] == ("allocate", gpu) and c.taken
    }
    if not times:
        return None
    block = min((size for size in times if size >= BLOCK), default=None)
    if real and block is not None:
        whole = times[block]
        times = {s: max(t, whole) if s < block else t for s, t in times.items()}
    small, large = min(times), max(times)
    rate = _rate(max(1, large - small), max(times[large] - times[small], 1e-12))
    return Curve(
        points=tuple(Point(size_bytes=s, seconds=max(times[s], 1e-9)) for s in sorted(times)),
        latency=max(1e-9, min(times.values())),
        rate=rate,
    )
