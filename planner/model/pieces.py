"""Many small pieces of a file: what it would cost to take them one by one.

The pieces of a file lie in one range, so the way that is chosen reads that range in chunks, gathers
nothing and hands out views. A reader who thinks of tensors asks what a read and a copy for each of
them would take: that is told, never chosen.
"""

from __future__ import annotations

from planner.model.need import Need
from planner.model.pipeline import exact
from planner.model.strategies import Shape
from planner.model.strategies.base import RINGS
from planner.model.ways import Way
from planner.results import Rejected
from planner.units import format_time

MOST = 4096
"""Pieces that are followed one by one; of more, as many of the same mix, and the time scaled."""


def piece_by_piece(need: Need, way: Way, best: float) -> list[Rejected]:
    """The chosen way with one read and one copy for each piece, where it leads out of a file.

    Parameters
    ----------
    need
        The flow, with its pieces.
    way
        The way that was chosen for it.
    best
        Seconds that the chosen way takes in chunks.

    """
    count = sum(n for _, n in need.pieces)
    if need.first != "file" or count < 2 or way.crossings[0].after not in RINGS:
        return []
    movement = way.movements[0]
    workers = max(1, min(need.cores, count))
    biggest = need.pieces[0][0]
    # One slot a worker, each as large as the largest piece.
    if workers * biggest > need.pinned_budget:
        workers = max(1, need.pinned_budget // max(1, biggest))
    share = min(1.0, MOST / count)
    sample = [size for size, n in need.pieces for _ in range(max(1, round(n * share)))]
    scale = need.size / max(1, sum(sample))
    typical = Shape(max(1, need.size // count), 1, workers)
    moved = exact(movement.stages(typical), sample, workers, 1).total_s * scale
    calls = count * movement.crossings[0].ram.issue
    steady = max(moved, calls) + movement.tail
    seconds = sum(s.duration_s for s in movement.setup(typical)) + need.repeat * steady
    later = f"takes {format_time(seconds - best)} longer" if seconds > best else "saves nothing"
    reason = (
        f"one read and one copy for each of {count} pieces {later}: the file's range as it lies "
        "needs no gathering"
    )
    return [
        Rejected(
            strategies=way.names,
            route=way.places,
            chunk_bytes=typical.chunk,
            depth=1,
            workers=workers,
            duration_s=max(seconds, best),
            reason=reason,
        )
    ]
