"""One point of a sweep: the plan with a few more settings, estimated, and what is kept of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planner.errors import PlanError, PlannerError
from planner.plan.load import LoadedPlan, PlanText
from planner.plan.matrix import Axis, setting
from planner.results import Estimate, FlowEstimate
from planner.results.sweep import SweepFlow, SweepPoint
from planner.review.inputs import HERE, name_faults, only_flows, require_names
from planner.review.objectives import estimate_metrics, price_per_hour

if TYPE_CHECKING:
    from planner.machine.schema import Machine

MachineKey = tuple[str, str]
"""How a plan names its machine: the name, and the folder that a file's path starts from."""


@dataclass(frozen=True, slots=True)
class Scene:
    """All that the points of a sweep share; it travels to the processes that work on them.

    `machines` are those that the points name, without the points' overrides. A machine is changed
    once for each set of overrides that follow each other (`_changed`).
    """

    text: PlanText
    settings: tuple[str, ...]
    only: tuple[str, ...]
    axes: tuple[Axis, ...]
    metric: str
    machines: dict[MachineKey, Machine]
    _changed: dict[tuple[object, ...], Machine] = field(default_factory=dict)

    def load(self, values: Sequence[str]) -> LoadedPlan:
        """The plan at the point that `values` name, one of each axis; raises `PlanError`."""
        own = [setting(axis, value) for axis, value in zip(self.axes, values, strict=True)]
        loaded = self.text.plan([*self.settings, *own])
        if not self.only:
            return loaded
        return LoadedPlan(only_flows(loaded.plan, self.only), loaded.positions)

    def machine(self, loaded: LoadedPlan) -> Machine:
        """The machine of a loaded point with its overrides; raises what `estimate` would."""
        from planner.machine.override import with_overrides

        plan = loaded.plan
        name = machine_key(loaded)
        key = (*name, *plan.overrides.items())
        machine = self._changed.get(key)
        if machine is None:
            machine = with_overrides(self.machines[name], plan.overrides)
            self._changed.clear()
            self._changed[key] = machine
        if plan.machine == HERE:
            require_names(loaded, machine)
        elif faults := name_faults(loaded, machine):
            raise PlanError(f"the plan does not fit {machine.name}", faults=faults)
        return machine


def machine_key(loaded: LoadedPlan) -> MachineKey:
    """How the machine of a loaded plan is known to its `Scene`."""
    return loaded.plan.machine, loaded.plan.directory


def point(scene: Scene, index: int, values: Sequence[str]) -> SweepPoint:
    """The point that `values` name: its estimate in short, or why there is none."""
    from planner.model.estimate import estimate as predict
    from planner.review.answers import judged

    settings = {axis.key: value for axis, value in zip(scene.axes, values, strict=True)}
    try:
        loaded = scene.load(values)
        machine = scene.machine(loaded)
        estimate = judged(predict(loaded.plan, machine, brief=True), loaded.plan, brief=True)
    except PlannerError as error:
        return SweepPoint(
            index=index,
            settings=settings,
            feasible=False,
            reason=_reason(error),
            exit_code=int(error.exit_code),
        )
    return _in_short(estimate, index, settings, scene.metric)


def _reason(error: PlannerError) -> str:
    """The first thing that is wrong, in one line."""
    faults = getattr(error, "faults", ())
    if not faults:
        return error.message.splitlines()[0]
    first = faults[0]
    several = f" ({len(faults)} faults)" if len(faults) > 1 else ""
    return f"{first.path}: {first.message}{several}" if first.path else first.message


def _in_short(estimate: Estimate, index: int, settings: dict[str, str], metric: str) -> SweepPoint:
    values = estimate_metrics(estimate).values
    hosts, gpus = hardware(estimate.machine)
    return SweepPoint(
        index=index,
        settings=settings,
        feasible=True,
        exit_code=estimate.verdict.exit_code,
        machine=str(estimate.machine["name"]),
        value=values.get(metric),
        makespan_s=estimate.makespan_s,
        interval_s=estimate.interval_s,
        bottleneck=estimate.bottleneck,
        flows=tuple(_flow(flow) for flow in estimate.flows),
        objectives=estimate.objectives,
        price_per_hour=price_per_hour(estimate.machine),
        cost=values.get("cost"),
        hosts=hosts,
        gpus=gpus,
        ring_bytes=sum(flow.ring_bytes * flow.members for flow in estimate.flows),
        pinned_bytes=sum(node.pinned_bytes * node.members for node in estimate.nodes),
    )


def hardware(machine: Mapping[str, Any]) -> tuple[int, int]:
    """How many hosts and how many GPUs a machine has; places on one host share their prefix.

    >>> hardware({"nodes": {"n{i}.host0": {"kind": "ram"}, "n{i}.host1": {"kind": "ram"},
    ...                     "n{i}.gpu0": {"kind": "hbm"}}, "replicate": {"i": "0..3"}})
    (4, 4)
    """
    from planner.machine.replicate import count

    replicate = machine.get("replicate") or {}
    kinds = {name: node["kind"] for name, node in machine["nodes"].items()}
    hosts = dict.fromkeys(n.rpartition(".")[0] for n, kind in kinds.items() if kind == "ram")
    gpus = [name for name, kind in kinds.items() if kind == "hbm"]
    return sum(count(replicate, name) for name in hosts), sum(count(replicate, n) for n in gpus)


def _flow(flow: FlowEstimate) -> SweepFlow:
    hops = flow.schedule.hops
    widest = max(hops, key=lambda hop: hop.workers * hop.depth * hop.chunk_bytes)
    return SweepFlow(
        name=flow.name,
        duration_s=flow.duration_s,
        rate_bytes_per_s=flow.rate_bytes_per_s,
        route=(hops[0].start, *(hop.end for hop in hops)),
        strategies=tuple(hop.strategy for hop in hops),
        chunk_bytes=widest.chunk_bytes,
        depth=widest.depth,
        workers=widest.workers,
    )
