"""A plan with its arrangements as the flows of a simulation: every repeat of every movement.

Dependencies are settled by name. `after` something waits for its last repeat on every destination,
but where both repeat equally often they go in step: repeat k of the later waits for repeat k of
the earlier, and the earlier, if it is a flow with `buffers`, begins repeat k only when repeat
k - buffers of everything that follows it in step has ended. So it is at most `buffers` ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from planner.machine.schema import Hbm, Machine
from planner.model.arrange import Arrangement
from planner.model.fluid import STILL, Fluid, uneven_end, waits
from planner.model.needs import Demand, gpu_rate
from planner.model.steps import pairs_in_step
from planner.plan.schema import Plan

Kind = Literal["setup", "move", "compute", "join"]

EVERYWHERE = 1e12
"""Bytes/s at which the work of a GPU's processors is counted where it says nothing of its local
copies; any number gives the same times."""


@dataclass(slots=True)
class Spec:
    """One flow of the simulation before it is numbered; `after` are indices of others."""

    name: str
    kind: Kind
    job: int
    moves: Fluid
    work: float = 0.0
    start: float = 0.0
    priority: int = 0
    members: int = 1
    lane: int = 0
    step: int = 0
    repeat: int = 0
    after: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Job:
    """A demand or a compute block: its setup and its repeats, as indices of specs."""

    name: str
    plan_name: str
    repeat: int
    compute: bool
    after: tuple[str, ...]
    buffers: int | None
    source: str | None = None
    behind: str | None = None
    gpu: str = ""
    written: int = 1
    """Repeats of the plan; `repeat` may be fewer."""
    setup: int = -1
    heads: list[list[int]] = field(default_factory=list)
    """First flow of each lane, repeat by repeat."""
    tails: list[int] = field(default_factory=list)
    """The flow with which each repeat ends."""
    flows: list[list[int]] = field(default_factory=list)
    """All flows of a repeat."""


@dataclass(slots=True)
class Build:
    """Everything that is simulated. Jobs are in the order of their names, whatever the plan's."""

    specs: list[Spec] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    demand_job: dict[int, int] = field(default_factory=dict)
    compute_job: dict[str, int] = field(default_factory=dict)
    lanes: dict[tuple[int, int], tuple[Arrangement, int]] = field(default_factory=dict)
    """(job, lane) of the arrangement that it plays."""


def build(
    plan: Plan,
    machine: Machine,
    demands: Sequence[Demand],
    arrangements: Sequence[Arrangement],
    repeats: int | None = None,
) -> Build:
    """All flows of the plan; with `repeats`, what repeats more often than that repeats so often."""
    made = Build()
    capped = _Capped(repeats)
    names = sorted(
        [(d.need.name, "flow", i) for i, d in enumerate(demands)]
        + [(name, "compute", 0) for name in plan.compute]
    )
    chains = _chains(demands, arrangements)
    for name, kind, i in names:
        if kind == "compute":
            made.compute_job[name] = len(made.jobs)
            _add_compute(made, plan, machine, name, capped)
        else:
            made.demand_job[i] = len(made.jobs)
            _add_demand(made, demands[i], arrangements[i], chains.get(name, ()), capped)
    _link(made)
    return made


@dataclass(frozen=True, slots=True)
class _Capped:
    most: int | None

    def __call__(self, repeat: int) -> int:
        return repeat if self.most is None else min(repeat, self.most)


def _chains(
    demands: Sequence[Demand], arrangements: Sequence[Arrangement]
) -> dict[str, tuple[Arrangement, ...]]:
    """The copies that are made chunk by chunk while a flow comes in, by the flow's name."""
    by_name = {d.need.name: a for d, a in zip(demands, arrangements, strict=True)}
    found: dict[str, list[tuple[str, Arrangement]]] = {}
    for name, arrangement in by_name.items():
        if arrangement.fan != "chain":
            continue
        root = arrangement.source or ""
        while by_name[root].fan == "chain":
            root = by_name[root].source or ""
        found.setdefault(root, []).append((name, arrangement))
    return {root: tuple(a for _, a in sorted(f, key=lambda p: p[0])) for root, f in found.items()}


def _add_demand(
    made: Build,
    demand: Demand,
    arrangement: Arrangement,
    chained: Sequence[Arrangement],
    capped: _Capped,
) -> None:
    need = demand.need
    if chained:
        lanes = tuple(lane.passing_on(len(chained)) for lane in arrangement.lanes)
        arrangement = replace(arrangement, lanes=lanes)
    job = Job(
        need.name,
        demand.flow,
        capped(need.repeat),
        compute=False,
        after=demand.after,
        buffers=demand.buffers,
        source=arrangement.source,
        behind=arrangement.behind,
        written=need.repeat,
    )
    preparing = arrangement.preparing
    plain = Spec(
        need.name,
        "setup",
        len(made.jobs),
        preparing,
        priority=demand.priority,
        members=demand.members,
    )
    read = preparing.cap * (preparing.total - preparing.delay) if preparing.charges else 0.0
    job.setup = _add(made, replace(plain, work=read, start=demand.start, after=[]))
    moves = [_moves(arrangement, lane, chained) for lane in range(len(arrangement.lanes))]
    for lane in range(len(moves)):
        made.lanes[len(made.jobs), lane] = arrangement, lane
    made.jobs.append(job)
    for repeat in range(job.repeat):
        _add_repeat(made, job, plain, arrangement, moves, repeat)


