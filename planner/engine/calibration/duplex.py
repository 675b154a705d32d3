"""What copies lose while others are at work: the opposite direction, another GPU.

Real links idle at a low clock, and an emulated engine is a thread; so both sides are at work for
some hundred milliseconds, and only what is done while both are counts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final, Self

from planner.engine.calibration.bench import Bench
from planner.engine.calibration.copies import Walk
from planner.engine.calibration.rounds import Cell

MIB: Final = 1 << 20
COPY_S: Final = 5e-3
"""Seconds of one copy. Between two of them an engine idles (20 us on one H200 machine, 6 % of 16
MiB), and who issues them holds the driver's lock: with copies of 16 MiB two GPUs seemed to share
102 GB/s, and flows of one copy each reached 109 (measured 2026-11-29)."""
PROBE: Final = 16 * MIB
"""Bytes of the copies that tell how many bytes that is."""
BATCH: Final = 2
"""Copies that are issued together, so that the engine never waits for the next; at the least."""
BATCH_S: Final = 15e-3
"""Seconds of a batch. Between two batches their thread wakes up and wants the locks of interpreter
and driver: with batches of 1.2 ms two H200s seemed to share 86 GB/s on their way, with 5 ms 102,
and with 15 ms 99 on a day on which flows reached 109. So the next one is queued before."""
AHEAD: Final = 2
"""Batches under way where a load goes on without a pause."""
FULL: Final = 1.0
"""All of its time."""
SHARED: Final = 0.98
"""Share of the sum of their own rates below which two GPUs share something on the way. Two H200s
of one host reached 95 % of it, sample after sample within half a per cent."""


@dataclass(slots=True)
class Load:
    """Copies of one direction of one GPU, issued over and over."""

    bench: Bench
    gpu: int
    walk: Walk
    size: int = field(default=0, init=False)
    """Bytes of one copy, 0 until the first batch."""
    batch: int = field(default=0, init=False)
    """Copies of a batch."""
    queued: int = field(default=0, init=False)
    """Batches that were ever queued by `further`."""

    def once(self) -> int:
        """Do a batch, wait for it, and tell how many bytes it had."""
        if not self.batch:
            self._fit()
        self._copy(self.batch, self.size)
        return self.batch * self.size

    def further(self) -> int:
        """Queue a batch, wait for the one before it, and tell how many bytes a batch has.

        The engine is never idle between two of them.
        """
        if not self.batch:
            self._fit()
        pairs = self.walk.pairs(self.batch, self.size)
        self.bench.queue(self.gpu, pairs, self.size, self.queued % AHEAD)
        self.queued += 1
        self.bench.arrived(self.gpu, pairs[0], self.queued % AHEAD)
        return self.batch * self.size

    def begin(self) -> None:
        """Have one batch under way, and none before it."""
        self.further()
        self.further()

    def drain(self) -> None:
        """Wait for what `further` left under way."""
        if self.queued:
            pair = self.walk.pairs(1, self.size)[0]
            for slot in range(AHEAD):
                self.bench.arrived(self.gpu, pair, slot)

    def _fit(self) -> None:
        """Find out how large copies and batches are."""
        room = min(self.walk.target.size, self.walk.source.size)
        probe = min(PROBE, room)
        self._copy(BATCH, probe)  # wakes the link
        each = self._copy(BATCH, probe) / BATCH
        copies = max(1, int(COPY_S / each))
        self.size = min(room, copies * probe)
        self.batch = max(BATCH, ceil(BATCH_S / (each * self.size / probe)))

    def _copy(self, count: int, size: int) -> float:
        return self.bench.copies(self.gpu, self.walk.pairs(count, size), size)


Halves = tuple[tuple[Load, Load], tuple[Load, Load]]
"""A GPU's loads inward and outward, in one half of the memory and in the other."""


class Background:
    """A load that goes on in a thread of its own, `share` of its time."""

    def __init__(self, load: Load, share: float) -> None:
        self._load, self._share = load, share
        self._stop = threading.Event()
        self._marks: list[tuple[float, int]] = []
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=self._work, name="calibration background", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._ready.wait()
        except BaseException:  # a thread that went on would copy from memory that is given back
            self._end()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._end()
        if self._error is not None and error[0] is None:
            raise self._error

    def _end(self) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        done = 0
        try:
            batch = self._load.once
            if self._share >= FULL:
                batch = self._load.further
                self._load.begin()
            while not self._stop.is_set():
                start = time.perf_counter()
                done += batch()
                self._marks.append((time.perf_counter(), done))
                self._ready.set()
                if self._share < FULL:
                    worked = time.perf_counter() - start
                    self._stop.wait(worked * (1 / self._share - 1))
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            self._error = error
        finally:
            try:
                self._load.drain()
            except BaseException as error:  # noqa: BLE001 - the first one says more
                self._error = self._error or error
            self._ready.set()

    def rate(self, start: float, end: float) -> float:
        """Bytes/s between the first and the last batch that ended from `start` to `end`.

        Of a single one nothing can be told but that it was the only one in all the time.
        """
        seen = [mark for mark in self._marks if start <= mark[0] <= end]
        if len(seen) < 2:
            before = max((done for at, done in self._marks if at < start), default=0)
            return (seen[-1][1] - before) / (end - start) if seen else 0.0
        (first, before), (last, after) = seen[0], seen[-1]
        return (after - before) / (last - first)


