"""The choice for one flow that has the machine to itself: every way at its own best shape.

What is not chosen is kept, with its time or the reason why it does not apply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.errors import InfeasibleError
from planner.machine.schema import Hbm, Machine, Ram
from planner.machine.topology import Topology
from planner.model.known import choose_shape
from planner.model.movement import buffer_setup
from planner.model.need import Need
from planner.model.strategies import Shape
from planner.model.ways import Way, matches_pins, ways
from planner.results import FlowSchedule, Rejected, SetupStep
from planner.units import format_size, format_time


@dataclass(frozen=True)
class Candidate:
    """A feasible way with its shapes: `steady` seconds a repeat, `setup` once."""

    way: Way
    shapes: tuple[Shape, ...]
    steady: float
    setup: tuple[SetupStep, ...]
    flat: str | None = None

    @property
    def setup_seconds(self) -> float:
        """Seconds of setup that are not hidden behind anything."""
        return sum(s.duration_s for s in self.setup if not s.overlapped)

    def duration(self, repeat: int) -> float:
        """Setup once and `repeat` times the steady time."""
        return self.setup_seconds + repeat * self.steady

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
        best = self.best.duration(self.need.repeat)
        slower = tuple(_slower(c, self.need.repeat, best) for c in self.others)
        return (*slower, *self.infeasible)


def decide(topology: Topology, need: Need) -> Decision:
    """Choose the way and the shapes of one flow.

    Raises
    ------
    InfeasibleError
        If no way applies; the message lists why not.

    """
    found: list[tuple[float, int, Candidate]] = []
    infeasible: list[Rejected] = []
    everything = ways(topology, need)
    for order, way in enumerate(everything):
        candidate = evaluate(topology.machine, need, way)
        if isinstance(candidate, str):
            infeasible.append(Rejected(strategies=way.names, route=way.places, reason=candidate))
        else:
            found.append((candidate.duration(need.repeat), order, candidate))
    if not found:
        raise InfeasibleError(*_why_none(topology, need, infeasible))
    found.sort(key=lambda row: (row[0], row[1]))
    ranked = [candidate for _, _, candidate in found]
    return Decision(need, ranked[0], tuple(ranked[1:]), tuple(infeasible))


def evaluate(machine: Machine, need: Need, way: Way) -> Candidate | str:
    """The way at its best shapes, or the reason why it is not feasible."""
    reason = matches_pins(way, need) or way.lacks() or _does_not_fit(machine, need, way)
    if reason is not None:
        return reason
    shapes, steady, flat = [], 0.0, None
    for movement in way.movements:
        choice = choose_shape(movement, need)
        if isinstance(choice, str):
            return choice
        shapes.append(choice.shape)
        steady += choice.seconds
        flat = choice.flat or flat
    return Candidate(way, tuple(shapes), steady, setup_of(machine, need, way, shapes), flat)


def setup_of(
    machine: Machine, need: Need, way: Way, shapes: Sequence[Shape]
) -> tuple[SetupStep, ...]:
    """Everything that is paid once: strategies, rings, buffers between movements, destination."""
    found: list[SetupStep] = []
    for movement, shape in zip(way.movements, shapes, strict=True):
        found.extend(movement.setup(shape))
        last = movement.crossings[-1]
        place = machine.nodes[last.end]
        if isinstance(place, Hbm) and place.allocate is not None:
            seconds = place.allocate.seconds(need.size)
            found.append(
                SetupStep(name=f"allocate {last.end}", duration_s=seconds, size_bytes=need.size)
            )
        if isinstance(place, Ram) and last.end != need.end and last.after != "mapped":
            found.extend(buffer_setup(place, need.size, pinned=last.after == "pinned"))
    return tuple(found)


def _does_not_fit(machine: Machine, need: Need, way: Way) -> str | None:
    """Why the bytes do not fit somewhere on the way, with the number that would."""
    for crossing in way.crossings:
        place = machine.nodes[crossing.end]
        if isinstance(place, Hbm) and need.size > place.capacity:
            return (
                f"{crossing.end} holds {format_size(place.capacity)}, "
                f"the flow has {format_size(need.size)}"
            )
        if not isinstance(place, Ram):
            continue
        whole = crossing.after in ("pinned", "mapped") and crossing.end != need.end
        registers = crossing.after == "pageable" and "registered" in way.names
        if (whole or registers) and need.size > need.pinned_budget:
            return (
                f"it pins {format_size(need.size)} on {crossing.end}, "
                f"the budget is {format_size(need.pinned_budget)}"
            )
        room = place.limit or place.capacity
        if crossing.after in ("pageable", "pinned") and need.size > room:
            return f"{crossing.end} may hold {format_size(room)}, not {format_size(need.size)}"
    source = way.crossings[0]
    in_place = "registered" in way.names and source.before == "pageable"
    if in_place and need.size > need.pinned_budget:
        return (
            f"it pins {format_size(need.size)} on {source.start}, "
            f"the budget is {format_size(need.pinned_budget)}"
        )
    return None


def _slower(candidate: Candidate, repeat: int, best: float) -> Rejected:
    """A feasible candidate that was not chosen."""
    duration = candidate.duration(repeat)
    setup = candidate.setup_seconds
    shape = max(candidate.shapes, key=lambda s: s.ring) if candidate.shapes else Shape(0)
    reason = f"takes {format_time(duration - best)} longer"
    if repeat * candidate.steady < best <= duration:
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


def _why_none(topology: Topology, need: Need, infeasible: Sequence[Rejected]) -> tuple[str]:
    """The message for a flow that cannot go."""
    head = f"flow {need.name}: no way from {need.start} to {need.end}"
    if not infeasible:
        return (f"{head}: {topology.why_not(need.start, need.end)}",)
    reasons = sorted({f"{' + '.join(r.strategies)}: {r.reason}" for r in infeasible})
    return (head + "\n  " + "\n  ".join(reasons),)
