"""Flows that are alike on machines of many equal parts: one class instead of many flows.

A flow with `for_each` over all of a machine's replicas stays one flow with `members`; where a plan
names a single one of them, or only some, the machine is written out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from planner.machine.replicate import placeholders, values_of, written_out
from planner.machine.schema import Machine
from planner.plan.schema import Flow, Plan


def fitted(plan: Plan, machine: Machine) -> Machine:
    """The machine as the plan can use it: as classes where all flows are, else written out.

    Raises `InfeasibleError` where it is too large to be written out.
    """
    if not machine.replicate:
        return machine
    return machine if _on_classes(plan, machine) else written_out(machine)


def _on_classes(plan: Plan, machine: Machine) -> bool:
    """Whether each flow is a whole class of the machine, and no compute block is one of many."""
    whole = all(class_keys(flow, machine) is not None for flow in plan.flows.values())
    return whole and all(block.gpu in machine.nodes for block in plan.compute.values())


def flows_apart(plan: Plan, machine: Machine) -> int:
    """How many flows are predicted each for itself; a class of equal ones counts as one."""
    classes = _on_classes(plan, machine)
    return sum(
        len(flow.destinations) * (1 if classes else flow.copies) for flow in plan.flows.values()
    )


def class_keys(flow: Flow, machine: Machine) -> dict[str, str] | None:
    """The machine's key behind each key of `for_each`, `None` where the flow is no whole class."""
    if flow.for_each and not machine.replicate:
        return None
    keys: dict[str, str] = {}
    for name in (flow.source, *flow.destinations, *flow.route):
        found = _match(name, flow, machine, keys)
        if found is None:
            return None
        keys |= found
    one_each = len(set(keys.values())) == len(keys)
    return keys if one_each else None


def _match(
    name: str, flow: Flow, machine: Machine, known: Mapping[str, str]
) -> dict[str, str] | None:
    """The keys behind the placeholders of one name of the flow."""
    own = placeholders(name)
    if not own:
        return {} if name in machine.nodes or name in machine.links else None
    for candidate in (*machine.nodes, *machine.links):
        theirs = placeholders(candidate)
        if _skeleton(candidate) != _skeleton(name) or len(theirs) != len(own):
            continue
        found = dict(zip(own, theirs, strict=True))
        agrees = all(known.get(key, other) == other for key, other in found.items())
        whole = all(
            tuple(flow.for_each.get(key, ())) == tuple(values_of(machine.replicate[other]))
            for key, other in found.items()
        )
        return found if agrees and whole else None
    return None


def _skeleton(name: str) -> str:
    return re.sub(r"\{\w+\}", "{}", name)


def class_name(name: str, keys: Mapping[str, str]) -> str:
    """A name of the flow in the machine's own words."""
    return re.sub(r"\{(\w+)\}", lambda match: "{" + keys.get(match[1], match[1]) + "}", name)


def class_members(flow: Flow) -> int:
    """How many equal flows the class stands for."""
    return math.prod(len(values) for values in flow.for_each.values())


def class_label(name: str, flow: Flow) -> str:
    """`load[node=0..63, gpu=0..7]`."""
    ranges = ", ".join(
        f"{key}={values[0]}..{values[-1]}" if len(values) > 1 else f"{key}={values[0]}"
        for key, values in flow.for_each.items()
    )
    return f"{name}[{ranges}]" if ranges else name