def beside(own: Load, other: Load, share: float, seconds: float) -> tuple[float, float]:
    """Bytes/s of `own` while `other` is at work `share` of its time, and bytes/s of `other`."""
    own.once()
    with Background(other, share) as background:
        return _rate(own, seconds, background.rate)


def alone(own: Load, seconds: float) -> float:
    """Bytes/s of the same copies with nothing beside them."""
    own.once()
    return _rate(own, seconds, lambda _start, _end: 0.0)[0]


def _rate(
    own: Load, seconds: float, beside_it: Callable[[float, float], float]
) -> tuple[float, float]:
    """Bytes/s of a load that goes on for so long, and what is asked of the same time."""
    own.begin()
    try:
        start = time.perf_counter()
        done = 0
        while True:
            done += own.further()
            end = time.perf_counter()
            if end - start >= seconds:
                return done / (end - start), beside_it(start, end)
    finally:
        own.drain()


def _pair(own: Load, other: Load, share: float, seconds: float, key: tuple[object, ...]) -> Cell:
    """A cell whose value is the own rate; the other's is its second figure."""

    def run() -> float:
        rate, beside_it = beside(own, other, share, seconds)
        cell.also.append(beside_it)
        return rate

    cell = Cell(key, run, threads=2, is_rate=True)
    return cell


def _single(own: Load, seconds: float, key: tuple[object, ...]) -> Cell:
    return Cell(key, lambda: alone(own, seconds), is_rate=True)


def opposite_cells(
    inward: Load, outward: Load, shares: Sequence[float], seconds: float
) -> Iterator[Cell]:
    """Each direction alone, and beside the other at work all of its time and less of it."""
    ways = (("h2d", inward, outward), ("d2h", outward, inward))
    for way, own, other in ways:
        yield _single(own, seconds, ("duplex", own.gpu, way, 0))
        for share in shares:
            yield _pair(own, other, share, seconds, ("duplex", own.gpu, way, round(100 * share)))


def neighbour_cells(
    loads: Sequence[Halves], seconds: float, pairs: Sequence[tuple[int, int]], *, crossed: bool
) -> Iterator[Cell]:
    """Each two GPUs at once: whether they share a link on the way, and what each loses by it.

    In one direction both, and where asked for (`crossed`) one of them in each direction while the
    other goes in the opposite; the first in one half of the memory, the second in the other.
    """
    for k, way in enumerate(("h2d", "d2h")):
        for i, j in pairs:
            key = ("together", way, i, j)
            yield _pair(loads[i][0][k], loads[j][1][k], FULL, seconds, key)
            for one, other in ((i, j), (j, i)) if crossed else ():
                key = ("crossed", way, one, other)
                yield _pair(loads[one][0][k], loads[other][1][1 - k], FULL, seconds, key)


def interference(alone_rate: float, seen: Sequence[tuple[float, float]]) -> float:
    """Bytes of this direction's capacity that a byte of the opposite one takes.

    `alone_rate` is this direction alone; each entry of `seen` is what is left of it while the
    other moves so much. Of several the line through no loss at no traffic that fits best.
    """
    squares = sum(other * other for _, other in seen)
    if squares <= 0:
        return 0.0
    return max(0.0, sum((alone_rate - own) * other for own, other in seen) / squares)


def shared(
    alone_rates: Sequence[float],
    rate_of: Callable[[int, int], float | None],
) -> list[tuple[int, ...]]:
    """The groups of GPUs (by their place) that lose by each other, so share a wire on the way.

    `rate_of(i, j)` is what two reach together, `None` where that was not measured.
    """
    groups: list[set[int]] = []
    for i in range(len(alone_rates)):
        for j in range(i + 1, len(alone_rates)):
            both = rate_of(i, j)
            if both is not None and both < SHARED * (alone_rates[i] + alone_rates[j]):
                touched = [g for g in groups if i in g or j in g]
                merged = {i, j}.union(*touched)
                groups = [g for g in groups if g not in touched] + [merged]
    return [tuple(sorted(group)) for group in groups]
