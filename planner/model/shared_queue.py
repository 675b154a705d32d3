"""Several ways that take chunks from one queue: how much later the last of them ends.

Fluids know rates, and rates end together. Chunks do not: a worker takes the next one as soon as a
slot is free, so that each way holds all of its slots full when the queue runs dry, and the way
whose slots take longest ends last. Followed chunk by chunk, with each way's own stages:

    taken    when the worker has issued its chunk before (and waited, if the call blocks), and its
             next slot is back
    pool     the worker's own time, before the engines
    engines  one behind the other, each first come, first served

A slot is back when its chunk has left the host (with a pool) or has arrived (without one).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from planner.model.pipeline import Stage

MOST: Final = 256
"""Chunks that are followed: the end looks the same after some rounds of all slots, and a search
asks for hundreds of ends."""
TURNS: Final = 4
"""Sizes that are looked at."""


@dataclass(frozen=True, slots=True)
class Track:
    """One way: its stages in the order in which a byte meets them, and its shape."""

    stages: tuple[Stage, ...]
    chunk: int
    workers: int
    depth: int


@dataclass(slots=True)
class _Worker:
    """A worker on the clock: when each slot is back, and when its chunk has arrived."""

    track: int
    back: list[float]
    clear: list[float]
    slot: int = 0


def ends(tracks: Sequence[Track], size: int) -> tuple[float, list[int]]:
    """Seconds until all of `size` bytes have arrived, and the bytes that each way took."""
    workers = [
        _Worker(number, [0.0] * track.depth, [0.0] * track.depth)
        for number, track in enumerate(tracks)
        for _ in range(track.workers)
    ]
    waiting = [(0.0, number) for number in range(len(workers))]
    heapify(waiting)
    free: dict[str, float] = {}
    taken = [0] * len(tracks)
    left, last = size, 0.0
    while left > 0:
        now, number = heappop(waiting)
        worker = workers[number]
        track = tracks[worker.track]
        length = min(track.chunk, left)
        left -= length
        taken[worker.track] += length
        issued, first, arrived = _pass(track, worker, now, length, free)
        last = max(last, arrived)
        pooled = track.stages[0].kind == "pool"
        worker.back[worker.slot] = first if pooled else arrived
        worker.clear[worker.slot] = arrived
        worker.slot = (worker.slot + 1) % track.depth
        heappush(waiting, (max(issued, worker.back[worker.slot]), number))
    return last, taken


def _pass(
    track: Track, worker: _Worker, now: float, length: int, free: dict[str, float]
) -> tuple[float, float, float]:
    """When a chunk is issued, has left the first engine, and has arrived."""
    issued, at, first = now, now, None
    for stage in track.stages:
        if stage.kind == "pool":
            issued = at = at + stage.seconds(length)
            continue
        if first is None:
            at = max(at, worker.clear[worker.slot])  # its places on other GPUs are empty again
        begin = max(at, free.get(stage.resource, 0.0))
        free[stage.resource] = done = begin + stage.seconds(length)
        at = done + stage.lag
        issued = at if stage.blocks else issued
        first = at if first is None else first
    return issued, at if first is None else first, at


def unevenness(
    tracks: Sequence[Track], size: int, rates: Sequence[float], delays: Sequence[float]
) -> float:
    """Seconds by which the ways end later than fluids of these rates and delays, never below 0.

    Fluids that share `size` so that they end together need
    T = (size + sum of rate x delay) / sum of rates. Who gets the last chunk is settled by
    microseconds, so the mean over a few sizes is taken, up to one chunk of each way smaller.
    """
    chunk, span = min(track.chunk for track in tracks), sum(track.chunk for track in tracks)
    size = min(size, MOST * chunk)
    together, begun = sum(rates), sum(r * d for r, d in zip(rates, delays, strict=True))
    sizes = [size - span * turn // TURNS for turn in range(TURNS) if size > span]
    late = [ends(tracks, one)[0] - (one + begun) / together for one in sizes or [size]]
    return max(0.0, sum(late) / len(late))
