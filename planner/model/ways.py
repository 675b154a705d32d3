"""Every way in which a flow could go: its routes, and along each the strategies that fit together.

Along a route the kind of memory at each stop decides which strategy may follow: a ring that the CPU
fills can only be emptied by a copy engine, a mapping only be copied from in place, and so on. A
combination whose strategy does not apply on this machine is kept, with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from planner.machine.schema import Machine
from planner.machine.topology import Route, Step, Topology
from planner.model.movement import Movement
from planner.model.need import Need
from planner.model.strategies import (
    EXECUTABLE,
    GATHER,
    INSIDE,
    STRATEGIES,
    Crossing,
    Kind,
    Strategy,
)
from planner.model.strategies.base import COUPLED

BETWEEN_GPUS: frozenset[Kind] = frozenset({"relay", "pinned", "device"})
"""Where bytes may rest between two GPUs: pageable memory there only adds a copy each way."""

BY_MEMORY: Mapping[Kind, tuple[str, ...]] = {
    "mapped": ("zero_copy",),
    "managed": ("managed", "prefetch", "managed_host"),
}
"""Strategies that the user's own memory asks for: why else would it be mapped, or managed?"""


@dataclass(frozen=True)
class Way:
    """One labelled route: what crosses each link, and how."""

    crossings: tuple[Crossing, ...]
    strategies: tuple[Strategy, ...]

    @cached_property
    def movements(self) -> tuple[Movement, ...]:
        """The way cut wherever all bytes come to rest."""
        found, start = [], 0
        for i, crossing in enumerate(self.crossings):
            if crossing.after not in COUPLED:
                found.append(
                    Movement(self.crossings[start : i + 1], self.strategies[start : i + 1])
                )
                start = i + 1
        return tuple(found)

    def taking(self, turns: float) -> Way:
        """The same way where a chunk takes so many turns at the locks."""
        crossings = tuple(replace(crossing, turns=turns) for crossing in self.crossings)
        return Way(crossings, self.strategies)

    @property
    def least(self) -> float:
        """Seconds of one repeat that no shapes go below; of a way that lacks nothing."""
        return sum(movement.least for movement in self.movements)

    @property
    def places(self) -> tuple[str, ...]:
        """The nodes passed, ends included."""
        return (self.crossings[0].start, *(c.end for c in self.crossings))

    @property
    def hops(self) -> tuple[str, ...]:
        """The hops as plans name them, `host0 -> gpu0`."""
        return tuple(f"{c.start} -> {c.end}" for c in self.crossings)

    @property
    def names(self) -> tuple[str, ...]:
        """The strategies' names, hop by hop."""
        return tuple(s.name for s in self.strategies)

    def not_done(self, only: Collection[str]) -> str | None:
        """Why an engine that knows `only` these strategies cannot go this way, or `None`."""
        following = (*self.strategies[1:], None)
        for strategy, crossing, after in zip(
            self.strategies, self.crossings, following, strict=True
        ):
            if strategy.name not in only or not _done(strategy, crossing):
                return f"{strategy.name}: this engine cannot do it yet"
            if _only_if_asked(strategy, crossing, after):
                return (
                    f"{strategy.name}: taken only where the plan asks for it, as page faults "
                    "beside other copies are not measured"
                )
        return None

    def lacks(self) -> str | None:
        """Why the way does not apply on this machine, or `None`."""
        for strategy, crossing in zip(self.strategies, self.crossings, strict=True):
            reason = strategy.lacks(crossing)
            if reason is not None:
                return f"{strategy.name}: {reason}"
        return None


def _done(strategy: Strategy, crossing: Crossing) -> bool:
    """Whether the engine does this use of a strategy whose name it knows.

    It gathers scattered pieces by copies only, and takes nothing to a disk out of a ring that was
    filled from another.
    """
    if strategy.name not in EXECUTABLE:
        return True  # named by the caller, who knows more
    if crossing.pieces and strategy.name not in GATHER:
        return False
    return crossing.after != "file" or crossing.before != "fill"


def _only_if_asked(strategy: Strategy, crossing: Crossing, after: Strategy | None) -> bool:
    """Whether the CPU would copy out of a mapping, which nobody asked for.

    What the faults cost is measured in one thread that does nothing else; too little to choose by.
    """
    if strategy.name != "mmap" or "mmap" in crossing.asked or crossing.after == "mapped":
        return False
    return after is None or not after.ahead


def ways(topology: Topology, need: Need) -> list[Way]:
    """All ways of a flow in a fixed order: by route, then by the order of the strategies."""
    machine = topology.machine
    routes = routes_of(topology, need)
    if need.start == need.end:
        (inside,) = routes[0]
        return [
            Way(tuple(_crossings(machine, need, [(inside, s, need.first, need.last)])), (s,))
            for s in INSIDE
            if machine.nodes[need.start].kind == s.across[0] and need.first in s.takes
        ]
    return [way for route in routes for way in _label(machine, need, route)]


