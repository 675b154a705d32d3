"""The null backend: the same workers on a virtual clock, with the model's times.

Nothing moves and nothing sleeps: an operation takes what its stage takes in the model, so that a
flow that has the machine to itself measures exactly what the estimate says. Copy engines are shared
first come, first served; what else flows share makes each of them slower while others use it too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Final

from planner.engine.budget import Buckets
from planner.engine.ops import DMA, FOLLOW, POOL, SHAPES, WAIT
from planner.model.pipeline import Stage

ROUNDING: Final = 1e-9
"""Shares that add up to 1 but for rounding are no contention."""


class VirtualClock:
    """Events in order of time, and the FIFO engines that all flows share."""

    def __init__(self) -> None:
        self.now = 0.0
        self.free: dict[str, float] = {}
        # By resource: start, end and share of what is being served.
        self._held: defaultdict[str, list[tuple[float, float, float]]] = defaultdict(list)
        # By engine: how many flows of each class have repeats to move over it.
        self._classes: defaultdict[str, defaultdict[int, int]] = defaultdict(
            lambda: defaultdict(int)
        )
        self._events: list[tuple[float, bool, int, Callable[[], None]]] = []
        self._serial = count()

    def at(self, time: float, action: Callable[[], None], *, last: bool = False) -> None:
        """Do `action` at `time`; behind all else of that instant if it is `last`."""
        heappush(self._events, (time, last, next(self._serial), action))

    def run(self) -> float:
        """Play all events; returns the time of the last."""
        while self._events:
            self.now, _, _, action = heappop(self._events)
            action()
        return self.now

    def count(self, queue: str, rank: int, more: int) -> None:
        """So many more flows of the class have repeats to move over the engine."""
        self._classes[queue][rank] += more

    def held(self, queue: str, at: float, rank: int) -> float:
        """Until when a class may not queue on the engine: while a higher one moves, none stands."""
        higher = any(n for other, n in self._classes[queue].items() if other > rank)
        return max(at, self.free.get(queue, 0.0)) if higher else at

    def serve(self, queue: str, at: float, stage: Stage, length: int) -> tuple[float, float]:
        """Queue `length` bytes for an engine at `at`; returns when the service starts and ends."""
        start = max(at, self.free.get(queue, 0.0))
        end = self.free[queue] = start + self.claim(stage, start, length)
        return start, end

    def occupy(self, queue: str, at: float, seconds: float) -> tuple[float, float]:
        """Keep what serves `queue` for some time, behind what it does already; (start, end)."""
        start = max(at, self.free.get(queue, 0.0))
        end = self.free[queue] = start + seconds
        return start, end

    def claim(self, stage: Stage, start: float, length: int) -> float:
        """Seconds in which the stage serves `length` bytes beside all that is served at `start`.

        Each service asks for a share of the resources that it charges; where they are asked for
        more than they have, it takes longer by that factor. What began before is not slowed any
        more, which matters less the shorter the chunks are.
        """
        alone = stage.seconds(length)
        if alone <= 0 or not stage.charges:
            return alone
        slower = 1.0
        shares = {name: per * length / alone for name, per in stage.charges.items() if per > 0}
        for name, share in shares.items():
            held = self._held[name] = [row for row in self._held[name] if row[1] > self.now]
            slower = max(slower, share + sum(s for low, high, s in held if low <= start < high))
        if slower <= 1 + ROUNDING:
            slower = 1.0
        for name, share in shares.items():
            self._held[name].append((start, start + alone * slower, share))
        return alone * slower


@dataclass(frozen=True, slots=True)
class Played:
    """A movement on the virtual clock: when its last byte arrived, and each stage's intervals."""

    finish: float
    intervals: tuple[tuple[tuple[float, float], ...], ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """What a flow has to keep to: its class, and the buckets that its chunks are taken from.

    While a higher class moves, it waits for the engines to be at rest.
    """

    rank: int = 0
    buckets: Buckets = ()


@dataclass(slots=True)
class _Worker:
    """A worker on the clock: what it does, its own time, and when each slot's chunk arrives."""

    work: Iterator[tuple[int, int, int]]
    now: float
    arrived: list[float]


class _Player:
    """One movement: its workers, their slots, and what they have left to do."""

    def __init__(
        self,
        clock: VirtualClock,
        stages: Sequence[Stage],
        chunks: Sequence[int],
        done: Callable[[Played], None],
        rules: Rules,
    ) -> None:
        self.clock, self.stages, self.chunks, self.done = clock, stages, chunks, done
        self.rules = rules
        self.kinds = tuple(stage.kind for stage in stages)
        self.pool = next((k for k, kind in enumerate(self.kinds) if kind == "pool"), 0)
        self.engines = [k for k, kind in enumerate(self.kinds) if kind == "engine"]
        self.first = POOL if self.kinds[0] == "pool" else DMA
        self.intervals: list[list[tuple[float, float]]] = [[] for _ in stages]
        self.finish = clock.now
        self.left = 0

    def start(self, workers: int, depth: int) -> None:
        """Let all workers begin now."""
        numbers = iter(range(len(self.chunks)))
        self.left = workers
        for _ in range(workers):
            now = self.clock.now
            one = _Worker(SHAPES[self.kinds](numbers, depth), now, [now] * depth)
            self.clock.at(now, partial(self._step, one))

    def _step(self, one: _Worker) -> None:
        """Follow one worker until it has to wait for the clock."""
        for code, slot, chunk in one.work:
            if code == self.first and self.rules.buckets and self._spaced(one, code, slot, chunk):
                return
            if code == DMA:
                if self._held(self.engines[0], one.now, partial(self._issue, one, slot, chunk)):
                    return
                one.arrived[slot] = self._engine(self.engines[0], one.now, chunk)
            elif code == POOL:
                self._fill(one, slot, chunk)
                return
            elif code == FOLLOW:
                # The second engine takes the chunk when it lands, and its place in that queue is
                # settled then. The worker's own time goes on: it does not wait between.
                self.clock.at(one.arrived[slot], partial(self._second, one, slot, chunk))
                return
            elif code == WAIT and one.arrived[slot] > one.now:
                one.now = one.arrived[slot]
                self.clock.at(one.now, partial(self._step, one))
                return
        self.left -= 1
        if self.left == 0:
            found = tuple(tuple(rows) for rows in self.intervals)
            end = max(self.finish, self.clock.now)
            self.clock.at(end, lambda: self.done(Played(end, found)))

    def _spaced(self, one: _Worker, code: int, slot: int, chunk: int) -> bool:
        """Take a new chunk from the buckets; whether the worker waits, and goes on by itself."""
        size = self.chunks[chunk]
        start = max(bucket.take(one.now, size) for bucket in self.rules.buckets)
        if start <= one.now:
            return False
        one.now = start
        go_on = self._issue if code == DMA else self._fill
        self.clock.at(start, partial(go_on, one, slot, chunk))
        return True

    def _fill(self, one: _Worker, _slot: int, chunk: int) -> None:
        """Let the worker serve a chunk itself, and go on after it."""
        one.now = self._pool(one.now, chunk)
        self.clock.at(one.now, partial(self._step, one))

    def _held(self, k: int, at: float, again: Callable[[], None]) -> bool:
        """Whether a higher class keeps the engine; `again` is then called when it is at rest."""
        until = self.clock.held(self._queue(k), at, self.rules.rank)
        if until <= max(at, self.clock.now):
            return False
        self.clock.at(until, again, last=True)
        return True

    def _issue(self, one: _Worker, slot: int, chunk: int) -> None:
        """Try once more what a higher class held up, and go on."""
        one.now = self.clock.now
        if not self._held(self.engines[0], one.now, partial(self._issue, one, slot, chunk)):
            one.arrived[slot] = self._engine(self.engines[0], one.now, chunk)
            self._step(one)

    def _second(self, one: _Worker, slot: int, chunk: int) -> None:
        again = partial(self._second, one, slot, chunk)
        one.arrived[slot] = max(one.arrived[slot], self.clock.now)
        if self._held(self.engines[1], one.arrived[slot], again):
            return
        one.arrived[slot] = self._engine(self.engines[1], one.arrived[slot], chunk)
        self._step(one)

    def _pool(self, start: float, chunk: int) -> float:
        """A worker serves a chunk itself; returns when it is done."""
        stage = self.stages[self.pool]
        end = start + self.clock.claim(stage, start, self.chunks[chunk])
        self.intervals[self.pool].append((start, end))
        self._arrive(end, last=self.pool == len(self.stages) - 1)
        return end

    def _engine(self, k: int, at: float, chunk: int) -> float:
        """Queue a chunk on an engine; returns when it has arrived."""
        stage = self.stages[k]
        start, end = self.clock.serve(self._queue(k), at, stage, self.chunks[chunk])
        self.intervals[k].append((start, end))
        self._arrive(end + stage.lag, last=k == len(self.stages) - 1)
        return end + stage.lag

    def _queue(self, k: int) -> str:
        """Where the chunks of an engine stage stand."""
        stage = self.stages[k]
        # The driver's own copies go through the engine in small pieces: they never hold its queue.
        return f"{id(self)}" if stage.cause == "host_copy" else stage.resource

    def _arrive(self, time: float, *, last: bool) -> None:
        if last:
            self.finish = max(self.finish, time)


def play(
    clock: VirtualClock,
    stages: Sequence[Stage],
    chunks: Sequence[int],
    shape: tuple[int, int],
    done: Callable[[Played], None],
    rules: Rules = Rules(),
) -> None:
    """Start a movement on the clock.

    Parameters
    ----------
    clock
        Shared by everything that happens at once.
    stages, chunks
        The model's stages and the lengths of the chunks in bytes.
    shape
        Workers, and slots of each.
    done
        Called at the virtual instant at which the last byte has arrived.
    rules
        The class and the budget of its flow.

    """
    if not stages or not chunks:
        clock.at(clock.now, lambda: done(Played(clock.now, tuple(() for _ in stages))))
        return
    _Player(clock, stages, chunks, done, rules).start(*shape)
