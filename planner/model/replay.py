"""An estimate played once more to see it happen: what every hop serves when, and what is held.

The fluid simulation says when each movement is under way and how fast; the exact pipeline follows
its chunks as if it were alone. A chunk is put where the movement has come as far, and is served as
long as alone: shared servers turn to each flow in between.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from planner.machine.replicate import members
from planner.machine.schema import Disk, Hbm, Machine, Ram
from planner.model.arrange import Arrangement, Lane
from planner.model.build import Build, Job
from planner.model.compose import Composition, followed
from planner.model.fluid import Fluid
from planner.model.held import held
from planner.model.movement import Movement
from planner.model.needs import Demand
from planner.model.pipeline import exact, lengths
from planner.model.simulate import FluidResult
from planner.model.slices import Slice, disjoint, even, merged, row
from planner.model.stage import Noted
from planner.model.strategies import Shape
from planner.plan.schema import Plan
from planner.results import MemoryLayer, MemoryTrack, Timeline, TimelineRow

MOST_CHUNKS = 200_000
"""Chunks of a movement that are followed one by one; more are spread evenly (0.3 s on one core)."""


@dataclass(frozen=True)
class Replayed:
    """What was seen, and the composition that it belongs to."""

    timeline: Timeline
    memory: tuple[MemoryTrack, ...]
    composed: Composition


def replay(
    plan: Plan,
    machine: Machine,
    demands: Sequence[Demand],
    arrangements: Sequence[Arrangement],
    *,
    most: int,
) -> Replayed:
    """Play the plan with its choices settled.

    Parameters
    ----------
    plan, machine, demands, arrangements
        As for `planner.model.compose.compose`.
    most
        Slices in all, about: chunks are merged to keep to it.

    """
    made, result, composed = followed(plan, machine, demands, arrangements)
    hops = sum(len(a.schedule(d.need).hops) for d, a in zip(demands, arrangements, strict=True))
    seen = _Seen(made, result, max(2, most // max(1, hops + len(demands) + len(plan.compute))))
    rows = [
        line
        for i, (demand, arrangement) in enumerate(zip(demands, arrangements, strict=True))
        for line in seen.flow(made.jobs[made.demand_job[i]], demand, arrangement)
    ]
    rows += [seen.block(made.jobs[made.compute_job[name]]) for name in plan.compute]
    timeline = Timeline(origin="played", span_s=composed.makespan, rows=tuple(rows))
    tracks = memory(machine, demands, arrangements, composed)
    return Replayed(timeline, tracks, composed)


class _Seen:
    """The rows of a simulation, each of `most` slices at the most."""

    def __init__(self, made: Build, result: FluidResult, most: int) -> None:
        self.made, self.result, self.most = made, result, most
        self.rates: dict[int, list[tuple[float, float]]] = {}
        for change in result.rates or ():
            self.rates.setdefault(change.flow, []).append((change.time, change.rate))

    def flow(self, job: Job, demand: Demand, arrangement: Arrangement) -> Iterator[TimelineRow]:
        """Setup and hops of one demand, all repeats together."""
        need, result = demand.need, self.result
        ready, end = result.ready[job.setup], result.finish[job.setup]
        if end > ready:
            slices = [Slice(ready, end, end - ready, 0, 1)]
            yield row(slices, lane="setup", kind="setup", flow=need.name, members=demand.members)
        at = 0
        for number, lane in enumerate(arrangement.lanes):
            for step, (movement, shape) in enumerate(
                zip(lane.movements, lane.candidate.shapes, strict=True)
            ):
                turns = self._turns(job, lane, arrangement, (number, step))
                each = max(1, self.most // max(1, len(turns)))
                for hop, resource, busy, alone in _hops(movement, shape, lane.each[step], each):
                    whole = Slice(0.0, 0.0, busy, movement.size, _count(movement, shape))
                    found = [s for turn in turns for s in turn.place(alone, whole, each)]
                    yield row(
                        merged(sorted(found), self.most),
                        lane=resource,
                        kind="hop",
                        flow=need.name,
                        hop=at + hop,
                        members=demand.members,
                    )
                at += len(movement.crossings)

    def _turns(
        self, job: Job, lane: Lane, arrangement: Arrangement, which: tuple[int, int]
    ) -> list[_Turn]:
        """The repeats of one movement of a lane."""
        # What passes bytes on chunk by chunk is simulated as one movement.
        whole = lane.streamed or arrangement.fan == "chain"
        number, step = which[0], 0 if whole else which[1]
        moves = None if whole else lane.fluids[step]
        result, specs = self.result, self.made.specs
        found, before = [], result.finish[job.setup]
        for i in chain.from_iterable(job.flows):
            if (specs[i].lane, specs[i].step) == (number, step):
                # A copy of each chunk is only simulated from the end of the flow that brings them.
                ready = before if arrangement.fan == "chain" else result.ready[i]
                before = result.finish[i]
                rates = self.rates.get(i, [])
                found.append(_Turn(ready, result.begin[i], before, moves, rates))
        return found

    def block(self, job: Job) -> TimelineRow:
        """The runs of a compute block."""
        slices = [
            Slice(start, end, end - start, 0, 1)
            for i in chain.from_iterable(job.flows)
            for start, end in [(self.result.begin[i], self.result.finish[i])]
        ]
        lane = f"{job.gpu}.compute"
        return row(merged(slices, self.most), lane=lane, kind="compute", flow=job.name)


def _count(movement: Movement, shape: Shape) -> int:
    return max(1, -(-movement.size // max(1, shape.chunk)))


@dataclass(frozen=True, slots=True)
class _Alone:
    """A stage of a movement by itself: seconds in all, until the first arrival, and its slices."""

    total: float
    first: float
    slices: list[Slice]


def _hops(
    movement: Movement, shape: Shape, fluid: Fluid, most: int
) -> Iterator[tuple[int, str, float, _Alone | None]]:
    """Each hop that serves anything: number, own resource, busy seconds, and how it goes alone.

    Its own stage is its engine, else its last, as in the estimate.
    """
    alone: Sequence[_Alone | None] = _followed(movement, shape, most)
    at = 0
    for number, (crossing, strategy) in enumerate(
        zip(movement.crossings, movement.strategies, strict=True)
    ):
        stages = strategy.stages(crossing, shape)
        every = range(at, at + len(stages))
        own = [k for k in every if stages[k - at].kind == "engine"] or list(every)
        at += len(stages)
        if own and fluid.busy[own[-1]] > 0:
            k = own[-1]
            yield number, stages[k - every[0]].resource, fluid.busy[k], alone[k] if alone else None


def _followed(movement: Movement, shape: Shape, most: int) -> list[_Alone]:
    """Every stage of a movement alone; nothing where there are too many chunks."""
    stages = movement.stages(shape)
    if not stages or not movement.size or _count(movement, shape) > MOST_CHUNKS:
        return []
    chunks = lengths(movement.size, shape.chunk)
    noted = [Noted() for _ in stages]
    trace = exact(stages, chunks, shape.workers, shape.depth, noted)
    lead = movement.lead(shape)
    total = lead + trace.total_s + movement.tail
    found = []
    for note in noted:
        slices = merged(disjoint(note.intervals, chunks), most)
        late = [s._replace(start=s.start + lead, end=s.end + lead) for s in slices]
        found.append(_Alone(total, lead + trace.first_s, late))
    return found


@dataclass(frozen=True, slots=True)
class _Turn:
    """One repeat of a movement on the plan's clock.

    Alone a movement is silent for `moves.delay` (latency, fill and drain) and then flows; among
    others it flows at the simulation's `rates`. Its fill comes first, its drain last, each as long
    as alone. Without `moves` nothing is known of what happens inside.
    """

    ready: float
    begin: float
    finish: float
    moves: Fluid | None
    rates: Sequence[tuple[float, float]]

    def place(self, alone: _Alone | None, whole: Slice, most: int) -> list[Slice]:
        """The slices on the plan's clock; what they serve takes as long as alone."""
        if alone is None or self.moves is None:
            return even(self.ready, self.finish, whole, most)
        marks = _progress(self.begin, self.finish, whole.size, self.rates)
        found = []
        for one in alone.slices:
            end = self._at(one.end, alone, self.moves.delay, marks)
            start = end - one.busy
            if one.chunks > 1:
                start = min(start, self._at(one.start, alone, self.moves.delay, marks))
            found.append(one._replace(start=max(start, 0.0), end=end))
        return found

    def _at(
        self, local: float, alone: _Alone, delay: float, marks: tuple[list[float], list[float]]
    ) -> float:
        """Where an instant of the movement alone falls."""
        fill = min(alone.first, delay)
        if local <= fill:
            return self.ready + local
        flowing = alone.total - delay
        share = (local - fill) / flowing if flowing > 0 else 1.0
        if share >= 1.0:
            return self.finish - max(0.0, alone.total - local)
        return max(self.ready + fill, _when(share * marks[0][-1], *marks) - (delay - fill))


