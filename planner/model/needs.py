"""From a plan to needs: names resolved, replicas written out, budgets and pins gathered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from planner.errors import Fault, InfeasibleError, PlanError
from planner.machine.schema import Disk, Hbm, Machine, Ram
from planner.model.classes import class_keys, class_label, class_members, class_name
from planner.model.need import Need, Pins, details, end_kind
from planner.plan.schema import Flow, Plan

PINNED_SHARE = 0.30
"""Share of the host's memory that may be pinned unless the plan or the machine says otherwise:
pinned pages cannot be reclaimed, and the rest of the host has to live beside them."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A need and where it came from: the flow of the plan and what it waits for.

    It stands for `members` equal flows. `buffers` is how many of its repeats may be ahead of what
    follows it in step, `kept` how many its destination holds. `copies` says that other destinations
    get the same bytes.
    """

    need: Need
    flow: str
    after: tuple[str, ...]
    start: float
    priority: int
    buffers: int = 2
    members: int = 1
    copies: bool = False
    kept: int = 1


def demands(
    plan: Plan, machine: Machine, cached: Mapping[str, float] | None = None
) -> list[Demand]:
    """Every movement of bytes that the plan asks for, in plan order.

    Parameters
    ----------
    plan, machine
        The plan, and the machine whose nodes it names.
    cached
        Share of each flow's source file that is in the page cache where that was probed; it
        settles `cache: auto`, which counts as cold otherwise.

    Raises
    ------
    PlanError
        If a flow names a node that the machine lacks, or has no size.
    InfeasibleError
        If bytes cannot rest at an end of a flow.

    """
    found: list[Demand] = []
    for name, flow in plan.flows.items():
        copies = flow.copy_mode == "replicate" and len(flow.destinations) > 1
        for copy in _copies(machine, name, flow):
            for node in (copy.start, copy.end):
                if node not in machine.nodes:
                    raise _unknown_node(plan, machine, name, node)
            share = _cached(flow, (cached or {}).get(name))
            need = _need(plan, machine, flow, copy, share)
            need = replace(need, rate=rate_of(plan, flow))
            found.append(
                Demand(
                    need,
                    name,
                    flow.after,
                    flow.start,
                    flow.priority,
                    flow.buffers,
                    copy.members,
                    copies,
                    _kept(plan, name, flow),
                )
            )
    return found


def rate_of(plan: Plan, flow: Flow) -> float | None:
    """The lower of the flow's and the plan's cap, bytes/s; `None` where there is none."""
    caps = [cap for cap in (flow.budget.rate, plan.budget.rate) if cap is not None]
    return min(caps, default=None)


def _kept(plan: Plan, name: str, flow: Flow) -> int:
    """How many repeats lie at the destination at once: `buffers` where something consumes them."""
    consumers = [(f.after, f.repeat) for f in plan.flows.values()]
    consumers += [(block.after, block.repeat) for block in plan.compute.values()]
    in_step = any(name in after and repeat == flow.repeat for after, repeat in consumers)
    return min(flow.buffers, flow.repeat) if in_step else 1


class _Copy(NamedTuple):
    """One of the equal flows that `for_each` and several destinations make."""

    label: str
    start: str
    end: str
    size: int
    spell: Callable[[str], str]
    members: int = 1


def _copies(machine: Machine, name: str, flow: Flow) -> Iterator[_Copy]:
    """The copies of a flow: one a destination where the machine's classes hold, else all."""
    keys = class_keys(flow, machine) if flow.for_each else None
    if keys is None:
        yield from _instances(name, flow)
        return
    start = class_name(flow.source, keys)
    label = class_label(name, flow)
    for i, destination in enumerate(flow.destinations):
        own = f"{label[:-1]}, {destination}]" if len(flow.destinations) > 1 else label
        end = class_name(destination, keys)
        share = _share(flow, _size(flow), i)
        spell = partial(class_name, keys=keys)
        yield _Copy(own, start, end, share, spell, class_members(flow))


def _size(flow: Flow) -> int:
    return flow.size if flow.size is not None else sum(f.size_bytes for f in flow.files)


def _share(flow: Flow, size: int, i: int) -> int:
    """Bytes of the i-th destination."""
    count = len(flow.destinations)
    if flow.copy_mode == "shard" and count > 1:
        return size // count + (i < size % count)
    return size


