"""The chosen movements of a whole plan as one fluid simulation.

A pipeline enters the simulation as {delay, work, cap, charges}: `work` bytes that flow at most at
the pipeline's own throughput `cap`, after a `delay` that holds its latency, fill and drain. Alone
it therefore takes exactly what the pipeline takes; among others it shares every resource that it
charges. Resources are shares of a server, so their capacity is 1 and a charge is seconds per byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planner.machine.schema import Machine
from planner.model.choose import Candidate
from planner.model.movement import Movement
from planner.model.needs import Demand, gpu_rate
from planner.model.simulate import FluidFlow, FluidResult, Resource, simulate
from planner.model.strategies import Shape
from planner.plan.schema import Plan


@dataclass(frozen=True, slots=True)
class Fluid:
    """A pipeline as a fluid.

    Seconds it takes alone, seconds of them before it flows, its rate alone, seconds of each
    resource per byte, and the busy seconds of each of its stages.
    """

    total: float
    delay: float
    cap: float
    charges: Mapping[str, float]
    busy: tuple[float, ...]


STILL = Fluid(0.0, 0.0, float("inf"), {}, ())
"""Nothing moves: a flow of the simulation that only waits for others."""


def waits(seconds: float) -> Fluid:
    """Nothing moves for so long."""
    return Fluid(seconds, seconds, float("inf"), {}, ())


def fluid(movement: Movement, shape: Shape) -> Fluid:
    """What the simulation needs to know of one repeat of a movement."""
    trace = movement.trace(shape)
    if trace.total_s == 0.0:
        return Fluid(0.0, 0.0, float("inf"), {}, trace.busy_s)
    charges: dict[str, float] = {}
    for stage, busy in zip(movement.stages(shape), trace.busy_s, strict=True):
        for resource, per_byte in stage.charges.items():
            # An engine's own charge is what it really served, so a short last chunk counts too.
            own = (
                stage.kind == "engine" and resource == stage.resource and stage.cause != "host_copy"
            )
            value = busy / movement.size if own else per_byte
            charges[resource] = charges.get(resource, 0.0) + value
    cap = movement.throughput(shape)
    cap = max(cap, movement.size / trace.total_s)  # few chunks never fill the pipeline
    cap = min([cap, *(1 / c for c in charges.values() if c > 0)])
    return Fluid(
        trace.total_s, max(0.0, trace.total_s - movement.size / cap), cap, charges, trace.busy_s
    )


@dataclass(slots=True)
class _Builder:
    """Collects resources and flows, and remembers which of them belong to what."""

    resources: dict[str, int] = field(default_factory=dict)
    flows: list[FluidFlow] = field(default_factory=list)

    def index(self, resource: str) -> int:
        return self.resources.setdefault(resource, len(self.resources))

    def add(
        self,
        name: str,
        *,
        after: Sequence[int],
        work: float = 0.0,
        moves: Fluid = STILL,
        start: float = 0.0,
        priority: int = 0,
    ) -> int:
        charged = {self.index(k): v for k, v in sorted(moves.charges.items()) if v > 0}
        self.flows.append(
            FluidFlow(
                name=name,
                work=work,
                charges=charged,
                delay=moves.delay,
                cap=moves.cap,
                priority=priority,
                start=start,
                after=tuple(after),
            )
        )
        return len(self.flows) - 1


@dataclass(frozen=True)
class Part:
    """Where one demand or compute block stands in the simulation: its flows, repeat by repeat."""

    name: str
    setup: int
    repeats: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Composition:
    """A simulated plan."""

    parts: tuple[Part, ...]
    compute: tuple[Part, ...]
    resources: tuple[str, ...]
    result: FluidResult

    def start(self, part: Part) -> float:
        """When the part became ready."""
        return self.result.ready[part.setup]

    def finish(self, part: Part, repeat: int = -1) -> float:
        """When a repeat of the part ended; the last one unless said."""
        return self.result.finish[part.repeats[repeat][-1]]

    def moving(self, part: Part) -> list[tuple[float, float]]:
        """The intervals in which the part is under way, setup left out."""
        return [
            (self.result.ready[chain[0]], self.result.finish[chain[-1]]) for chain in part.repeats
        ]


def compose(
    plan: Plan,
    machine: Machine,
    demands: Sequence[Demand],
    candidates: Sequence[Candidate],
) -> Composition:
    """Simulate the plan with one chosen candidate for each demand.

    Dependencies are settled by name: `after` a flow waits for its last repeat on every destination.
    """
    builder = _Builder()
    ends: dict[str, list[int]] = {}
    parts: dict[int, Part] = {}
    compute: dict[str, Part] = {}
    for kind, key in _order(plan, demands):
        if kind == "compute":
            compute[key] = _add_compute(builder, plan, machine, key, ends)
        else:
            at = int(key)
            parts[at] = _add_demand(builder, demands[at], candidates[at], ends)
    resources = tuple(builder.resources)
    result = simulate([Resource(name, 1.0) for name in resources], builder.flows)
    return Composition(
        tuple(parts[i] for i in range(len(demands))),
        tuple(compute[name] for name in plan.compute),
        resources,
        result,
    )


def _add_demand(
    builder: _Builder, demand: Demand, candidate: Candidate, ends: dict[str, list[int]]
) -> Part:
    """A demand's setup, then its movements, repeat after repeat."""
    after = [i for name in demand.after for i in ends[name]]
    setup = builder.add(
        demand.need.name, after=after, moves=waits(candidate.setup_seconds), start=demand.start
    )
    last, repeats = setup, []
    movements = list(zip(candidate.way.movements, candidate.shapes, strict=True))
    fluids = [(m, fluid(m, shape)) for m, shape in movements]
    for _ in range(demand.need.repeat):
        chain = []
        for movement, flow in fluids:
            last = builder.add(
                demand.need.name,
                after=[last],
                work=movement.size if flow.total > 0 else 0.0,
                moves=flow,
                priority=demand.priority,
            )
            chain.append(last)
        repeats.append(tuple(chain))
    ends.setdefault(demand.flow, []).append(last)
    return Part(demand.need.name, setup, tuple(repeats))