def routes_of(topology: Topology, need: Need) -> list[Route]:
    """The routes that a flow may take; inside one place a step over no link."""
    if need.start == need.end:
        return [(Step("", need.start, need.end, "forward"),)]
    if need.pins.route:
        return topology.via(need.start, need.pins.route, need.end)
    routes = topology.routes(need.start, need.end)
    return routes + [r for r in _through_hosts(topology, need, routes) if r not in routes]


def _through_hosts(topology: Topology, need: Need, routes: Sequence[Route]) -> list[Route]:
    """Over a network, also the routes through the memory of both hosts.

    They have a link more at each end than those from GPU to adapter, which many a machine wires but
    cannot use for lack of GPUDirect.
    """
    machine = topology.machine
    if not routes or all(machine.links[step.link].kind != "network" for step in routes[0]):
        return []
    ends = (need.start, need.end)
    hosts = [getattr(machine.nodes[name], "host", name) for name in ends]
    names = [host for host in hosts if host not in ends and host in machine.nodes]
    return topology.via(need.start, names, need.end, cutoff=len(routes[0]) + 2) if names else []


_Hop = tuple[Step, Strategy, Kind, Kind]


def _crossings(machine: Machine, need: Need, hops: Sequence[_Hop]) -> Iterator[Crossing]:
    """The hops with what each of them needs to know of the flow."""
    for at, (step, _, before, after) in enumerate(hops):
        mapped = at > 0 and hops[at - 1][1].name == "mmap"
        last = at == len(hops) - 1
        yield Crossing(
            machine,
            step.link,
            step.start,
            step.end,
            before,
            after,
            need.size,
            cached=need.cached,
            hot=need.hot,
            pieces=need.pieces if at == 0 and need.first != "file" else (),
            use=need.use if last and after == "device" else None,
            mapped_from=hops[at - 1][0].start if mapped else "",
            fsync=need.fsync and after == "file",
            repeat=need.repeat,
            room=need.pinned_budget if need.size > need.pinned_budget else None,
            cores=need.cores,
            turns=need.turns,
            asked=need.pins.names.union(*(BY_MEMORY.get(k, ()) for k in (need.first, need.last))),
        )


def _label(machine: Machine, need: Need, route: Route) -> Iterator[Way]:
    """All strategies along one route that hand over to each other."""
    steps: Sequence[Step] = tuple(route)

    def extend(at: int, before: Kind) -> Iterator[tuple[_Hop, ...]]:
        if at == len(steps):
            yield ()
            return
        step = steps[at]
        for strategy in _fitting(machine, need, steps, at, before):
            for after in _afters(machine, need, steps, at, strategy):
                for rest in extend(at + 1, after):
                    yield ((step, strategy, before, after), *rest)

    for hops in extend(0, need.first):
        crossings = tuple(_crossings(machine, need, hops))
        yield Way(crossings, tuple(strategy for _, strategy, _, _ in hops))


def _fitting(
    machine: Machine, need: Need, steps: Sequence[Step], at: int, before: Kind
) -> Iterator[Strategy]:
    """The strategies that can take the bytes over step `at` out of the memory that they are in."""
    step = steps[at]
    across = (machine.nodes[step.start].kind, machine.nodes[step.end].kind)
    for strategy in STRATEGIES:
        if strategy.across != across or before not in strategy.takes:
            continue
        if at > 0 and before in strategy.starts:
            continue
        if at < len(steps) - 1 and not strategy.resides:
            continue  # what a GPU reads in place it has not got, and cannot hand on
        if strategy.offered(machine.links[step.link]) or strategy.name in need.pins.names:
            yield strategy


def _afters(
    machine: Machine, need: Need, steps: Sequence[Step], at: int, strategy: Strategy
) -> list[Kind]:
    """The kinds of memory that the bytes may be in behind step `at`, simplest first."""
    if at == len(steps) - 1:
        return [need.last] if need.last in strategy.gives else []
    kinds = sorted(strategy.gives - strategy.ends)
    if machine.nodes[steps[at].start].kind == machine.nodes[steps[at + 1].end].kind == "hbm":
        kinds = [kind for kind in kinds if kind in BETWEEN_GPUS]
    return kinds


def matches_pins(way: Way, need: Need) -> str | None:
    """Why the way is not what the plan pins, or `None`."""
    pins = need.pins
    if pins.strategy is not None and pins.strategy not in way.names:
        return f"the plan pins the strategy {pins.strategy}"
    for hop, name in zip(way.hops, way.names, strict=True):
        wanted = pins.by_hop.get(hop)
        if wanted is not None and wanted != name:
            return f"the plan pins {wanted} on {hop}"
    return None


def leaves_out(way: Way, need: Need, passed: Collection[str]) -> str | None:
    """Why a way that goes around a pinned hop is not what the plan asks for, or `None`.

    `passed` are the hops of all ways of the flow: with several destinations, each copy is held to
    those pins alone that it can meet.
    """
    for hop, strategy in need.pins.by_hop.items():
        if hop in passed and hop not in way.hops:
            return f"the plan pins {strategy} on {hop}"
    return None
