"""A plan with its arrangements as the flows of a simulation: every repeat of every movement.

Dependencies are settled by name. `after` something waits for its last repeat on every destination,
but where both repeat equally often they go in step: repeat k of the later waits for repeat k of
the earlier, and the earlier, if it is a flow with `buffers`, begins repeat k only when repeat
k - buffers of everything that follows it in step has ended. So it is at most `buffers` ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from planner.machine.schema import Hbm, Machine
from planner.model.arrange import Arrangement
from planner.model.fluid import STILL, Fluid, uneven_end, waits
from planner.model.needs import Demand, gpu_rate
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
    need, at = demand.need, len(made.jobs)
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
    made.jobs.append(job)
    common = {"job": at, "priority": demand.priority, "members": demand.members}
    job.setup = _add(
        made, Spec(need.name, "setup", moves=waits(arrangement.setup_seconds), **common)  # type: ignore[arg-type]
    )
    made.specs[job.setup].start = demand.start
    for lane in range(len(arrangement.lanes)):
        made.lanes[at, lane] = arrangement, lane
    for repeat in range(job.repeat):
        heads, ends, flows = [], [], []
        for number, lane in enumerate(arrangement.lanes):
            last: int | None = None
            for step, moves in enumerate(_moves(arrangement, number, chained)):
                work = lane.need.size if moves.total > 0 else 0
                spec = Spec(need.name, "move", moves=moves, work=work, **common)  # type: ignore[arg-type]
                spec.lane, spec.step, spec.repeat = number, step, repeat
                if last is not None:
                    spec.after.append(last)
                else:
                    heads.append(len(made.specs))
                last = _add(made, spec)
                flows.append(last)
            ends.append(last if last is not None else job.setup)
        job.heads.append(heads)
        job.flows.append(flows)
        job.tails.append(ends[0] if len(ends) == 1 else _join(made, need.name, common, ends))


def _join(made: Build, name: str, common: Mapping[str, int], ends: Sequence[int]) -> int:
    spec = Spec(name, "join", moves=STILL, **common)  # type: ignore[arg-type]
    spec.after = list(ends)
    return _add(made, spec)


def _moves(
    arrangement: Arrangement, lane: int, chained: Sequence[Arrangement]
) -> tuple[Fluid, ...]:
    """The fluids of a lane. What copies of it take chunk by chunk is taken with its own bytes."""
    own = arrangement.lanes[lane].fluids
    if len(arrangement.lanes) > 1:
        chunk = max(shape.chunk for shape in arrangement.lanes[lane].candidate.shapes)
        own = tuple(uneven_end(moves, chunk) for moves in own)
    if arrangement.fan == "chain":  # its bytes are counted where they come from
        copy = arrangement.main.fluids[0]  # and the last chunk arrives one copy later
        return (waits(copy.delay + sum(copy.holds.values())),)
    if not chained or not own:
        return own
    last = own[-1]
    charges = dict(last.charges)
    for copy in chained:
        for name, per_byte in copy.main.fluids[0].charges.items():
            charges[name] = charges.get(name, 0.0) + per_byte
    cap = min([last.cap, *(c.main.fluids[0].cap for c in chained)])
    cap = min([cap, *(1 / c for c in charges.values() if c > 0)])
    share = (last.total - last.delay) * last.cap / cap
    slower = Fluid(
        last.delay + share, last.delay, cap, charges, last.busy, last.weight, last.holds
    )
    return (*own[:-1], slower)


def _add(made: Build, spec: Spec) -> int:
    made.specs.append(spec)
    return len(made.specs) - 1


def compute_fluid(machine: Machine, gpu: str, seconds: float) -> tuple[Fluid, float]:
    """A block that keeps the processors of its GPU, and its work in bytes of a local copy."""
    node = machine.nodes[gpu]
    local = node.local if isinstance(node, Hbm) else None
    rate = local.rate if local is not None else EVERYWHERE
    return Fluid(seconds, 0.0, rate, {f"{gpu}.compute": 1 / rate}, ()), seconds * rate


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
    in_step = _in_step(made.jobs, by_name)
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


def _in_step(jobs: Sequence[Job], by_name: Mapping[str, Sequence[Job]]) -> set[tuple[str, str]]:
    """The pairs (earlier, later) that go in step: equal repeats, and nothing that waits for the
    whole of the earlier stands between them."""
    first = {name: several[0] for name, several in by_name.items()}
    followers: dict[str, list[str]] = {name: [] for name in first}
    for name, job in first.items():
        for other in job.after:
            followers[other].append(name)
    equal = {
        (other, name)
        for name, job in first.items()
        for other in job.after
        if job.written == first[other].written > 1
    }

    def around(start: str, end: str) -> bool:
        """Whether a path leads from start to end that waits for the whole of something."""
        seen: set[tuple[str, bool]] = set()
        open_ = [(start, False)]
        while open_:
            at, whole = open_.pop()
            for name in followers[at]:
                state = (name, whole or (at, name) not in equal)
                if state == (end, True):
                    return True
                if state not in seen:
                    seen.add(state)
                    open_.append(state)
        return False

    return {pair for pair in sorted(equal) if not around(*pair)}
