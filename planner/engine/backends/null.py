"""The null backend: the same workers on a virtual clock, with the model's times.

Nothing moves and nothing sleeps: an operation takes what its stage takes in the model, so that a
flow that has the machine to itself measures exactly what the estimate says. Copy engines are shared
first come, first served; what else flows share makes each of them slower while others use it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from planner.engine.backends.virtual_clock import VirtualClock
from planner.engine.budget import Buckets
from planner.engine.ops import DMA, POOL, WAIT, Worker, worker_of
from planner.errors import UnavailableError
from planner.model.copier import Copier
from planner.model.pipeline import Stage


@dataclass(frozen=True, slots=True)
class Played:
    """A movement on the virtual clock.

    When its last byte arrived, each stage's intervals (those of all routes one after another), when
    each stage had its last chunk through, and the bytes that each route took.
    """

    finish: float
    intervals: tuple[tuple[tuple[float, float], ...], ...]
    ends: tuple[float, ...] = ()
    shares: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Track:
    """One route: its stages, what it gets from each place of the queue, workers and slots.

    `copiers` are, by resource, its copies on hosts where others may copy at the same time.
    """

    stages: Sequence[Stage]
    sizes: Sequence[int]
    workers: int
    depth: int
    copiers: Mapping[str, Copier] = field(default_factory=dict)


UNKNOWN: Final = float("inf")
"""When a chunk arrives that is not yet in the queue of its engine."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a flow has to keep to: its class, and the buckets that its chunks are taken from.

    While a higher class moves, it waits for the engines to be at rest.
    """

    rank: int = 0
    buckets: Buckets = ()


FREELY: Final = Rules()
"""One class, and no bound on the rate."""


@dataclass(slots=True)
class _Worker:
    """A worker on the clock: what it does, its own time, and when each slot's chunk arrives.

    `arrived` is by engine and slot. `behind` are the copies that follow one whose arrival is not
    known yet; `held` is the slot that the worker waits for until it is.
    """

    work: Iterator[tuple[int, int, int]]
    now: float
    arrived: list[list[float]]
    behind: dict[tuple[int, int], int] = field(default_factory=dict)
    held: int = -1


class _Player:
    """One route: its workers, their slots, and what they have left to do."""

    def __init__(
        self, clock: VirtualClock, track: Track, rules: Rules, done: Callable[[], None]
    ) -> None:
        self.clock, self.track, self.rules, self.done = clock, track, rules, done
        self.stages, self.chunks = track.stages, track.sizes
        self.kinds = tuple(stage.kind for stage in track.stages)
        self.pool = next((k for k, kind in enumerate(self.kinds) if kind == "pool"), 0)
        self.engines = [k for k, kind in enumerate(self.kinds) if kind == "engine"]
        self.first = POOL if self.kinds[0] == "pool" else DMA
        self.intervals: list[list[tuple[float, float]]] = [[] for _ in track.stages]
        self.ends = [clock.now for _ in track.stages]
        self.share = 0
        self.left = 0

    def start(self, worker: Worker, numbers: Iterator[int]) -> None:
        """Let all workers begin now."""
        self.left, depth = self.track.workers, self.track.depth
        self._copying(1)
        for _ in range(self.left):
            now = self.clock.now
            arrived = [[now] * depth for _ in self.engines]
            one = _Worker(worker(numbers, depth), now, arrived)
            self.clock.at(now, partial(self._step, one))

    def _step(self, one: _Worker) -> None:
        """Follow one worker until it has to wait for the clock."""
        for code, slot, chunk in one.work:
            if code == self.first and self.rules.buckets and self._spaced(one, code, slot, chunk):
                return
            if code == DMA:
                if self._held(0, one.now, partial(self._issue, one, slot, chunk)):
                    return
                one.arrived[0][slot] = self._engine(0, one.now, chunk)
            elif code == POOL:
                self._fill(one, slot, chunk)
                return
            elif code > DMA:
                self._follow(one, code - DMA, slot, chunk)
            elif self._waits(one, code, slot):
                return
        self.left -= 1
        if self.left == 0:
            self._copying(-1)
            self.done()

    def _copying(self, turn: int) -> None:
        for copier in self.track.copiers.values():
            self.clock.copying(copier, turn)

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

    def _held(self, number: int, at: float, again: Callable[[], None]) -> bool:
        """Whether a higher class keeps the engine; `again` is then called when it is at rest."""
        until = self.clock.held(self._queue(self.engines[number]), at, self.rules.rank)
        if until <= max(at, self.clock.now):
            return False
        self.clock.at(until, again, last=True)
        return True

    def _issue(self, one: _Worker, slot: int, chunk: int) -> None:
        """Try once more what a higher class held up, and go on."""
        one.now = self.clock.now
        if not self._held(0, one.now, partial(self._issue, one, slot, chunk)):
            one.arrived[0][slot] = self._engine(0, one.now, chunk)
            self._step(one)

    def _waits(self, one: _Worker, code: int, slot: int) -> bool:
        """Whether the worker has to wait for a slot; then it is woken later."""
        rows = one.arrived[:1] if code == WAIT else one.arrived[1:]
        latest = max((row[slot] for row in rows), default=one.now)
        if latest == UNKNOWN:
            one.held = slot
            return True
        if latest <= one.now:
            return False
        one.now = latest
        self.clock.at(latest, partial(self._step, one))
        return True

    def _follow(self, one: _Worker, k: int, slot: int, chunk: int) -> None:
        """Let engine `k` take the chunk when it lands; the worker goes on meanwhile.

        Its place in the engine's queue is settled at that instant.
        """
        before = one.arrived[k - 1][slot]
        one.arrived[k][slot] = UNKNOWN
        if before == UNKNOWN:
            one.behind[k - 1, slot] = chunk
        else:
            self.clock.at(before, partial(self._land, one, k, slot, chunk))

    def _land(self, one: _Worker, k: int, slot: int, chunk: int) -> None:
        """The chunk has come to where engine `k` takes it from; the worker has gone on."""
        if self._held(k, self.clock.now, partial(self._land, one, k, slot, chunk)):
            return
        arrived = one.arrived[k][slot] = self._engine(k, self.clock.now, chunk)
        behind = one.behind.pop((k, slot), None)
        if behind is not None:
            self.clock.at(arrived, partial(self._land, one, k + 1, slot, behind))
        if one.held == slot:
            latest = max(row[slot] for row in one.arrived[1:])
            if latest != UNKNOWN:
                one.held = -1
                one.now = max(one.now, latest)
                self.clock.at(one.now, partial(self._step, one))

    def _pool(self, start: float, chunk: int) -> float:
        """A worker serves a chunk itself; returns when it is done."""
        stage = self.stages[self.pool]
        end = start + self.clock.claim(stage, start, self.chunks[chunk], self.track.copiers)
        self._served(self.pool, chunk, (start, end), end)
        return end

    def _engine(self, number: int, at: float, chunk: int) -> float:
        """Queue a chunk on an engine; returns when it has arrived."""
        k = self.engines[number]
        stage = self.stages[k]
        start, end = self.clock.serve(self._queue(k), at, stage, self.chunks[chunk])
        self._served(k, chunk, (start, end), end + stage.lag)
        return end + stage.lag

    def _queue(self, k: int) -> str:
        """Where the chunks of an engine stage stand."""
        stage = self.stages[k]
        # The driver's own copies go through the engine in small pieces: they never hold its queue.
        return f"{id(self)}" if stage.cause == "host_copy" else stage.resource

    def _served(self, k: int, chunk: int, span: tuple[float, float], arrived: float) -> None:
        if k == 0:
            self.share += self.chunks[chunk]
        self.intervals[k].append(span)
        self.ends[k] = max(self.ends[k], arrived)


def play(
    clock: VirtualClock,
    stages: Sequence[Stage],
    chunks: Sequence[int],
    shape: tuple[int, int],
    done: Callable[[Played], None],
    rules: Rules = FREELY,
) -> None:
    """Start a movement over one route on the clock.

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
        What its flow has to keep to.

    """
    track = Track(stages, chunks, *shape)
    play_together(clock, [track], [iter(range(len(chunks)))], done, rules)


def play_together(
    clock: VirtualClock,
    tracks: Sequence[Track],
    takers: Sequence[Iterator[int]],
    done: Callable[[Played], None],
    rules: Rules = FREELY,
) -> None:
    """Start a movement over several routes that take their chunks from one queue.

    Parameters
    ----------
    clock
        Shared by everything that happens at once.
    tracks, takers
        The routes, and for each what its workers take the numbers of chunks from.
    done
        Called at the virtual instant at which the last byte has arrived.
    rules
        What its flow has to keep to.

    Raises
    ------
    UnavailableError
        If there is no worker for the stages of a route.

    """
    stages = [stage for track in tracks for stage in track.stages]
    if not stages or not any(track.sizes for track in tracks):
        now, nothing = clock.now, tuple(() for _ in stages)
        still = Played(now, nothing, (now,) * len(stages), (0,) * len(tracks))
        clock.at(now, lambda: done(still))
        return
    left = len(tracks)

    def through() -> None:
        nonlocal left
        left -= 1
        if left:
            return
        ends = tuple(end for player in players for end in player.ends)
        found = Played(
            max([clock.now, *ends]),
            tuple(tuple(rows) for player in players for rows in player.intervals),
            ends,
            tuple(player.share for player in players),
        )
        clock.at(found.finish, lambda: done(found))

    players = [_Player(clock, track, rules, through) for track in tracks]
    for player, numbers in zip(players, takers, strict=True):
        worker = worker_of(player.kinds)
        if worker is None:
            raise UnavailableError(f"no worker goes through the stages {', '.join(player.kinds)}")
        player.start(worker, numbers)
