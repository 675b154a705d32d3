"""A predicted plan played again, with the same schedules, on a machine whose one link is slower."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from planner.machine.override import at_rate
from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model.arrange import Arrangement, carried
from planner.model.compose import Composition, Part, compose, steadily
from planner.model.needs import Demand, demands
from planner.model.saved import arrangement_of
from planner.plan.schema import Plan
from planner.results import FlowSchedule


def rate_of(machine: Machine, resource: str) -> float | None:
    """Bytes/s of a direction of a link or a port; `None` for what is neither."""
    owner, _, way = resource.rpartition(".")
    if way not in ("forward", "backward"):
        return None
    if owner in machine.ports:
        return getattr(machine.ports[owner], way, None)
    direction = getattr(machine.links.get(owner), way, None)
    return None if direction is None else direction.rate


def with_rate(machine: Machine, resource: str, rate: float) -> Machine:
    """The machine with that direction of a link or port at another rate, bytes/s."""
    owner, _, way = resource.rpartition(".")
    if owner in machine.ports:
        port = machine.ports[owner].model_copy(update={way: rate})
        return machine.model_copy(update={"ports": {**machine.ports, owner: port}})
    link = machine.links[owner]
    slower = at_rate(getattr(link, way), rate).model_copy(
        update={"source": getattr(link, way).source}
    )
    link = link.model_copy(update={way: slower})
    return machine.model_copy(update={"links": {**machine.links, owner: link}})


@dataclass(frozen=True)
class Replay:
    """A plan with its schedules settled, to be predicted on machines with other numbers."""

    plan: Plan
    machine: Machine
    schedules: Mapping[str, FlowSchedule]

    @cached_property
    def wanted(self) -> list[Demand]:
        """What moves."""
        return demands(self.plan, self.machine)

    @cached_property
    def arrangements(self) -> list[Arrangement]:
        """How, in the same order."""
        topology = Topology(self.machine)
        return [arrangement_of(topology, d.need, self.schedules[d.need.name]) for d in self.wanted]

    def on(self, machine: Machine) -> Composition:
        """The plan on a machine with the same places and links."""
        return compose(self.plan, machine, self.wanted, self._moved(machine))

    def ready_on(self, machine: Machine) -> Composition | None:
        """The same with everything set up, where that is another course."""
        return steadily(self.plan, machine, self.wanted, self._moved(machine))

    def _moved(self, machine: Machine) -> list[Arrangement]:
        return [
            Arrangement(
                tuple(carried(machine, lane) for lane in a.lanes),
                source=a.source,
                fan=a.fan,
                behind=a.behind,
            )
            for a in self.arrangements
        ]

    def times(self, machine: Machine, flow: str, metric: str) -> list[float]:
        """Seconds of a metric (`duration`, `first`, `steady`) of every copy of a flow there.

        A copy may be named by itself.
        """
        composed = self.on(machine)
        ready = self.ready_on(machine) if metric == "steady" else None
        steady = composed.parts if ready is None else ready.parts
        setups = [a.setup_seconds if ready is None else 0.0 for a in self.arrangements]
        rows = zip(self.wanted, setups, composed.parts, steady, strict=True)
        return [
            _seconds(part, other, demand.need.repeat, setup, metric)
            for demand, setup, part, other in rows
            if flow in (demand.flow, demand.need.name)
        ]

    def bytes_of(self, flow: str) -> int:
        """Bytes that a flow moves in all."""
        return sum(
            d.need.size * d.need.repeat * d.members
            for d in self.wanted
            if flow in (d.flow, d.need.name)
        )


def _seconds(part: Part, ready: Part, repeat: int, setup: float, metric: str) -> float:
    if metric == "first":
        return part.first - part.start
    if metric == "steady" and repeat > 1:
        return (part.finish - part.first) / (repeat - 1)
    if metric == "steady":
        return ready.first - ready.start - setup - ready.kept
    return part.finish - part.start