def _add_compute(
    builder: _Builder, plan: Plan, machine: Machine, name: str, ends: dict[str, list[int]]
) -> Part:
    """A compute block keeps the processors of its GPU; its work is seconds."""
    block = plan.compute[name]
    seconds = block.time
    if seconds is None:
        seconds = (block.bytes or 0) / gpu_rate(machine, block.gpu)
    after = [i for other in block.after for i in ends[other]]
    setup = builder.add(name, after=after, start=block.start)
    last, repeats = setup, []
    work = Fluid(seconds, 0.0, 1.0, {f"{block.gpu}.compute": 1.0}, ())
    for _ in range(block.repeat):
        last = builder.add(name, after=[last], work=seconds, moves=work)
        repeats.append((last,))
    ends.setdefault(name, []).append(last)
    return Part(name, setup, tuple(repeats))


def _order(plan: Plan, demands: Sequence[Demand]) -> list[tuple[str, str]]:
    """Flows and compute blocks so that each comes behind what it waits for.

    The plan's loader has refused cycles and unknown names, so a pass always settles something.
    """
    waiting: list[tuple[str, str, str, tuple[str, ...]]] = [
        ("flow", str(i), d.flow, d.after) for i, d in enumerate(demands)
    ]
    waiting += [("compute", name, name, block.after) for name, block in plan.compute.items()]
    ordered: list[tuple[str, str]] = []
    while waiting:
        open_names = {name for _, _, name, _ in waiting}
        ready = [w for w in waiting if not open_names & set(w[3])]
        if not ready:
            raise ValueError(f"a cycle of `after` among {', '.join(sorted(open_names))}")
        ordered += [(kind, key) for kind, key, _, _ in ready]
        waiting = [w for w in waiting if w not in ready]
    return ordered