def _instances(name: str, flow: Flow) -> Iterator[_Copy]:
    """Every copy of a flow, named after the flow alone where there is just one."""
    size = _size(flow)
    several = len(flow.destinations) > 1 or flow.copies > 1
    for values in flow.instances():
        for i, destination in enumerate(flow.destinations):
            start, end = flow.source.format(**values), destination.format(**values)
            inside = ", ".join([*(f"{k}={v}" for k, v in values.items()), end])
            label = f"{name}[{inside}]" if several else name
            spell = partial(_filled, values=values)
            yield _Copy(label, start, end, _share(flow, size, i), spell)


def _filled(name: str, values: Mapping[str, int]) -> str:
    return name.format(**values)


def _cached(flow: Flow, probed: float | None) -> float:
    """The share of the source that the page cache is taken to hold."""
    if flow.cache == "warm":
        return 1.0
    if flow.cache == "cold":
        return 0.0
    if flow.cache == "auto":
        return probed if probed is not None else 0.0
    return float(flow.cache)


def _need(plan: Plan, machine: Machine, flow: Flow, copy: _Copy, cached: float) -> Need:
    label, start, end, size, spell, _ = copy
    first, last = (end_kind(machine, node, flow.memory) for node in (start, end))
    if first is None or last is None:
        node = start if first is None else end
        raise InfeasibleError(f"flow {label}: bytes cannot rest at {node}, a nic or a remote place")
    host = host_of(machine, start, end)
    cores = min(c for c in (host.cores, flow.budget.cores, plan.budget.cores) if c is not None)
    written = flow.strategy if isinstance(flow.strategy, dict) else {}
    by_hop = {spell(hop): strategy for hop, strategy in written.items()}
    pins = Pins(
        route=tuple(spell(name) for name in flow.route),
        strategy=flow.strategy if isinstance(flow.strategy, str) else None,
        by_hop=by_hop,
        chunk=flow.chunk,
        depth=flow.depth,
        workers=flow.workers,
    )
    return Need(
        name=label,
        start=start,
        end=end,
        size=size,
        first=first,
        last=last,
        pinned_budget=pinned_budget(host, flow.budget.pinned, plan.budget.pinned),
        cores=cores,
        repeat=flow.repeat,
        cached=cached if first == "file" else 1.0,
        hot=flow.host_source == "hot",
        pins=pins,
        **details(flow),
    )


def host_of(machine: Machine, start: str, end: str) -> Ram:
    """The RAM that a flow between two nodes goes through or beside."""
    ends = (end, start) if isinstance(machine.nodes[start], Disk) else (start, end)
    for name in ends:  # a disk may be shared by hosts: the other end knows which one it is
        node = machine.nodes[name]
        if isinstance(node, Ram):
            return node
        host = machine.nodes.get(getattr(node, "host", ""))
        if isinstance(host, Ram):
            return host
    raise InfeasibleError(f"neither {start} nor {end} belongs to a host")


def pinned_budget(host: Ram, *caps: int | None) -> int:
    """Bytes that may be pinned: the least of the caps, else the machine's limit, else a share."""
    given = [cap for cap in caps if cap is not None]
    if given:
        return min(given)
    if host.pinned_limit is not None:
        return host.pinned_limit
    return int(PINNED_SHARE * (host.limit or host.capacity))


def _unknown_node(plan: Plan, machine: Machine, flow: str, node: str) -> PlanError:
    """The error for a node that this machine does not have."""
    known = ", ".join(sorted(machine.nodes))
    fault = Fault(
        file=plan.source_file or plan.name,
        line=0,
        column=0,
        path=f"flows.{flow}",
        message=f'machine {machine.name} has no node "{node}"',
        suggestion=f"it has {known}",
    )
    return PlanError(f"{fault.message}; {fault.suggestion}", faults=[fault])


def gpu_rate(machine: Machine, gpu: str) -> float:
    """Bytes/s that a kernel reads from a GPU's memory."""
    node = machine.nodes.get(gpu)
    if not isinstance(node, Hbm):
        raise InfeasibleError(f"compute runs on {gpu}, which is no GPU of {machine.name}")
    if node.rate is None:
        raise InfeasibleError(f"{machine.name} does not say how fast {gpu} reads its memory")
    return node.rate
