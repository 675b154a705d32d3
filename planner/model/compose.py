"""A whole plan with its arrangements as one fluid simulation.

Each pipeline enters as {delay, work, cap, charges}, so that alone it takes exactly what it takes
alone, and among others it shares every resource that it charges. What depends on who is under way
together (`overlap`) is settled in a few rounds of simulation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.machine.replicate import members
from planner.machine.schema import Machine
from planner.model.arrange import Arrangement, made_ready
from planner.model.build import Build, Job, Spec, build
from planner.model.copier import slowed
from planner.model.cover import Cover
from planner.model.fluid import Fluid, engine_weight, fluid
from planner.model.needs import Demand
from planner.model.overlap import NONE, Corrections, refine
from planner.model.simulate import FluidFlow, FluidResult, Resource, simulate
from planner.plan.schema import Plan

__all__ = ["Composition", "Fluid", "Part", "compose", "fluid"]

ROUNDS = 6
"""Simulations of one plan at the most; overlaps settle after two or three."""


@dataclass(frozen=True, slots=True)
class Part:
    """One demand or compute block on the plan's clock, seconds.

    `start` is when it is ready, `first` the end of its first repeat, `finish` that of its last;
    `moving` the seconds in which a repeat is under way and `exposed` those of them that no compute
    block hides. `holder` is the resource that held it down for longest, `None` its own pace.
    """

    name: str
    start: float
    first: float
    finish: float
    moving: float
    exposed: float
    holder: str | None
    ends: tuple[float, ...] = field(repr=False, default=())
    """The end of every simulated repeat."""
    lanes: tuple[float, ...] = ()
    """Seconds under way of each lane, all repeats together."""
    kept: float = 0.0
    """Seconds that its setup took longer because others read from the same disk."""


@dataclass(frozen=True)
class Composition:
    """A simulated plan: parts in the order of the demands, compute in that of the plan."""

    parts: tuple[Part, ...]
    compute: tuple[Part, ...]
    resources: tuple[str, ...]
    load: tuple[float, ...]
    busy: tuple[float, ...]
    makespan: float
    flows: int = 0
    """Flows of the simulations that it took, repeats counted."""

    def start(self, part: Part) -> float:
        """When the part became ready."""
        return part.start

    def finish(self, part: Part, repeat: int = -1) -> float:
        """When the first (0) or the last (-1) repeat of the part ended."""
        return part.finish if repeat == -1 else part.first


def compose(
    plan: Plan,
    machine: Machine,
    demands: Sequence[Demand],
    arrangements: Sequence[Arrangement],
) -> Composition:
    """Simulate the plan with one arrangement for each demand.

    Equal plans give equal results to the last bit, whatever the order of their keys. Very many
    repeats are not all played where a few prove to be periodic.
    """
    from planner.model.periodic import extrapolated

    found = extrapolated(
        plan, demands, lambda repeats: play(plan, machine, demands, arrangements, repeats)
    )
    return found or play(plan, machine, demands, arrangements, None)


def steadily(
    plan: Plan,
    machine: Machine,
    demands: Sequence[Demand],
    arrangements: Sequence[Arrangement],
) -> Composition | None:
    """The plan once more with everything set up, where that is another course.

    Setups of different length keep flows apart that meet in a steady run. `None` where one flow
    is alone, or later repeats tell what is steady.
    """
    once = any(demand.need.repeat == 1 for demand in demands)
    if len(demands) < 2 or not once or not any(a.setup_seconds for a in arrangements):
        return None
    return compose(plan, machine, demands, [made_ready(a) for a in arrangements])


def play(
    plan: Plan,
    machine: Machine,
    demands: Sequence[Demand],
    arrangements: Sequence[Arrangement],
    repeats: int | None,
) -> Composition:
    """One simulation, with `repeats` of those that repeat more often."""
    made = build(plan, machine, demands, arrangements, repeats)
    names, result, corrections, rounds = _settle(made, machine, _budgets(plan, demands))
    holders = _holders(made, names, result, corrections)
    summary = _summary(plan, made, names, holders, result, len(demands))
    return replace(summary, flows=rounds * len(made.specs))


def followed(
    plan: Plan,
    machine: Machine,
    demands: Sequence[Demand],
    arrangements: Sequence[Arrangement],
) -> tuple[Build, FluidResult, Composition]:
    """Everything played, with every change of every rate: for who wants to see it happen."""
    made = build(plan, machine, demands, arrangements)
    caps = _budgets(plan, demands)
    _, _, corrections, _ = _settle(made, machine, caps)
    names, result = _simulate(made, machine, corrections, caps, record=True)
    holders = _holders(made, names, result, corrections)
    return made, result, _summary(plan, made, names, holders, result, len(demands))


def _settle(
    made: Build, machine: Machine, caps: Mapping[str, Mapping[str, float]]
) -> tuple[tuple[str, ...], FluidResult, Corrections, int]:
    """Resources, result and corrections once nothing changes any more, and the rounds it took."""
    corrections = NONE
    rounds = 1
    names, result = _simulate(made, machine, NONE, caps)
    while (further := refine(made, machine, result)) != corrections:
        if rounds == ROUNDS:
            break
        rounds += 1
        corrections = further
        names, result = _simulate(made, machine, corrections, caps)
    return names, result, corrections, rounds


def _budgets(plan: Plan, demands: Sequence[Demand]) -> dict[str, dict[str, float]]:
    """Seconds per byte of the rates that the plan allows, by flow: of its own and of the plan's."""
    found: dict[str, dict[str, float]] = {}
    for demand in demands:
        rates = {
            f"{demand.flow}.budget": plan.flows[demand.flow].budget.rate,
            "plan.budget": plan.budget.rate,
        }
        found[demand.need.name] = {name: 1 / rate for name, rate in rates.items() if rate}
    return found


