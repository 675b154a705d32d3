"""Every way in which a flow could go: its routes, and along each the strategies that fit together.

Along a route the kind of memory at each stop decides which strategy may follow: a ring that the CPU
fills can only be emptied by a copy engine, a mapping only be copied from in place, and so on. A
combination whose strategy does not apply on this machine is kept, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner.machine.schema import Machine
from planner.machine.topology import Route, Step, Topology
from planner.model.movement import Movement
from planner.model.need import Need
from planner.model.strategies import INSIDE, STRATEGIES, Crossing, Kind, Strategy
from planner.model.strategies.base import RINGS

BETWEEN_GPUS: frozenset[Kind] = frozenset({"relay", "pinned", "device"})
"""Where bytes may rest between two GPUs: pageable memory there only adds a copy each way."""


@dataclass(frozen=True)
class Way:
    """One labelled route: what crosses each link, and how."""

    crossings: tuple[Crossing, ...]
    strategies: tuple[Strategy, ...]

    @property
    def movements(self) -> tuple[Movement, ...]:
        """The way cut wherever all bytes come to rest."""
        found, start = [], 0
        for i, crossing in enumerate(self.crossings):
            if crossing.after not in RINGS:
                found.append(
                    Movement(self.crossings[start : i + 1], self.strategies[start : i + 1])
                )
                start = i + 1
        return tuple(found)

    @property
    def places(self) -> tuple[str, ...]:
        """The nodes passed, ends included."""
        return (self.crossings[0].start, *(c.end for c in self.crossings))

    @property
    def names(self) -> tuple[str, ...]:
        """The strategies' names, hop by hop."""
        return tuple(s.name for s in self.strategies)

    def lacks(self) -> str | None:
        """Why the way does not apply on this machine, or `None`."""
        for strategy, crossing in zip(self.strategies, self.crossings, strict=True):
            reason = strategy.lacks(crossing)
            if reason is not None:
                return f"{strategy.name}: {reason}"
        return None


def ways(topology: Topology, need: Need) -> list[Way]:
    """All ways of a flow in a fixed order: by route, then by the order of the strategies."""
    machine = topology.machine
    if need.start == need.end:
        return [
            Way((_crossing(machine, need, "", need.start, need.end, need.first, need.last),), (s,))
            for s in INSIDE
            if machine.nodes[need.start].kind == s.across[0] and need.first in s.takes
        ]
    if need.pins.route:
        routes = topology.via(need.start, need.pins.route, need.end)
    else:
        routes = topology.routes(need.start, need.end)
    return [way for route in routes for way in _label(machine, need, route)]


def _crossing(
    machine: Machine, need: Need, link: str, start: str, end: str, before: Kind, after: Kind
) -> Crossing:
    return Crossing(
        machine, link, start, end, before, after, need.size, cached=need.cached, hot=need.hot
    )


def _label(machine: Machine, need: Need, route: Route) -> Iterator[Way]:
    """All strategies along one route that hand over to each other."""
    steps: Sequence[Step] = tuple(route)

    def extend(at: int, before: Kind) -> Iterator[tuple[tuple[Crossing, Strategy], ...]]:
        if at == len(steps):
            yield ()
            return
        step = steps[at]
        across = (machine.nodes[step.start].kind, machine.nodes[step.end].kind)
        for strategy in STRATEGIES:
            if strategy.across != across or before not in strategy.takes:
                continue
            for after in _afters(machine, need, steps, at, strategy):
                crossing = _crossing(machine, need, step.link, step.start, step.end, before, after)
                for rest in extend(at + 1, after):
                    yield ((crossing, strategy), *rest)

    for pairs in extend(0, need.first):
        yield Way(tuple(c for c, _ in pairs), tuple(s for _, s in pairs))


def _afters(
    machine: Machine, need: Need, steps: Sequence[Step], at: int, strategy: Strategy
) -> list[Kind]:
    """The kinds of memory that the bytes may be in behind step `at`, simplest first."""
    if at == len(steps) - 1:
        return [need.last] if need.last in strategy.gives else []
    kinds = sorted(strategy.gives)
    if machine.nodes[steps[at].start].kind == machine.nodes[steps[at + 1].end].kind == "hbm":
        kinds = [kind for kind in kinds if kind in BETWEEN_GPUS]
    return kinds


def matches_pins(way: Way, need: Need) -> str | None:
    """Why the way is not what the plan pins, or `None`."""
    pins = need.pins
    if pins.strategy is not None and pins.strategy not in way.names:
        return f"the plan pins the strategy {pins.strategy}"
    for crossing, strategy in zip(way.crossings, way.strategies, strict=True):
        wanted = pins.by_hop.get(f"{crossing.start} -> {crossing.end}")
        if wanted is not None and wanted != strategy.name:
            return f"the plan pins {wanted} on {crossing.start} -> {crossing.end}"
    return None
