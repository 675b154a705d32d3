"""One route of a movement as its workers have it: their slots, their hands, what they logged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import cast

from planner.engine.backends.base import Backend
from planner.engine.files import hint_of
from planner.engine.measure import Interval
from planner.engine.memory import HostBuffer, Ring, ring_memory
from planner.engine.ops import CLEAR, DMA, POOL, Worker, worker_of
from planner.engine.places import FilePlace, Place
from planner.engine.queue import Queue
from planner.engine.route import Rest, RingRest, Route, SourceRest, Staging, StagingRest
from planner.engine.strategies.base import Address, Bound, Chunks, Hands, at_rest, in_ring
from planner.engine.worker import equip
from planner.errors import ExecutionError, PlannerError, UnavailableError


@dataclass
class Part:
    """One route with its workers, from number `first` of the team on, and their slots.

    Where it is `apart`, the workers' reads are done elsewhere and the first of them hands on.
    """

    route: Route
    worker: Worker
    chunks: Chunks
    first: int
    number: int
    apart: bool = False
    bound: Bound | None = None
    ring: Ring | None = None
    stagings: dict[StagingRest, Staging] = field(default_factory=dict)
    hands: list[Hands] = field(default_factory=list)

    @property
    def depth(self) -> int:
        """Slots of each worker.

        Where no ring bounds them they are marks and events alone: as many as chunks are enough.
        """
        depth = self.route.hops[0].depth
        if self.route.has_ring:
            return depth
        return min(depth, max(len(self.chunks.sizes), 1))

    @property
    def workers(self) -> int:
        """How many of the team go this way."""
        return self.route.hops[0].workers

    def between(self, hands: Hands) -> list[Address]:
        """Where a worker's chunk lies between each stage and the next."""
        found: list[Address] = []
        for rest in self.route.rests:
            if isinstance(rest, StagingRest):
                found.append(self.stagings[rest].of(hands.number))
            elif isinstance(rest, RingRest) and self.ring is not None:
                found.append(in_ring(self.ring, hands))
            elif isinstance(rest, SourceRest) and self.bound is not None:
                found.append(_resting(self.bound.source, self.chunks))
            else:
                found.append(_resting(rest, self.chunks))
        return found

    @property
    def combined(self) -> bool:
        """Whether its ring is of write-combined memory."""
        return any(hop.strategy == "write_combined" for hop in self.route.hops)

    def make_ring(self, source: Place, combined: Callable[[int], HostBuffer]) -> Ring | None:
        """The ring in host memory, not yet touched; `None` where the route needs none.

        `combined` makes write-combined memory.
        """
        if self.route.has_ring:
            slot = max(self.chunks.sizes, default=0) + self._room(source)
            memory = combined if self.combined else ring_memory
            self.ring = Ring(self.workers, self.depth, slot, memory)
        return self.ring

    def _room(self, source: Place) -> int:
        """Spare bytes of a slot that reads whole blocks: one before the chunk, one behind."""
        direct = self.route.hops[0].strategy == "direct"
        return 2 * source.ranges.align if direct and isinstance(source, FilePlace) else 0

    def make_stagings(self, backend: Backend) -> Iterator[tuple[StagingRest, Staging]]:
        """Slots on the GPUs that chunks only pass."""
        for rest in self.route.staged_on:
            slot = max(self.chunks.sizes, default=0)
            made = Staging(backend, rest.gpu, (self.workers, self.depth), slot)
            self.stagings[rest] = made
            yield rest, made

    def arm(self, bound: Bound) -> None:
        """Get the workers' hands ready to be equipped."""
        self.bound = bound
        self.hands = [Hands(number) for number in range(self.workers)]

    def give_back(self) -> int:
        """Give back what workers registered as they went; returns the bytes."""
        return sum(hands.ahead.give_back() for hands in self.hands if hands.ahead is not None)

    def equip(self, number: int) -> None:
        """Give the worker that calls its operations; `number` is that in the team.

        The first worker of a part that is apart gets those of all.
        """
        if self.bound is None:
            raise RuntimeError("a worker is equipped before the route is armed")
        own = number - self.first
        if self.apart and own:
            return
        for hands in self.hands if self.apart else [self.hands[own]]:
            equip(self.bound, hands, self.route.stages, self.between(hands))

    def told(self, flow: str, chunk: int, code: int, error: BaseException) -> BaseException:
        """The error with the place where it happened."""
        if not isinstance(error, (OSError, PlannerError, RuntimeError)):
            return error
        hop = self.route.hop_of(_stage_of(self.route, code))
        low = self.chunks.lows[chunk]
        found = ExecutionError(
            f"flow {flow}, hop {hop.start} -> {hop.end} ({hop.strategy}), chunk {chunk} "
            f"of {len(self.chunks)} (bytes {low} to {low + self.chunks.sizes[chunk]}): {error}",
            hint=hint_of(error),
        )
        found.__cause__ = error
        return found

    def intervals(self) -> Iterator[tuple[tuple[Interval, ...], tuple[str, int] | None]]:
        """Intervals and server of each stage, from the logs of all workers."""
        lane = 0
        for stage in self.route.stages:
            if stage.kind == "pool":
                yield _pairs([hands.log for hands in self.hands]), None
                continue
            lanes = [hands.lanes[lane] for hands in self.hands]
            yield _pairs([one.log for one in lanes]), lanes[0].engine.server
            lane += 1

    def settle(self) -> None:
        """Let all copies arrive and give the lanes back."""
        for hands in self.hands:
            for lane in hands.lanes:
                lane.settle()
                lane.close()
            hands.undo.close()
        self.give_back()
        self.hands = []

    def close(self) -> None:
        """Give slots back; nothing is in flight, and the ring is not registered any more."""
        for staging in self.stagings.values():
            staging.close()
        self.stagings.clear()
        if self.ring is not None:
            self.ring.close()
            self.ring = None


