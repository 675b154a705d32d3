"""The null backend: the same workers on a virtual clock, with the model's times.

Nothing moves and nothing sleeps: an operation takes what its stage takes in the model, so that a
flow that has the machine to itself measures exactly what the estimate says. Copy engines are shared
first come, first served; copy stages of different flows do not slow each other here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from planner.engine.ops import DMA, FOLLOW, POOL, SHAPES, WAIT
from planner.model.pipeline import Stage


class VirtualClock:
    """Events in order of time, and the FIFO engines that all flows share."""

    def __init__(self) -> None:
        self.now = 0.0
        self.free: dict[str, float] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = count()

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Do `action` at `time`."""
        heappush(self._events, (time, next(self._serial), action))

    def run(self) -> float:
        """Play all events; returns the time of the last."""
        while self._events:
            self.now, _, action = heappop(self._events)
            action()
        return self.now

    def serve(self, resource: str, seconds: float) -> tuple[float, float]:
        """Queue for an engine now; returns when the service starts and ends."""
        start = max(self.now, self.free.get(resource, 0.0))
        self.free[resource] = start + seconds
        return start, start + seconds


@dataclass(frozen=True, slots=True)
class Played:
    """A movement on the virtual clock: when its last byte arrived, and each stage's intervals."""

    finish: float
    intervals: tuple[tuple[tuple[float, float], ...], ...]


class _Player:
    """One movement: its workers, their slots, and what they have left to do."""

    def __init__(
        self,
        clock: VirtualClock,
        stages: Sequence[Stage],
        chunks: Sequence[int],
        done: Callable[[Played], None],
    ) -> None:
        self.clock, self.stages, self.chunks, self.done = clock, stages, chunks, done
        self.kinds = tuple(stage.kind for stage in stages)
        self.pool = next((k for k, kind in enumerate(self.kinds) if kind == "pool"), 0)
        self.engines = [k for k, kind in enumerate(self.kinds) if kind == "engine"]
        self.intervals: list[list[tuple[float, float]]] = [[] for _ in stages]
        self.finish = clock.now
        self.left = 0

    def start(self, workers: int, depth: int) -> None:
        """Let all workers begin now."""
        numbers = iter(range(len(self.chunks)))
        self.left = workers
        for _ in range(workers):
            work = SHAPES[self.kinds](numbers, depth)
            arrived = [self.clock.now] * depth
            self.clock.at(self.clock.now, lambda work=work, slots=arrived: self._step(work, slots))

    def _step(self, work: Iterator[tuple[int, int, int]], arrived: list[float]) -> None:
        """Follow one worker until it has to wait for the clock."""
        clock = self.clock
        for code, slot, chunk in work:
            wake = clock.now
            if code == WAIT:
                wake = arrived[slot]
            elif code == POOL:
                wake = clock.now + self.stages[self.pool].seconds(self.chunks[chunk])
                self.intervals[self.pool].append((clock.now, wake))
                self._arrive(wake, last=self.pool == len(self.stages) - 1)
            elif code == DMA:
                arrived[slot] = self._engine(self.engines[0], chunk)
            elif code == FOLLOW:
                # The second engine takes the chunk when it has landed.
                landed = arrived[slot]
                clock.at(landed, lambda s=slot, c=chunk: self._second(work, arrived, s, c))
                return
            if wake > clock.now or code == POOL:
                clock.at(wake, lambda: self._step(work, arrived))
                return
        self.left -= 1
        if self.left == 0:
            found = tuple(tuple(rows) for rows in self.intervals)
            clock.at(self.finish, lambda: self.done(Played(self.finish, found)))

    def _second(
        self, work: Iterator[tuple[int, int, int]], arrived: list[float], slot: int, chunk: int
    ) -> None:
        arrived[slot] = self._engine(self.engines[1], chunk)
        self._step(work, arrived)

    def _engine(self, k: int, chunk: int) -> float:
        """Queue a chunk on an engine; returns when it has arrived."""
        stage = self.stages[k]
        start, end = self.clock.serve(stage.resource, stage.seconds(self.chunks[chunk]))
        self.intervals[k].append((start, end))
        self._arrive(end + stage.lag, last=k == len(self.stages) - 1)
        return end + stage.lag

    def _arrive(self, time: float, *, last: bool) -> None:
        if last:
            self.finish = max(self.finish, time)


def play(
    clock: VirtualClock,
    stages: Sequence[Stage],
    chunks: Sequence[int],
    shape: tuple[int, int],
    done: Callable[[Played], None],
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

    """
    if not stages or not chunks:
        clock.at(clock.now, lambda: done(Played(clock.now, tuple(() for _ in stages))))
        return
    _Player(clock, stages, chunks, done).start(*shape)
