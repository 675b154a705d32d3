"""One movement done for real: a team of workers, a ring, and the operations of its strategies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from planner.engine.backends.base import Backend, Lane
from planner.engine.memory import PAGE, Ring
from planner.engine.ops import DMA, FOLLOW, POOL, SHAPES, WAIT
from planner.engine.places import FilePlace, MappedPlace, Place
from planner.engine.strategies.base import (
    Address,
    Bound,
    Chunks,
    Hands,
    Stage,
    at_rest,
    cut,
    in_ring,
)
from planner.engine.team import Team
from planner.engine.waits import Stop, Stopped
from planner.errors import ExecutionError, PlannerError
from planner.results import Hop, SetupStep

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Moved:
    """What one run of a movement took: start, end, and each stage's service intervals."""

    start: float
    end: float
    intervals: tuple[tuple[Interval, ...], ...]


class Transfer:
    """A movement made ready: its ring and lanes stay from one run to the next.

    Parameters
    ----------
    backend, team, stop
        What does the operations, who, and whether to go on.
    hops, stages
        The hops of the movement and the stages of all of them, in order.
    source, target
        Where the bytes come from and go to.
    size
        Bytes.
    name
        Flow, for messages.

    """

    def __init__(
        self,
        backend: Backend,
        team: Team,
        stop: Stop,
        hops: Sequence[Hop],
        stages: Sequence[Stage],
        ends: tuple[Place, Place],
        size: int,
        name: str,
    ) -> None:
        first = hops[0]
        self.backend, self.team, self.stop = backend, team, stop
        self.hops, self.stages, self.name = tuple(hops), tuple(stages), name
        self.source, self.target = ends
        self.depth, self.workers = first.depth, min(first.workers, team.size)
        self.chunks = _cut(self.source, size, first.chunk_bytes)
        self.ring: Ring | None = None
        self.hands: list[Hands] = []
        self._registered = 0
        self.size = size
        self.given_back = False
        direct = any(hop.strategy == "direct" for hop in hops)
        self._room = _lead_room(self.source) if direct else 0

    @property
    def has_ring(self) -> bool:
        """Whether chunks pass through a ring."""
        return len(self.stages) > 1

    @property
    def pinned_bytes(self) -> int:
        """Bytes of the ring that are registered now."""
        return self._registered

    def prepare(self) -> list[SetupStep]:
        """Make ring and lanes, once; returns what each step took."""
        if self.hands or not self.stages:
            return []
        steps = self._make_ring() if self.has_ring else []
        bound = Bound(
            self.backend,
            self.source,
            self.target,
            self.chunks,
            self.depth,
            self.ring,
            spin=self.workers < _cores(),
        )
        hands = [Hands(number) for number in range(self.workers)]
        self._together(lambda number: _equip(bound, hands[number], self.stages))
        self.hands = hands
        return steps

    def _make_ring(self) -> list[SetupStep]:
        """Workers touch their own slots; then each slot's row is registered."""
        ring = self.ring = Ring(self.workers, self.depth, self.chunks_longest() + self._room)
        start = perf_counter()
        self._together(ring.touch)
        touched = perf_counter()
        self.backend.register(ring.buffer.address, ring.size)
        self._registered = ring.size
        done = perf_counter()
        return [
            SetupStep(name="touch the ring", duration_s=touched - start, size_bytes=ring.size),
            SetupStep(name="register the ring", duration_s=done - touched, size_bytes=ring.size),
        ]

    def chunks_longest(self) -> int:
        """Bytes of the largest chunk."""
        return max(self.chunks.sizes, default=0)

    def _together(self, job: object) -> None:
        """Let the movement's workers do a job, the rest of the team nothing."""
        call = job

        def run(number: int) -> None:
            if number < self.workers:
                call(number)  # type: ignore[operator]

        self.team.run(run)
        _raise(self.stop, self.name)

    def run(self) -> Moved:
        """Move all bytes once.

        Raises
        ------
        ExecutionError
            If an operation failed; the cause is what the system or the driver said.
        Stopped
            If the run was called off.

        """
        start = perf_counter()
        if not self.stages or not len(self.chunks):
            return Moved(start, perf_counter(), tuple(() for _ in self.stages))
        numbers = iter(range(len(self.chunks)))
        kinds = tuple("pool" if s.kind == "driver" else s.kind for s in self.stages)
        shape, stop, depth = SHAPES[kinds], self.stop, self.depth  # type: ignore[index]

        def work(number: int) -> None:
            hands = self.hands[number]
            _reset(hands)
            operations = _operations(hands)
            try:
                for code, slot, chunk in shape(numbers, depth):
                    if stop.asked:
                        raise Stopped
                    operations[code](slot, chunk)
            except Stopped:
                raise
            except BaseException as error:
                stop.fail(error)
                raise
            finally:
                if stop.asked:
                    for lane in hands.lanes:
                        lane.settle()

        self._together(work)
        end = perf_counter()
        return Moved(start, end, self._intervals())

    def moved(self) -> int:
        """Bytes that have left the source in this run."""
        return sum(hands.moved for hands in self.hands)

    def _intervals(self) -> tuple[tuple[Interval, ...], ...]:
        """Service intervals of each stage, from the logs of all workers."""
        found = []
        lane = 0
        for stage in self.stages:
            if stage.kind == "pool":
                logs = [hands.log for hands in self.hands]
                found.append(_pairs(logs))
            else:
                logs = [hands.lanes[lane].log for hands in self.hands]
                found.append(_served(_pairs(logs)))
                lane += 1
        return tuple(found)

    def close(self) -> None:
        """Give lanes and ring back."""
        if self.hands:
            self.team.run(self._drop)
            self.hands = []
        if self.ring is not None:
            if self._registered:
                self.backend.unregister(self.ring.buffer.address)
                self._registered = 0
            self.ring.close()
            self.ring = None

    def _drop(self, number: int) -> None:
        if number < len(self.hands):
            hands = self.hands[number]
            for lane in hands.lanes:
                lane.settle()
                lane.close()
            hands.lanes.clear()
            hands.issue.clear()
            hands.pool = None


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0))