def parts_of(flow: str, routes: Sequence[Route], queue: Queue) -> list[Part]:
    """The routes with their workers' numbers; raises `UnavailableError` where none can go one."""
    parts: list[Part] = []
    first = 0
    for number, (route, chunks) in enumerate(zip(routes, queue.tables, strict=True)):
        worker = worker_of(tuple(stage.shape for stage in route.stages))
        if worker is None:
            raise UnavailableError(_told_stages(flow, route))
        part = Part(route, worker, chunks, first, number)
        first += part.workers
        parts.append(part)
    return parts


def _resting(rest: Rest | Place, chunks: Chunks) -> Address:
    """The addresses of chunks that stay where they come to rest between two stages."""
    slots = isinstance(rest, (RingRest, StagingRest, SourceRest))
    address = None if slots else at_rest(cast("Place", rest), chunks)
    if address is None:
        raise TypeError("between two stages chunks rest in a ring, in staging, or in a GPU")
    return address


def _stage_of(route: Route, code: int) -> int:
    """The number of the stage that an operation belongs to; `CLEAR` is the last engine's."""
    kinds = [stage.shape for stage in route.stages]
    if len(kinds) == 1:
        return 0
    wanted = "pool" if code == POOL else "engine"
    places = [k for k, kind in enumerate(kinds) if kind == wanted]
    if code == CLEAR:
        return places[-1]
    return places[code - DMA] if code >= DMA else places[0]


def _told_stages(flow: str, route: Route) -> str:
    told = ", ".join(f"{hop.start} -> {hop.end} by {hop.strategy}" for hop in route.hops)
    return f"flow {flow}: no worker goes this way in one piece ({told})"


def _pairs(logs: Sequence[Sequence[float]]) -> tuple[Interval, ...]:
    """Intervals of all logs, in order of their end."""
    found = [pair for log in logs for pair in list(pairwise(log))[::2]]
    return tuple(sorted(found, key=lambda pair: pair[1]))