def _add_repeat(
    made: Build,
    job: Job,
    plain: Spec,
    arrangement: Arrangement,
    moves: Sequence[Sequence[Fluid]],
    repeat: int,
) -> None:
    """One repeat: in every lane one movement after another, and then the end of all lanes."""
    heads, ends, flows = [], [], []
    for number, (lane, fluids) in enumerate(zip(arrangement.lanes, moves, strict=True)):
        last: int | None = None
        for step, moved in enumerate(fluids):
            spec = replace(plain, kind="move", moves=moved, lane=number, step=step, repeat=repeat)
            spec.work = lane.need.size if moved.total > 0 else 0
            spec.after = [] if last is None else [last]
            if last is None:
                heads.append(len(made.specs))
            last = _add(made, spec)
            flows.append(last)
        ends.append(job.setup if last is None else last)
    job.heads.append(heads)
    job.flows.append(flows)
    if len(ends) > 1:
        ends = [_add(made, replace(plain, kind="join", moves=STILL, after=ends))]
    job.tails.append(ends[0])


def _moves(
    arrangement: Arrangement, lane: int, chained: Sequence[Arrangement]
) -> tuple[Fluid, ...]:
    """The fluids of a lane. What copies of it take chunk by chunk is taken with its own bytes."""
    own = arrangement.lanes[lane].fluids
    if len(arrangement.lanes) > 1:
        own = tuple(uneven_end(moves, arrangement.unevenness) for moves in own)
    if arrangement.fan == "chain":  # its bytes are counted where they come from
        main = arrangement.main
        copy = main.fluids[0]  # and the last chunk arrives one copy later; its engine is awake then
        awake = copy.delay - main.movements[0].lead(main.candidate.shapes[0])
        return (waits(max(0.0, awake) + sum(copy.holds.values())),)
    if arrangement.handed and own:
        late = own[0].delay + arrangement.handed
        return (replace(own[0], delay=late, total=own[0].total + arrangement.handed), *own[1:])
    if not chained or not own:
        return own
    return (*own[:-1], _passing_on(own[-1], [c.main.fluids[0] for c in chained]))


def _passing_on(moves: Fluid, copies: Sequence[Fluid]) -> Fluid:
    """A fluid whose every chunk is copied on: it charges the copies' links too."""
    charges = dict(moves.charges)
    for copy in copies:
        for name, per_byte in copy.charges.items():
            charges[name] = charges.get(name, 0.0) + per_byte
    cap = min([moves.cap, *(c.cap for c in copies), *(1 / c for c in charges.values() if c > 0)])
    flowing = (moves.total - moves.delay) * moves.cap / cap
    engines = tuple(dict.fromkeys(name for fluid in (moves, *copies) for name in fluid.engines))
    total = moves.delay + flowing
    return replace(moves, total=total, cap=cap, charges=charges, engines=engines, one_call=False)


def _add(made: Build, spec: Spec) -> int:
    made.specs.append(spec)
    return len(made.specs) - 1


def compute_fluid(machine: Machine, gpu: str, seconds: float) -> tuple[Fluid, float]:
    """A block that keeps the processors of its GPU, and its work in bytes of a local copy."""
    node = machine.nodes[gpu]
    local = node.local if isinstance(node, Hbm) else None
    rate = local.rate if local is not None else EVERYWHERE
    processors = f"{gpu}.compute"
    moves = Fluid(
        seconds, 0.0, rate, {processors: 1 / rate}, (), engines=(processors,), one_call=True
    )
    return moves, seconds * rate


def block_seconds(plan: Plan, machine: Machine, name: str) -> float:
    """Seconds that one run of a compute block takes alone."""
    block = plan.compute[name]
    rate = None if block.time is not None else gpu_rate(machine, block.gpu)
    return block.time if rate is None else (block.bytes or 0) / rate  # type: ignore[return-value]


def _add_compute(made: Build, plan: Plan, machine: Machine, name: str, capped: _Capped) -> None:
    block, at = plan.compute[name], len(made.jobs)
    job = Job(
        name,
        name,
        capped(block.repeat),
        compute=True,
        after=block.after,
        buffers=None,
        gpu=block.gpu,
        written=block.repeat,
    )
    made.jobs.append(job)
    job.setup = _add(made, Spec(name, "setup", at, STILL, start=block.start))
    moves, work = compute_fluid(machine, block.gpu, block_seconds(plan, machine, name))
    for repeat in range(job.repeat):
        index = _add(made, Spec(name, "compute", at, moves, work, repeat=repeat))
        job.heads.append([index])
        job.flows.append([index])
        job.tails.append(index)


def _link(made: Build) -> None:
    """What waits for what."""
    by_name: dict[str, list[Job]] = {}
    by_label: dict[str, Job] = {}
    for job in made.jobs:
        by_name.setdefault(job.plan_name, []).append(job)
        by_label[job.name] = job
    in_step = pairs_in_step(
        {name: (jobs[0].written, jobs[0].after) for name, jobs in by_name.items()}
    )
    for job in made.jobs:
        for k in range(job.repeat):
            before = job.setup if k == 0 else job.tails[k - 1]
            _wait(made, job, k, before)
            for label in (job.source, job.behind):  # a copy of what has arrived there
                if label is not None:
                    _wait(made, job, k, by_label[label].tails[k])
        for other in (o for name in job.after for o in by_name[name]):
            if (other.plan_name, job.plan_name) not in in_step:
                made.specs[job.setup].after.append(other.tails[-1])
                continue
            made.specs[job.setup].after.append(other.tails[0])
            for k in range(job.repeat):
                _wait(made, job, k, other.tails[k])
                ahead = k + (other.buffers or 0)
                if other.buffers is not None and ahead < other.repeat:
                    _wait(made, other, ahead, job.tails[k])


def _wait(made: Build, job: Job, repeat: int, index: int) -> None:
    for head in job.heads[repeat]:
        if index not in made.specs[head].after:
            made.specs[head].after.append(index)
