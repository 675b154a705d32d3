"""The choice for one flow that has the machine to itself: every way at its own best shape.

What is not chosen is kept, with its time or the reason why it does not apply.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from planner.machine.schema import Hbm, Machine, Ram
from planner.machine.topology import Topology
from planner.model.fits import does_not_fit
from planner.model.fluid import fluid
from planner.model.known import choose_shape
from planner.model.movement import LANES, READY, START, Movement, buffer_setup
from planner.model.need import Need
from planner.model.pieces import piece_by_piece
from planner.model.shapes import Choice
from planner.model.spacing import chunk_of
from planner.model.strategies import Shape
from planner.model.strategies.base import Reading, step, steps
from planner.model.ways import Way, leaves_out, matches_pins, ways
from planner.results import FlowSchedule, Rejected, SetupStep
from planner.units import format_rate, format_time

DETOUR = 1.02
"""What a way over another GPU must gain: less than two per cent is within the error of any
measurement, and it takes that GPU's link and memory."""
TRUSTED = 1.1
"""Factor that the formula's time is surely within of the one found chunk by chunk: they agree
within 2 %. What is slower than that need not be followed to lose."""
ROUNDING = 1 - 1e-9
"""A way is left out unsearched only if it is slower by more than sums are rounded."""


@dataclass(frozen=True)
class Candidate:
    """A feasible way with its shapes: `steady` seconds a repeat, `setup` once."""

    way: Way
    shapes: tuple[Shape, ...]
    steady: float
    setup: tuple[SetupStep, ...]

    @property
    def setup_seconds(self) -> float:
        """Seconds of setup that are not hidden behind anything."""
        return sum(s.duration_s for s in self.setup if not s.overlapped)

    def duration(self, repeat: int) -> float:
        """Setup once and `repeat` times the steady time."""
        return self.setup_seconds + repeat * self.steady

    @property
    def reading(self) -> Reading | None:
        """What its setup reads from a disk; `None` where it reads nothing, or is set up."""
        paid = {step.name for step in self.setup}
        pairs = zip(self.way.strategies, self.way.crossings, strict=True)
        found = (strategy.reading(crossing) for strategy, crossing in pairs)
        return next((one for one in found if one is not None and one.step in paid), None)

    def spaced(self, need: Need) -> bool:
        """Whether it goes in chunks that the flow's cap can hold back; one call cannot be."""
        if need.rate is None or need.pins.chunk is not None:
            return True
        most = chunk_of(need.rate)
        pairs = zip(self.way.movements, self.shapes, strict=True)
        return all(min(s.chunk, m.size) <= most for m, s in pairs if m.stages(s))

    @property
    def ring(self) -> int:
        """Bytes of the largest ring; rings of successive movements are not held together."""
        pairs = zip(self.way.movements, self.shapes, strict=True)
        return max((s.ring for m, s in pairs if m.has_ring), default=0)

    def schedule(self, need: Need) -> FlowSchedule:
        """The choices as they are saved and executed."""
        pairs = zip(self.way.movements, self.shapes, strict=True)
        hops = tuple(hop for movement, shape in pairs for hop in movement.hops(shape))
        cache = "none" if need.first != "file" else "warm" if need.cached >= 1 else "partly"
        if need.first == "file" and need.cached <= 0:
            cache = "cold"
        return FlowSchedule(flow=need.name, size_bytes=need.size, hops=hops, cache=cache)


@dataclass(frozen=True)
class Decision:
    """The best candidate, the other feasible ones by time, and those that do not apply."""

    need: Need
    best: Candidate
    others: tuple[Candidate, ...]
    infeasible: tuple[Rejected, ...]

    def rejected(self) -> tuple[Rejected, ...]:
        """All that was not chosen, fastest first, then what does not apply."""
        slower = tuple(_slower(c, self.need, self.best) for c in self.others)
        return (*slower, *self.infeasible)


