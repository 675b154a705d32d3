"""One movement done for real: a team of workers, their slots, and the operations of its strategies.

A movement goes over one route, or over several at once that take their chunks from one queue.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from planner.engine.backends.base import Backend, Engine
from planner.engine.budget import Paced
from planner.engine.drive import dispatch, driver
from planner.engine.marked import hops_range
from planner.engine.measure import Interval
from planner.engine.memory import Ring
from planner.engine.numa import run_on
from planner.engine.part import Part, parts_of
from planner.engine.places import DevicePlace, Place
from planner.engine.queue import queue_of
from planner.engine.readers import suits
from planner.engine.route import Route
from planner.engine.strategies.base import Bound, Tally
from planner.engine.team import Job, Team
from planner.engine.terms import Terms
from planner.engine.waits import Stop, raise_error
from planner.engine.worker import reset
from planner.model.movement import LANES, REGISTER, STAGING, TOUCH
from planner.results import Hop, SetupStep


@dataclass(frozen=True, slots=True)
class Moved:
    """What one run of a movement took: from the first operation to the last arrival.

    `intervals` are the service intervals of each stage, those of all routes one after another.
    Those of an engine run from the issue of a copy: what it waited for others is still in them.
    `servers` names the engine of each stage, `None` for a pool. `shares` are the bytes that each
    route took from the queue.
    """

    start: float
    end: float
    intervals: tuple[tuple[Interval, ...], ...]
    servers: tuple[tuple[str, int] | None, ...]
    shares: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """A movement as it is asked for: what moves, between which places, and all its routes.

    A route may have a source of its own (`Route.source`): the same bytes reached in another way.
    All bytes go so many `times` one after another, without a pause in between.
    """

    flow: str
    size: int
    routes: tuple[Route, ...]
    source: Place
    target: Place
    times: int = 1

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The hops of all routes, one route after another."""
        return tuple(hop for route in self.routes for hop in route.hops)

    def devices(self) -> list[tuple[str, DevicePlace]]:
        """The GPUs' memory in which the bytes come to rest, with the names of the nodes."""
        found = [
            (route.hop_of(k).end, rest)
            for route in self.routes
            for k, rest in enumerate(route.rests)
            if isinstance(rest, DevicePlace)
        ]
        if isinstance(self.target, DevicePlace):
            found.append((self.routes[0].hops[-1].end, self.target))
        return found


