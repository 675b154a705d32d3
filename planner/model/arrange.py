"""How one flow is carried out in the company of others: over one way, several, or from a copy.

A `Lane` is one way with its shapes and the bytes that take it. An `Arrangement` is all lanes of a
flow; most have one. A copy of bytes that another destination gets anyway may be taken from there:
its arrangement names that flow as its `source`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

from planner.machine.schema import Hbm, Machine
from planner.model.choose import Candidate, setup_of, steady_of
from planner.model.fluid import Fluid, fluid, prepared, streamed, waits
from planner.model.movement import LANES, REGISTER, STAGING, START, TOUCH, Movement, added
from planner.model.need import Need
from planner.model.shared_queue import Track, unevenness
from planner.model.strategies import Shape
from planner.model.ways import Way
from planner.results import FlowSchedule, Hop, SetupStep, SplitPart

Fan = Literal["tree", "chain"]
"""How copies spread: from whole copy to whole copy, or chunk by chunk as the first one comes in."""

YIELDS = 32 << 20
"""Bytes of a chunk that a higher class waits for at most: 0.6 ms at 55 GB/s, of which the gap
between chunks takes 0.5 to 2.5 % (2.7 us by a probe of two H200, 15 by a calibration)."""

FOLLOWED: Final = 1 / 3
"""Share of a turn at the locks that each copy takes which follows a chunk to a further GPU. Its
calls (a copy, an event, two waits) take some 25 us under the locks where a whole turn takes 75:
chunks that were passed on came every 102 us, others every 77 to 84 (14 workers, 4 MiB, two H200s,
measured 2026-11-30)."""
HANDED_S: Final = 0.25e-3
"""Seconds between the end of what a tree's copy is taken from and the copy's own beginning: the
thread that waits for it wakes and gets its worker going (0.25 to 0.26 ms for 100 to 450 MB, two
H200s, measured 2026-11-30)."""


def turns_of(copies: int) -> float:
    """Turns at the locks of a chunk that so many copies follow from GPU to GPU."""
    return 1 + FOLLOWED * copies


@dataclass(frozen=True)
class Lane:
    """One way of a flow; `need.size` is its share. `streamed` movements overlap chunk by chunk.

    `rough` lanes are those of another machine that the first is compared with.
    """

    need: Need
    candidate: Candidate
    streamed: bool = False
    rough: bool = False

    @cached_property
    def fluids(self) -> tuple[Fluid, ...]:
        """One a movement; one in all where they are streamed."""
        movements, shapes = self.candidate.way.movements, self.candidate.shapes
        if self.streamed:
            first = fluid(movements[0], shapes[0], rough=self.rough)
            leads = [m.lead(s) for m, s in zip(movements, shapes, strict=True)]
            return (streamed(first, movements[1:], shapes[0], max(leads) - leads[0]),)
        return tuple(fluid(m, s, rough=self.rough) for m, s in zip(movements, shapes, strict=True))

    def passing_on(self, copies: int) -> Lane:
        """The lane where so many copies follow each chunk from GPU to GPU."""
        if copies not in self._passing:
            way = self.candidate.way.taking(turns_of(copies))
            self._passing[copies] = replace(self, candidate=replace(self.candidate, way=way))
        return self._passing[copies]

    @cached_property
    def _passing(self) -> dict[int, Lane]:
        return {0: self}

    @cached_property
    def each(self) -> tuple[Fluid, ...]:
        """The fluid of every movement by itself."""
        if not self.streamed:
            return self.fluids
        pairs = zip(self.movements, self.candidate.shapes, strict=True)
        return tuple(fluid(movement, shape) for movement, shape in pairs)

    @cached_property
    def movements(self) -> tuple[Movement, ...]:
        """Cut wherever all bytes rest, even for an instant."""
        return self.candidate.way.movements

    @cached_property
    def track(self) -> Track | None:
        """Its stages as a way that takes chunks from a queue; `None` where nothing moves."""
        pairs = list(zip(self.movements, self.candidate.shapes, strict=True))
        moving = [(movement, shape) for movement, shape in pairs if movement.stages(shape)]
        if not moving:
            return None
        shape = moving[0][1]
        stages = tuple(stage for movement, own in moving for stage in movement.stages(own))
        return Track(stages, min(shape.chunk, max(1, self.need.size)), shape.workers, shape.depth)

    @property
    def lead(self) -> float:
        """Seconds before its first chunk."""
        pairs = zip(self.movements, self.candidate.shapes, strict=True)
        return max(movement.lead(shape) for movement, shape in pairs)

    @property
    def seconds(self) -> float:
        """Seconds of one repeat alone."""
        return sum(f.total for f in self.fluids)

    @property
    def capped(self) -> float:
        """The same under the cap of its flow."""
        return sum(f.under(self.need.rate, self.need.size) for f in self.fluids)

    def hops(self) -> tuple[Hop, ...]:
        """The schedule of this lane; streamed hops are coupled like those of a ring."""
        pairs = zip(self.movements, self.candidate.shapes, strict=True)
        found = [hop for movement, shape in pairs for hop in movement.hops(shape)]
        if self.streamed:
            found = [hop.model_copy(update={"coupled": True}) for hop in found[:-1]] + found[-1:]
        return tuple(found)


_OF_EACH_LANE: Final = frozenset({START, LANES, TOUCH, REGISTER})
"""Steps that are paid for every lane of a flow; others are paid once for the same place."""


@dataclass(frozen=True)
class Arrangement:
    """All lanes of one flow, the largest first; `source` is the copy that it is taken from.

    `behind` is another copy that is made from there first.
    """

    lanes: tuple[Lane, ...]
    source: str | None = None
    fan: Fan | None = None
    behind: str | None = None
    reason: str = ""

    @property
    def handed(self) -> float:
        """Seconds that it begins later than what it is taken from ends."""
        return HANDED_S if self.fan == "tree" else 0.0

    @property
    def main(self) -> Lane:
        """The lane that carries most."""
        return self.lanes[0]

    @property
    def candidate(self) -> Candidate:
        """Way and shapes of the main lane."""
        return self.main.candidate

    @cached_property
    def setup(self) -> tuple[SetupStep, ...]:
        """What is paid once, in all lanes together; equal steps of equal places once.

        Every lane has a ring, workers and engines of its own; the workers are of one team, so only
        the first lane's first one starts it.
        """
        found: dict[str, SetupStep] = {}
        for lane in self.lanes:
            for step in lane.candidate.setup:
                known = found.get(step.name)
                if known is None:
                    found[step.name] = step
                elif step.name in _OF_EACH_LANE:
                    setup = lane.movements[0].crossings[0].ram.setup
                    saved = setup.start - setup.worker if step.name == START else 0.0
                    found[step.name] = added(known, step, saved)
                elif known.duration_s < step.duration_s:
                    found[step.name] = step
        return tuple(found.values())

    @property
    def setup_seconds(self) -> float:
        """Seconds of setup that are not hidden behind anything."""
        return sum(s.duration_s for s in self.setup if not s.overlapped)

    @cached_property
    def preparing(self) -> Fluid:
        """The setup as the simulation sees it; equal steps of all lanes are taken once."""
        found = [lane.candidate.reading for lane in self.lanes]
        most = max((one for one in found if one), key=lambda one: one.seconds, default=None)
        return waits(self.setup_seconds) if most is None else prepared(self.setup_seconds, most)

    @cached_property
    def unevenness(self) -> float:
        """Seconds by which the last lane ends later than all would if bytes flowed evenly."""
        lanes = [lane for lane in self.lanes if lane.track is not None]
        moving = [next(f for f in lane.fluids if f.total > 0) for lane in lanes]
        leads = [lane.lead for lane in lanes]
        return unevenness(
            [lane.track for lane in lanes if lane.track is not None],
            sum(lane.need.size for lane in lanes),
            [f.cap for f in moving],
            [max(0.0, f.delay - lead) for f, lead in zip(moving, leads, strict=True)],
        )

    def duration(self, repeat: int) -> float:
        """Setup once and `repeat` times what the slowest lane takes alone, under their one cap."""
        rate = self.main.need.rate
        all_bytes = sum(lane.need.size for lane in self.lanes)
        slowest = max(lane.capped for lane in self.lanes)
        return self.setup_seconds + repeat * max(slowest, all_bytes / rate if rate else 0.0)

    @property
    def ring(self) -> int:
        """Bytes of pinned rings that are held at the same time."""
        return sum(lane.candidate.ring for lane in self.lanes)

    def schedule(self, need: Need) -> FlowSchedule:
        """The choices as they are saved and executed."""
        update: dict[str, object] = {"flow": need.name, "size_bytes": need.size}
        update |= {"hops": self.main.hops(), "copy_of": self.source, "fan": self.fan}
        update["behind"] = self.behind
        if len(self.lanes) > 1:
            update["parts"] = tuple(
                SplitPart(share_bytes=lane.need.size, hops=lane.hops()) for lane in self.lanes
            )
        return self.candidate.schedule(need).model_copy(update=update)


def made_ready(arrangement: Arrangement) -> Arrangement:
    """The same with everything set up: how a steady run finds it."""
    lanes = tuple(
        replace(lane, candidate=replace(lane.candidate, setup=())) for lane in arrangement.lanes
    )
    return replace(arrangement, lanes=lanes)


def alone(need: Need, candidate: Candidate) -> Arrangement:
    """Everything over one way."""
    return Arrangement((Lane(need, candidate),))


def yielding(machine: Machine, arrangement: Arrangement) -> Arrangement:
    """The same with copies of everything cut into chunks, so that higher classes get in between."""
    lanes = []
    for lane in arrangement.lanes:
        shapes = tuple(
            Shape(YIELDS, 2) if _is_one_dma(movement, shape, lane.need) else shape
            for movement, shape in zip(lane.movements, lane.candidate.shapes, strict=True)
        )
        cut = replace(lane, candidate=replace(lane.candidate, shapes=shapes))
        lanes.append(lane if shapes == lane.candidate.shapes else carried(machine, cut))
    return replace(arrangement, lanes=tuple(lanes))


def _is_one_dma(movement: Movement, shape: Shape, need: Need) -> bool:
    stages = movement.stages(shape)
    engines = bool(stages) and all(s.kind == "engine" and s.cause == "bandwidth" for s in stages)
    return engines and shape.chunk >= need.size > 2 * YIELDS and need.pins.chunk is None


def _stagings(machine: Machine, passed: Sequence[str], size: int) -> tuple[SetupStep, ...]:
    """The slots on GPUs that chunks only pass."""
    return tuple(
        SetupStep(
            name=STAGING.format(name),
            duration_s=node.allocate.seconds(size),
            size_bytes=size,
        )
        for name in passed
        if isinstance(node := machine.nodes[name], Hbm) and node.allocate is not None
    )


def carried(machine: Machine, lane: Lane, size: int | None = None, *, rough: bool = False) -> Lane:
    """The same lane on a machine with other numbers, or with another share of the bytes."""
    need = lane.need if size is None else replace(lane.need, size=size)
    old = lane.candidate
    crossings = tuple(replace(c, machine=machine, size=need.size) for c in old.way.crossings)
    way = Way(crossings, old.way.strategies)
    shapes = tuple(_kept(s, lane.need.size, need.size) for s in old.shapes)
    movements = way.movements
    steady = steady_of(need, movements, shapes, rough=rough)
    # Destination and buffers are paid for what this lane brings.
    setup = setup_of(machine, need, way, shapes)
    if lane.streamed:  # between its movements lie a few chunks, not a buffer for everything
        passed = [m.crossings[-1].end for m in movements[:-1]]
        between = {f"allocate {name}" for name in passed}
        setup = tuple(step for step in setup if step.name not in between)
        setup = (*setup, *_stagings(machine, passed, shapes[0].ring))
    return Lane(need, Candidate(way, shapes, steady, setup), lane.streamed, rough)


def _kept(shape: Shape, before: int, now: int) -> Shape:
    """The shape; one copy of everything stays one copy of everything."""
    return replace(shape, chunk=max(now, 1)) if shape.chunk >= before else shape


def moved(machine: Machine, arrangement: Arrangement) -> Arrangement:
    """The same choices on a machine with other numbers."""
    lanes = (carried(machine, lane, rough=True) for lane in arrangement.lanes)
    return replace(arrangement, lanes=tuple(lanes))