def decide(
    topology: Topology,
    need: Need,
    *,
    only: Collection[str] | None = None,
    brief: bool = False,
) -> Decision:
    """Choose the way and the shapes of one flow.

    Parameters
    ----------
    topology, need
        The machine's places and links, and what must move.
    only
        Names of the strategies that whoever executes the choice can do (`EXECUTABLE`); all count
        where it is `None`.
    brief
        Only the best candidate is wanted: ways that cannot win are left out of the answer.

    Raises
    ------
    InfeasibleError
        If no way applies; the message lists why not.

    """
    found: list[tuple[bool, float, int, Candidate]] = []
    infeasible: list[Rejected] = []
    applicable: set[str] = set()  # reasons of ways that only do not fit
    choices = Choices(need)
    all_ways = ways(topology, need)
    passed = {hop for way in all_ways for hop in way.hops} if need.pins.by_hop else set()
    fastest = float("inf")
    for least, order in _promises(all_ways, brief=brief):
        if least * need.repeat * ROUNDING > fastest * DETOUR:
            break
        way = all_ways[order]
        reason = leaves_out(way, need, passed)
        if reason is None and only is not None:
            reason = matches_pins(way, need) or way.not_done(only)
        limit = fastest * DETOUR * TRUSTED
        candidate = reason or evaluate(topology.machine, need, way, choices=choices, limit=limit)
        if isinstance(candidate, str):
            if reason is None and not matches_pins(way, need) and not way.lacks():
                applicable.add(candidate)
            infeasible.append(Rejected(strategies=way.names, route=way.places, reason=candidate))
        else:
            duration, loose = candidate.duration(need.repeat), not candidate.spaced(need)
            found.append((loose, duration, order, candidate))
            fastest = fastest if loose else min(fastest, duration)
    infeasible.extend(_no_link_for_gds(topology, need))
    # Ways that differ only in a buffer on the way may lack the same thing: say it once.
    infeasible = list({(r.strategies, r.route, r.reason): r for r in infeasible}.values())
    if not found:
        from planner.model.no_way import no_way

        raise no_way(topology, need, infeasible, applicable)
    found.sort(key=lambda row: row[:3])
    ranked = _straight_first(topology.machine, need, [row[-1] for row in found])
    infeasible.extend(piece_by_piece(need, ranked[0].way, ranked[0].duration(need.repeat)))
    return Decision(need, ranked[0], tuple(ranked[1:]), tuple(infeasible))


def _straight_first(machine: Machine, need: Need, ranked: Sequence[Candidate]) -> list[Candidate]:
    """The candidates with a way over another GPU behind the best one that it gains little by."""

    def passes_a_gpu(candidate: Candidate) -> bool:
        return any(isinstance(machine.nodes[name], Hbm) for name in candidate.way.places[1:-1])

    bound = ranked[0].duration(need.repeat) * DETOUR
    near = [one for one in ranked if one.duration(need.repeat) <= bound and one.spaced(need)]
    best = next((one for one in near if not passes_a_gpu(one)), ranked[0])
    return [best, *(one for one in ranked if one is not best)]


def _promises(all_ways: Sequence[Way], *, brief: bool) -> list[tuple[float, int]]:
    """Seconds of one repeat that a way cannot go below, and its place in the order.

    Where the answer is to be brief, the most promising first; what lacks something comes last.
    """
    if not brief:
        return [(0.0, order) for order in range(len(all_ways))]
    promises = [float("inf") if way.lacks() else way.least for way in all_ways]
    return sorted(zip(promises, range(len(all_ways)), strict=True))


class Choices:
    """The shapes chosen for one need; ways that share a movement share its choice."""

    def __init__(self, need: Need) -> None:
        self._need = need
        self._known: dict[tuple[object, ...], Choice | str] = {}

    def of(self, movement: Movement) -> Choice | str:
        """The best shape of a movement, or the reason why there is none."""
        key = tuple(
            (c.link, c.start, c.end, c.before, c.after, c.pieces, c.use, c.mapped_from, s.name)
            for c, s in zip(movement.crossings, movement.strategies, strict=True)
        )
        if key not in self._known:
            self._known[key] = choose_shape(movement, self._need)
        return self._known[key]


def evaluate(
    machine: Machine,
    need: Need,
    way: Way,
    *,
    choices: Choices | None = None,
    limit: float = float("inf"),
) -> Candidate | str:
    """The way at its best shapes, or the reason why it is not feasible.

    What takes longer than `limit` seconds by the formula has that time, and is not followed chunk
    by chunk.
    """
    reason = matches_pins(way, need) or way.lacks() or does_not_fit(machine, need, way)
    if reason is not None:
        return reason
    choices = choices or Choices(need)
    shapes, about = [], 0.0
    for movement in way.movements:
        choice = choices.of(movement)
        if isinstance(choice, str):
            return choice
        shapes.append(choice.shape)
        about += choice.seconds
    loses = need.repeat * about > limit
    steady = about if loses else steady_of(need, way.movements, shapes)
    return Candidate(way, tuple(shapes), steady, setup_of(machine, need, way, shapes))