def _simulate(
    made: Build,
    machine: Machine,
    corrections: Corrections,
    caps: Mapping[str, Mapping[str, float]],
    *,
    record: bool = False,
) -> tuple[tuple[str, ...], FluidResult]:
    index: dict[str, int] = {}
    flows = []
    for spec in made.specs:
        moves = _corrected(spec, corrections)
        if spec.kind == "move" and spec.work > 0 and caps.get(spec.name):
            moves = replace(moves, charges={**moves.charges, **caps[spec.name]})
        charges = {
            index.setdefault(name, len(index)): value
            for name, value in sorted(moves.charges.items())
            if value > 0
        }
        engines = tuple(index[name] for name in moves.engines if index.get(name) in charges)
        flows.append(
            FluidFlow(
                name=spec.name,
                work=spec.work,
                charges=charges,
                delay=moves.delay,
                cap=moves.cap,
                weight=moves.weight,
                priority=spec.priority,
                start=spec.start,
                after=tuple(spec.after),
                members=spec.members,
                engines=engines,
                one_call=moves.one_call and len(engines) == 1,
            )
        )
    resources = [
        Resource(name, 1.0, members(machine, name), engine_weight(machine, name)) for name in index
    ]
    return tuple(index), simulate(resources, flows, record=record)


def _corrected(spec: Spec, corrections: Corrections) -> Fluid:
    moves = spec.moves
    if spec.kind != "move":
        return moves
    key = spec.job, spec.lane, spec.step
    if key in corrections.copies:
        slower = corrections.copies[key]
        cap = min(moves.cap, slower.rate)
        charges = slowed(moves.charges, slower.factor, slower.crowding)
        moves = replace(moves, charges=charges, cap=cap)
    if key in corrections.delays:
        moves = replace(moves, delay=moves.delay + corrections.delays[key])
    return moves


def _holders(
    made: Build, names: Sequence[str], result: FluidResult, corrections: Corrections
) -> list[str | None]:
    """What held each flow of the simulation down, `None` where that was its own pace alone.

    A pace that others' copies have slowed down is the host's copying.
    """
    found: list[str | None] = []
    for spec, held in zip(made.specs, result.bottleneck, strict=True):
        slower = corrections.copies.get((spec.job, spec.lane, spec.step))
        if held >= 0:
            found.append(names[held])
        elif spec.kind == "move" and slower is not None and slower.rate < spec.moves.cap:
            found.append(slower.resource)
        else:
            found.append(None)
    return found


def _summary(
    plan: Plan,
    made: Build,
    names: tuple[str, ...],
    holders: Sequence[str | None],
    result: FluidResult,
    count: int,
) -> Composition:
    blocks = Cover(
        (result.begin[i], result.finish[i])
        for i, spec in enumerate(made.specs)
        if spec.kind == "compute"
    )
    parts = [_part(made, job, holders, result, blocks) for job in made.jobs]
    return Composition(
        tuple(parts[made.demand_job[i]] for i in range(count)),
        tuple(parts[made.compute_job[name]] for name in plan.compute),
        names,
        result.load,
        result.busy,
        result.makespan,
    )


def _part(
    made: Build, job: Job, holders: Sequence[str | None], result: FluidResult, blocks: Cover
) -> Part:
    moving = exposed = 0.0
    lanes: dict[int, float] = {}
    held: dict[str, float] = {}
    kept = 0.0
    if made.specs[job.setup].work > 0:  # what the setup reads may have to wait for others, too
        alone = made.specs[job.setup].moves.total
        kept = max(0.0, result.finish[job.setup] - result.ready[job.setup] - alone)
        held[holders[job.setup] or ""] = result.finish[job.setup] - result.begin[job.setup]
    for heads, flows, tail in zip(job.heads, job.flows, job.tails, strict=True):
        start = min((result.ready[i] for i in heads), default=result.finish[tail])
        end = result.finish[tail]
        moving += end - start
        exposed += blocks.exposed(start, end)
        for i in flows:
            spent = result.finish[i] - result.begin[i]
            holder = holders[i] or ""  # its own pace comes first by name
            held[holder] = held.get(holder, 0.0) + spent
            lane = made.specs[i].lane
            lanes[lane] = lanes.get(lane, 0.0) + result.finish[i] - result.ready[i]
    longest = max(sorted(held), key=lambda name: held[name], default="")
    return Part(
        job.name,
        result.ready[job.setup],
        result.finish[job.tails[0]],
        result.finish[job.tails[-1]],
        moving,
        exposed,
        longest or None,
        tuple(result.finish[i] for i in job.tails),
        tuple(lanes[k] for k in sorted(lanes)),
        kept,
    )