def _progress(
    begin: float, finish: float, size: int, rates: Sequence[tuple[float, float]]
) -> tuple[list[float], list[float]]:
    """Bytes moved, and when."""
    moved, times = [0.0], [begin]
    now, rate = begin, 0.0
    for time, further in rates:
        if time > now:
            moved.append(moved[-1] + rate * (time - now))
            times.append(time)
            now = time
        rate = further
    scale = size / moved[-1] if moved[-1] > 0 else 0.0
    if scale == 0.0:
        return [0.0, float(size)], [begin, finish]
    return [m * scale for m in moved], times


def _when(moved: float, marks: list[float], times: list[float]) -> float:
    k = min(max(1, bisect_left(marks, moved)), len(marks) - 1)
    step = marks[k] - marks[k - 1]
    share = (moved - marks[k - 1]) / step if step > 0 else 1.0
    return times[k - 1] + share * (times[k] - times[k - 1])


def memory(
    machine: Machine,
    demands: Sequence[Demand],
    arrangements: Sequence[Arrangement],
    composed: Composition,
) -> tuple[MemoryTrack, ...]:
    """What every node with memory holds over time, in the machine's order."""
    by_node = held(machine, demands, arrangements, composed)
    found = []
    for name, node in machine.nodes.items():
        own = [h for h in by_node.get(name, ()) if not h.again and h.size]
        if not own or isinstance(node, Disk):
            continue
        layers = tuple(
            MemoryLayer(
                flow=h.flow,
                start_s=h.start,
                end_s=composed.makespan if math.isinf(h.end) else h.end,
                size_bytes=h.size,
                pinned=h.pinned,
            )
            for h in sorted(own, key=lambda h: (h.start, h.flow))
        )
        found.append(
            MemoryTrack(
                node=name,
                members=members(machine, name),
                capacity_bytes=node.capacity if isinstance(node, (Ram, Hbm)) else None,
                layers=layers,
            )
        )
    return tuple(found)