class Transfer:
    """A movement made ready: its slots and lanes stay from one run to the next.

    Parameters
    ----------
    backend, team, stop
        What does the operations, who, and whether to go on. The team has a worker for each of the
        line's.
    line, terms
        What moves, from where to where, and how; and what it is bound to.

    Raises
    ------
    UnavailableError
        If a route has a line of stages that no worker goes.

    """

    def __init__(
        self, backend: Backend, team: Team, stop: Stop, line: Line, terms: Terms | None = None
    ) -> None:
        self.backend, self.team, self.stop, self.line = backend, team, stop, line
        self.terms = terms or Terms()
        self.queue = queue_of(line.routes, line.source, line.size, line.times)
        self.parts = parts_of(line.flow, [r for r in line.routes if r.stages], self.queue)
        self.workers = sum(part.workers for part in self.parts)
        self._registered: list[int] = []
        self._pinned_rings = 0
        self._tally = Tally()
        self._spans: list[tuple[float, float]] = []
        self._ready = False

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The hops that run together."""
        return self.line.hops

    @property
    def ready(self) -> bool:
        """Whether slots and lanes are there."""
        return self._ready

    @property
    def pinned_bytes(self) -> int:
        """Bytes of the rings, and the most that workers registered at a time as they went.

        They stay known when the rings are gone.
        """
        return self._pinned_rings + self._tally.peak

    def prepare(self) -> list[SetupStep]:
        """Make slots and lanes, once; returns what each step took."""
        if self._ready or not len(self.queue):
            return []
        steps = [*self._make_rings(), *self._make_stagings()]
        spin = self.workers < len(os.sched_getaffinity(0))
        self._ready = True
        room = self._room_ahead()
        for part in self.parts:
            part.apart = suits(part, self.terms)
            bound = Bound(
                self.backend,
                self._source(part),
                self.line.target,
                part.chunks,
                part.depth,
                part.ring,
                spin=spin,
                common=part.workers if part.apart else 0,
                terms=self.terms,
                room=room,
                tally=self._tally,
            )
            part.arm(bound)
        return [*steps, *self._equip()]

    def _equip(self) -> list[SetupStep]:
        """Give every worker its operations, and the lanes to the engines that these need."""
        start = perf_counter()
        self._together(lambda number: self._part(number).equip(number), self._awake())
        took = perf_counter() - start
        lanes = any(hands.lanes for part in self.parts for hands in part.hands)
        return [SetupStep(name=LANES, duration_s=took)] if lanes else []

    def _awake(self) -> int | None:
        """How many workers have something to do: one where it hands on for all, `None` for all."""
        return 1 if len(self.parts) == 1 and self.parts[0].apart else None

    def _make_rings(self) -> list[SetupStep]:
        """Workers touch their own slots; then each ring is registered as one region."""
        start = perf_counter()
        combined = self.backend.combined
        rings = [part.make_ring(self._source(part), combined) for part in self.parts]
        plain = [ring for ring in rings if ring is not None]
        self._pinned_rings = sum(ring.size for ring in plain)
        steps = []
        if any(part.combined for part in self.parts):
            name, took = "allocate the write-combined ring", perf_counter() - start
            size = sum(p.ring.size for p in self.parts if p.combined and p.ring is not None)
            steps.append(SetupStep(name=name, duration_s=took, size_bytes=size))
        return [*steps, *self._pin([p.ring for p in self.parts if p.ring and not p.combined])]

    def _pin(self, rings: Sequence[Ring]) -> list[SetupStep]:
        """Have rings of ordinary memory touched and registered."""
        if not rings:
            return []
        start = perf_counter()
        self._together(self._touch)
        touched = perf_counter()
        for ring in rings:
            self.backend.register(ring.buffer.address, ring.size)
            self._registered.append(ring.buffer.address)
        done = perf_counter()
        size = sum(ring.size for ring in rings)
        return [
            SetupStep(name=TOUCH, duration_s=touched - start, size_bytes=size),
            SetupStep(name=REGISTER, duration_s=done - touched, size_bytes=size),
        ]

    def _touch(self, number: int) -> None:
        part = self._part(number)
        if part.ring is not None and not part.combined:
            part.ring.touch(number - part.first)

    def _make_stagings(self) -> list[SetupStep]:
        """Slots on the GPUs that chunks only pass."""
        steps = []
        start = perf_counter()
        for part in self.parts:
            for rest, made in part.make_stagings(self.backend):
                name, now = STAGING.format(rest.node), perf_counter()
                steps.append(SetupStep(name=name, duration_s=now - start, size_bytes=made.size))
                start = now
        return steps

    def _source(self, part: Part) -> Place:
        """Where a route takes the bytes from."""
        return part.route.source or self.line.source

    def _room_ahead(self) -> int | None:
        """Bytes that each worker may register as it goes: its share of what the rings leave."""
        budget = self.terms.pinned_budget
        return None if budget is None else (budget - self._pinned_rings) // max(1, self.workers)

    def _part(self, number: int) -> Part:
        """The route that a worker of the team goes."""
        return next(part for part in reversed(self.parts) if part.first <= number)

    def _together(self, job: Job, workers: int | None = None) -> None:
        """Let the movement's workers do a job near their route, the rest of the team nothing.

        All of them, or the first `workers`.
        """

        def run(number: int) -> None:
            if number < self.workers:
                run_on(self._part(number).route.cores, lambda: job(number))

        self.team.run(run, workers)
        raise_error(self.stop, self.line.flow)

    def run(self, arrived: Callable[[], object] = lambda: None) -> Moved:
        """Move all bytes once; `arrived` is called when they are there.

        What the run has logged is read behind that: asking for the time of each copy takes 5 us,
        and whoever waits for the bytes need not wait for it.

        Raises
        ------
        ExecutionError
            If an operation failed; the cause is what the system or the driver said.
        Stopped
            If the run was called off.

        """
        if not len(self.queue):
            now = perf_counter()
            arrived()
            stages = sum(len(part.route.stages) for part in self.parts)
            return Moved(now, now, ((),) * stages, (None,) * stages, (0,) * len(self.parts))
        takers = self.queue.start()
        if self.terms.buckets:
            takers = [
                Paced(taker, table.sizes, self.terms.buckets, self.stop)
                for taker, table in zip(takers, self.queue.tables, strict=True)
            ]

        def work(number: int) -> None:
            part = self._part(number)
            hands = part.hands[number - part.first]
            if not part.apart:
                worker = part.worker(takers[part.number], part.depth)
                drive = driver(part, hands, worker, self.line.flow, self.stop, self.terms.marks)
            elif number == part.first:
                drive = partial(dispatch, part, takers[part.number], self.line.flow, self.stop)
            else:
                return
            with hops_range(self.terms.marks, part.route.hops):
                start = perf_counter()
                drive()
                self._spans.append((start, perf_counter()))

        for part in self.parts:
            for hands in part.hands:
                reset(hands)
        self._spans = []
        self._together(work, self._awake())
        arrived()
        found = [row for part in self.parts for row in part.intervals()]
        return Moved(
            min(start for start, _ in self._spans),
            max(end for _, end in self._spans),
            tuple(intervals for intervals, _ in found),
            tuple(server for _, server in found),
            tuple(sum(hands.moved for hands in part.hands) for part in self.parts),
        )

    def engines(self) -> list[Engine]:
        """The engines that its workers have lanes to."""
        found = (lane.engine for part in self.parts for hands in part.hands for lane in hands.lanes)
        return list(dict.fromkeys(found))

    def moved(self) -> int:
        """Bytes that have left the source in this run."""
        return sum(hands.moved for part in self.parts for hands in part.hands)

    def give_back(self) -> int:
        """Give back what workers registered as they went; returns the bytes."""
        return sum(part.give_back() for part in self.parts)

    def close(self) -> None:
        """Give lanes, rings and staging back."""
        for part in self.parts:
            part.settle()
        while self._registered:
            self.backend.unregister(self._registered.pop())
        for part in self.parts:
            part.close()
        self._ready = False