def steady_of(
    need: Need, movements: Sequence[Movement], shapes: Sequence[Shape], *, rough: bool = False
) -> float:
    """Seconds of one repeat alone, as the simulation of the plan would find it.

    `rough` follows only the first chunks.
    """
    pairs = zip(movements, shapes, strict=True)
    return sum(fluid(m, s, rough=rough).under(need.rate, m.size) for m, s in pairs)


def _no_link_for_gds(topology: Topology, need: Need) -> list[Rejected]:
    """GPUDirect Storage needs a link of its own between disk and GPU; say so where it lacks."""
    machine = topology.machine
    ends = {need.start, need.end}
    kinds = {machine.nodes[name].kind for name in ends}
    if kinds != {"disk", "hbm"} or any(set(link.ends) == ends for link in machine.links.values()):
        return []
    reason = f"gds: {machine.name} has no GPUDirect Storage between {need.start} and {need.end}"
    return [Rejected(strategies=("gds",), route=(need.start, need.end), reason=reason)]


def setup_of(
    machine: Machine, need: Need, way: Way, shapes: Sequence[Shape]
) -> tuple[SetupStep, ...]:
    """Everything that is paid once: strategies, rings, buffers between movements, destination."""
    found: list[SetupStep] = []
    for movement, shape in zip(way.movements, shapes, strict=True):
        found.extend(movement.setup(shape))
        last = movement.crossings[-1]
        place = machine.nodes[last.end]
        allocates = not movement.strategies[-1].in_place
        if isinstance(place, Hbm) and place.allocate is not None and allocates:
            seconds = place.allocate.seconds(need.size)
            found.append(
                SetupStep(name=f"allocate {last.end}", duration_s=seconds, size_bytes=need.size)
            )
        if isinstance(place, Ram) and last.end != need.end and last.after != "mapped":
            found.extend(buffer_setup(place, need.size, pinned=last.after == "pinned"))
    return (*_team(way, shapes, found), *found)


def _team(way: Way, shapes: Sequence[Shape], found: list[SetupStep]) -> tuple[SetupStep, ...]:
    """Starting the workers, which all movements share, and opening a lane for every engine.

    What `found` says of a pool that comes with a ring is taken over from there. Workers are woken
    one after another to open their lanes.
    """
    setup = way.movements[0].crossings[0].ram.setup
    moving = [(m, s) for m, s in zip(way.movements, shapes, strict=True) if m.stages(s)]
    workers = max((shape.workers for _, shape in moving), default=1)
    pools = [one for one in found if one.name == START]
    found[:] = [one for one in found if one.name != START]
    pool = max((one.duration_s for one in pools), default=0.0)
    lanes = sum(movement.hands(shape) * movement.engines for movement, shape in moving)
    awake = max((m.hands(s) for m, s in moving), default=1)
    start = pool + setup.start + (workers - 1) * setup.worker
    opened = lanes * setup.lane + (awake - 1) * setup.wake if lanes else 0.0
    rings = any(movement.ring_hosts for movement in way.movements)
    ready = setup.ready_ring if rings and setup.ready_ring is not None else setup.ready
    return steps(
        step(START, 0, None, start),
        step(LANES, 0, None, opened),
        step(READY, 0, None, ready),
    )


EQUAL = 1e-9
"""Times are the same within this share: they differ by how their sums are rounded."""


def _slower(candidate: Candidate, need: Need, chosen: Candidate) -> Rejected:
    """A feasible candidate that was not chosen."""
    repeat = need.repeat
    best, duration = chosen.duration(repeat), candidate.duration(repeat)
    setup = candidate.setup_seconds
    shape = max(candidate.shapes, key=lambda s: s.ring) if candidate.shapes else Shape(0)
    reason = f"takes {format_time(duration - best)} longer"
    if need.rate and chosen.spaced(need) and not candidate.spaced(need):
        reason = f"it moves too much in one call to keep to {format_rate(need.rate)}"
    elif duration < best * (1 - EQUAL):
        reason = f"over another GPU it gains {format_time(best - duration)} only"
    elif duration - best <= EQUAL * best:
        reason = "as quick, and listed later"
    elif repeat * candidate.steady < best <= duration:
        reason += f": its setup alone costs {format_time(setup)}"
    return Rejected(
        strategies=candidate.way.names,
        route=candidate.way.places,
        chunk_bytes=shape.chunk,
        depth=shape.depth,
        workers=shape.workers,
        duration_s=duration,
        reason=reason,
    )