def _cut(source: Place, size: int, chunk: int) -> Chunks:
    """The chunks, cut at the files' borders."""
    if isinstance(source, (FilePlace, MappedPlace)):
        return cut(size, chunk, source.ranges.starts)
    return cut(size, chunk)


def _lead_room(source: Place) -> int:
    """Spare bytes of a slot that reads whole blocks: one before the chunk, one behind."""
    if not isinstance(source, FilePlace):
        return 0
    ranges = source.ranges
    aligned = all(s.offset % ranges.align == 0 for s in ranges.sources)
    return PAGE if aligned else 2 * PAGE


def _equip(bound: Bound, hands: Hands, stages: Sequence[Stage]) -> None:
    """Give a worker the operations of all stages, with the ring between the first and the last."""
    slots: Address | None = in_ring(bound.ring, hands) if bound.ring is not None else None
    for k, stage in enumerate(stages):
        before = at_rest(bound.source, bound.chunks) if k == 0 else slots
        after = at_rest(bound.target, bound.chunks) if k == len(stages) - 1 else slots
        stage.equip(bound, hands, before, after)
    if stages[0].kind == "engine":
        hands.issue[0] = _counted(hands, hands.issue[0], bound.chunks)


def _counted(hands: Hands, issue: object, chunks: Chunks) -> object:
    """The operation, with its bytes counted where no pool stage counts them."""
    if hands.pool is not None:
        return issue
    call, sizes = issue, chunks.sizes

    def run(slot: int, chunk: int) -> None:
        call(slot, chunk)  # type: ignore[operator]
        hands.moved += sizes[chunk]

    return run


def _reset(hands: Hands) -> None:
    """Forget what an earlier run logged."""
    hands.moved = 0
    hands.log.clear()
    for lane in hands.lanes:
        lane.log.clear()


def _operations(hands: Hands) -> list[object]:
    """The worker's operations by code."""

    def nothing(_slot: int, _chunk: int) -> None:
        raise RuntimeError("a worker was asked for what its strategy does not do")

    operations: list[object] = [nothing] * 4
    if hands.pool is not None:
        operations[POOL] = hands.pool
    if hands.issue:
        operations[DMA] = hands.issue[0]
    if len(hands.issue) > 1:
        operations[FOLLOW] = _follower(hands.issue[1], hands.lanes)
    operations[WAIT] = _waiter(hands.lanes)
    return operations


def _follower(issue: object, lanes: Sequence[Lane]) -> object:
    """The second copy of a slot, behind the first by an event."""
    first, second = lanes
    call = issue

    def run(slot: int, chunk: int) -> None:
        second.follow(slot, first)
        call(slot, chunk)  # type: ignore[operator]

    return run


def _waiter(lanes: Sequence[Lane]) -> object:
    """Wait until every lane's copy of the slot has arrived."""
    if len(lanes) == 1:
        wait = lanes[0].wait
        return lambda slot, _chunk: wait(slot)

    def run(slot: int, _chunk: int) -> None:
        for lane in lanes:
            lane.wait(slot)

    return run


def _pairs(logs: Sequence[Sequence[float]]) -> tuple[Interval, ...]:
    """Intervals of all logs, in order of their end."""
    found = [(log[i], log[i + 1]) for log in logs for i in range(0, len(log) - 1, 2)]
    return tuple(sorted(found, key=lambda pair: pair[1]))


def _served(issued: Sequence[Interval]) -> tuple[Interval, ...]:
    """A copy's service starts at the later of its issue and the previous end on its engine."""
    found, free = [], float("-inf")
    for issue, end in issued:
        found.append((max(issue, min(free, end)), end))
        free = end
    return tuple(found)


def _raise(stop: Stop, name: str) -> None:
    """Raise what made the run stop, wrapped with the flow's name."""
    error = stop.error
    if error is not None:
        if isinstance(error, PlannerError):
            raise error
        raise ExecutionError(f"flow {name} failed: {error}") from error
    stop.check()
