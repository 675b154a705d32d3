"""One movement done for real: a team of workers, a ring, and the operations of its strategies."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter

from planner.engine.backends.base import Backend
from planner.engine.budget import Paced
from planner.engine.measure import Interval
from planner.engine.memory import Ring
from planner.engine.ops import SHAPES, Kind, Op
from planner.engine.places import FilePlace, Place
from planner.engine.strategies.base import Bound, Hands, Stage, Tally, cut_source
from planner.engine.team import Job, Team
from planner.engine.terms import Terms
from planner.engine.waits import Stop, Stopped
from planner.engine.worker import equip, operations_of, reset
from planner.errors import ExecutionError, PlannerError
from planner.results import Hop, SetupStep


@dataclass(frozen=True, slots=True)
class Moved:
    """What one run of a movement took: from the first operation to the last arrival.

    `intervals` are the service intervals of each stage. Those of an engine run from the issue of a
    copy: what it waited for others is still in them. `servers` names the engine of each stage,
    `None` for a pool.
    """

    start: float
    end: float
    intervals: tuple[tuple[Interval, ...], ...]
    servers: tuple[tuple[str, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A movement as it is asked for.

    `hops` and the stages of each of them are in the order in which a byte meets them.
    """

    flow: str
    size: int
    hops: tuple[Hop, ...]
    parts: tuple[tuple[Stage, ...], ...]
    source: Place
    target: Place

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of all hops."""
        return tuple(stage for part in self.parts for stage in part)

    @property
    def has_ring(self) -> bool:
        """Whether chunks rest in slots on the way."""
        return sum(not stage.stays for stage in self.stages) > 1


class Transfer:
    """A movement made ready: its ring and lanes stay from one run to the next.

    Parameters
    ----------
    backend, team, stop
        What does the operations, who, and whether to go on.
    line, terms
        What moves, from where to where, and how; and what it is bound to.

    """

    def __init__(
        self, backend: Backend, team: Team, stop: Stop, line: Line, terms: Terms | None = None
    ) -> None:
        first = line.hops[0]
        self.backend, self.team, self.stop, self.line = backend, team, stop, line
        self.terms = terms or Terms()
        self.depth, self.workers = first.depth, min(first.workers, team.size)
        pages = any(stage.stays for stage in line.stages)
        self.chunks = cut_source(line.source, line.size, first.chunk_bytes, pages=pages)
        self.ring: Ring | None = None
        self.hands: list[Hands] = []
        self._registered = 0
        self._tally = Tally()
        self._spans: list[tuple[float, float]] = []
        kinds = tuple(stage.shape for stage in line.stages)
        self._shape = SHAPES[kinds] if kinds else None

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The hops that run together."""
        return self.line.hops

    @property
    def pinned_bytes(self) -> int:
        """Bytes of the ring, and the most that workers registered at a time as they went."""
        return self._registered + self._tally.peak

    def prepare(self) -> list[SetupStep]:
        """Make ring and lanes, once; returns what each step took."""
        if self.hands or not self.line.stages or not len(self.chunks):
            return []
        steps = self._make_ring() if self.line.has_ring else []
        bound = Bound(
            self.backend,
            self.line.source,
            self.line.target,
            self.chunks,
            self.depth,
            self.ring,
            spin=self.workers < _cores(),
            terms=self.terms,
            room=self._room_ahead(),
            tally=self._tally,
        )
        self.hands = [Hands(number) for number in range(self.workers)]
        self._spans = [(0.0, 0.0)] * self.workers
        self._together(lambda number: equip(bound, self.hands[number], self.line.stages))
        return steps

    def _make_ring(self) -> list[SetupStep]:
        """Workers touch their own slots; then the ring is registered as one region."""
        slot = max(self.chunks.sizes, default=0) + self._room()
        start = perf_counter()
        if any(hop.strategy == "write_combined" for hop in self.hops):
            ring = self.ring = Ring(self.workers, self.depth, slot, self.backend.combined)
            took, name = perf_counter() - start, "allocate the write-combined ring"
            self._registered = ring.size
            return [SetupStep(name=name, duration_s=took, size_bytes=ring.size)]
        ring = self.ring = Ring(self.workers, self.depth, slot)
        self._together(ring.touch)
        touched = perf_counter()
        self.backend.register(ring.buffer.address, ring.size)
        self._registered = ring.size
        done = perf_counter()
        return [
            SetupStep(name="touch the ring", duration_s=touched - start, size_bytes=ring.size),
            SetupStep(name="register the ring", duration_s=done - touched, size_bytes=ring.size),
        ]

    def _room(self) -> int:
        """Spare bytes of a slot that reads whole blocks: one before the chunk, one behind."""
        source = self.line.source
        direct = any(hop.strategy == "direct" for hop in self.hops)
        if not direct or not isinstance(source, FilePlace):
            return 0
        return 2 * source.ranges.align

    def _room_ahead(self) -> int | None:
        """Bytes that each worker may register as it goes: its share of what the ring leaves."""
        budget = self.terms.pinned_budget
        return None if budget is None else (budget - self._registered) // self.workers

    def _together(self, job: Job) -> None:
        """Let the movement's workers do a job, the rest of the team nothing."""

        def run(number: int) -> None:
            if number < self.workers:
                job(number)

        self.team.run(run)
        raise_error(self.stop, self.line.flow)

    def run(self) -> Moved:
        """Move all bytes once.

        Raises
        ------
        ExecutionError
            If an operation failed; the cause is what the system or the driver said.
        Stopped
            If the run was called off.

        """
        shape = self._shape
        if shape is None or not len(self.chunks):
            now = perf_counter()
            return Moved(now, now, ((),) * len(self.line.stages), (None,) * len(self.line.stages))
        # One range iterator for all workers: `next` of it is a single call into C.
        numbers: Iterator[int] = iter(range(len(self.chunks)))
        if self.terms.buckets:
            numbers = Paced(numbers, self.chunks.sizes, self.terms.buckets, self.stop)

        def work(number: int) -> None:
            start = perf_counter()
            self._drive(self.hands[number], shape(numbers, self.depth))
            self._spans[number] = start, perf_counter()

        for hands in self.hands:
            reset(hands)
        self._together(work)
        return Moved(
            min(start for start, _ in self._spans),
            max(end for _, end in self._spans),
            *self._intervals(),
        )

    def _drive(self, hands: Hands, worker: Iterator[Op]) -> None:
        """Do what a worker says until it is through, or the run is called off."""
        operations, stop = operations_of(hands), self.stop
        chunk = slot = code = 0
        try:
            for code, slot, chunk in worker:
                if stop.asked:
                    raise Stopped  # noqa: TRY301 - this loop is the hot path
                operations[code](slot, chunk)
        except Stopped:
            self._settle(hands)
            raise
        except BaseException as error:
            stop.fail(self._told(hands.at[slot] if chunk < 0 else chunk, code, error))
            self._settle(hands)
            raise Stopped from error

    def _settle(self, hands: Hands) -> None:
        """Nothing may be in flight when the memory is given back."""
        for lane in hands.lanes:
            lane.settle()

    def _told(self, chunk: int, code: int, error: BaseException) -> BaseException:
        """The error with the place where it happened."""
        if not isinstance(error, (OSError, PlannerError, RuntimeError)):
            return error
        at = self.line.stages[0 if len(self.line.stages) == 1 else _stage_of(self.line, code)]
        hop = next(h for h, k in zip(self.hops, self.line.parts, strict=True) if at in k)
        low = self.chunks.lows[chunk]
        found = ExecutionError(
            f"flow {self.line.flow}, hop {hop.start} -> {hop.end} ({hop.strategy}), chunk {chunk} "
            f"of {len(self.chunks)} (bytes {low} to {low + self.chunks.sizes[chunk]}): {error}",
            hint=getattr(error, "hint", None),
        )
        found.__cause__ = error
        return found

    def moved(self) -> int:
        """Bytes that have left the source in this run."""
        return sum(hands.moved for hands in self.hands)

    def _intervals(
        self,
    ) -> tuple[tuple[tuple[Interval, ...], ...], tuple[tuple[str, int] | None, ...]]:
        """Intervals and server of each stage, from the logs of all workers."""
        found: list[tuple[Interval, ...]] = []
        servers: list[tuple[str, int] | None] = []
        lane = 0
        for stage in self.line.stages:
            if stage.kind == "pool":
                found.append(_pairs([hands.log for hands in self.hands]))
                servers.append(None)
                continue
            lanes = [hands.lanes[lane] for hands in self.hands]
            found.append(_pairs([one.log for one in lanes]))
            servers.append(lanes[0].engine.server)
            lane += 1
        return tuple(found), tuple(servers)

    def give_back(self) -> int:
        """Give back what workers registered as they went; returns the bytes."""
        return sum(hands.ahead.give_back() for hands in self.hands if hands.ahead is not None)

    def close(self) -> None:
        """Give lanes and ring back."""
        for hands in self.hands:
            for lane in hands.lanes:
                lane.settle()
                lane.close()
            hands.undo.close()
        self.give_back()
        self.hands.clear()
        if self.ring is not None:
            if self._registered:
                self.backend.unregister(self.ring.buffer.address)
                self._registered = 0
            self.ring.close()
            self.ring = None


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _stage_of(line: Line, code: int) -> int:
    """The number of the stage that an operation belongs to; a wait belongs to the last engine."""
    kinds: list[Kind] = [stage.shape for stage in line.stages]
    wanted: Kind = "pool" if code == 0 else "engine"
    places = [k for k, kind in enumerate(kinds) if kind == wanted]
    return places[0] if code in (0, 1) else places[-1]


def _pairs(logs: Sequence[Sequence[float]]) -> tuple[Interval, ...]:
    """Intervals of all logs, in order of their end."""
    found = [pair for log in logs for pair in list(pairwise(log))[::2]]
    return tuple(sorted(found, key=lambda pair: pair[1]))


def raise_error(stop: Stop, flow: str) -> None:
    """Raise what made the run stop, if anything did."""
    error = stop.error
    if error is None:
        stop.check()
    elif isinstance(error, PlannerError):
        raise error
    elif isinstance(error, Exception):
        raise ExecutionError(f"flow {flow} failed: {error}") from error
    else:
        raise error
