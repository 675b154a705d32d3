"""What follows from a prediction: which link would help, and where its numbers come from."""

from __future__ import annotations

import re
from collections.abc import Callable

from planner.machine.override import with_overrides
from planner.machine.schema import Machine, Ram
from planner.model.compose import Composition
from planner.model.known import alike
from planner.results import WhatIf

TWICE = 2.0
"""Doubling is the question that reviewers ask: one link generation, or one more of the same."""
EACH = 64
"""Resources that matter, up to which each is doubled by itself. Beyond, equal members of a class
that carry as much stand for each other: a thousand are a thousand simulations of a thousand flows.
"""
_NUMBER = re.compile(r"\d+")
USED = 0.02
"""A resource that serves for less than this share of the makespan cannot matter when doubled."""


def what_if(
    machine: Machine, composed: Composition, makespan: Callable[[Machine], float]
) -> tuple[WhatIf, ...]:
    """The makespan with each resource that matters twice as fast, the most helpful first."""
    total = composed.makespan
    pairs = zip(composed.resources, composed.load, strict=True)
    matter = [(name, load) for name, load in pairs if total > 0 and load >= USED * total]
    known: dict[object, float] = {}
    rows = []
    for name, load in matter:
        key = name if len(matter) <= EACH else _kind(machine, name, load)
        if key not in known:
            faster = doubled(machine, name)
            if faster is None:
                continue
            known[key] = makespan(faster)
        rows.append(WhatIf(resource=name, factor=TWICE, makespan_s=known[key]))
    return tuple(sorted(rows, key=lambda row: (row.makespan_s, row.resource)))


def _kind(machine: Machine, resource: str, load: float) -> object:
    """What equal members of one class share: a name but for its numbers, figures, and the load.

    The description without its names tells a member that was changed from the others.
    """
    owner = resource.rpartition(".")[0]
    part = machine.links.get(owner) or machine.ports.get(owner) or machine.nodes.get(owner)
    figures = None if part is None else alike(part, [])
    return _NUMBER.sub("#", resource), figures, float(f"{load:.9g}")


def doubled(machine: Machine, resource: str) -> Machine | None:
    """The machine with one resource twice as fast, `None` for what is no link and no host copy."""
    owner, _, part = resource.rpartition(".")
    if owner in machine.links:
        return with_overrides(machine, {f"links.{owner}.{part}.rate": f"{TWICE:g}x"})
    if owner in machine.ports and part in ("forward", "backward"):
        port = machine.ports[owner]
        wider = port.model_copy(update={part: TWICE * (getattr(port, part) or 0.0)})
        return machine.model_copy(update={"ports": {**machine.ports, owner: wider}})
    node = machine.nodes.get(owner)
    if part == "copy" and isinstance(node, Ram):
        tables = {name: table.slower(1 / TWICE) for name, table in node.copy_rates.items()}
        faster = node.model_copy(update={"copy_rates": tables})
        return machine.model_copy(update={"nodes": {**machine.nodes, owner: faster}})
    return None


def provenance(machine: Machine) -> tuple[str, ...]:
    """One line a source: what kind, when, where, and the spread that was kept."""
    lines = []
    for name, source in machine.sources.items():
        spread = "no spread kept" if source.spread is None else f"spread {source.spread:.1%}"
        lines.append(f"{name}: {source.kind} {source.when}, {source.where} ({spread})")
    return tuple(lines)
