"""The same machine with other parts: for tests that change one figure of a small machine."""

from __future__ import annotations

from typing import Any

from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model.choose import Candidate, Decision, decide, evaluate
from planner.model.need import Need
from planner.model.strategies import Kind
from planner.model.ways import ways
from tests.helpers.machines import one_gpu


def changed(machine: Machine, parts: dict[str, Any]) -> Machine:
    """The machine with each dotted path of its file set to a value.

    `links.pcie0.forward.curves.zero_copy` adds a curve, `nodes.host0.cipher` a figure.
    """
    tree = machine.model_dump(mode="json", by_alias=True)
    for path, value in parts.items():
        *above, last = path.split(".")
        block = tree
        for word in above:
            block = block[word]
        block[last] = value
    return Machine.model_validate(tree)


UP = "links.pcie0.forward"
DOWN = "links.pcie0.backward"
READ = "links.storage0.forward"
WRITE = "links.storage0.backward"


def upload(size: int, first: Kind = "pageable", **more: Any) -> Need:
    """From host0 to gpu0; 16 GB may be pinned, eight cores may be used."""
    kept: dict[str, Any] = {"pinned_budget": 16 * 10**9, "cores": 8} | more
    return Need("up", "host0", "gpu0", size, first, "device", **kept)


def load(size: int, **more: Any) -> Need:
    """From a cached file of disk0 to gpu0."""
    kept: dict[str, Any] = {"pinned_budget": 16 * 10**9, "cores": 8} | more
    return Need("load", "disk0", "gpu0", size, "file", "device", **kept)


def every(machine: Machine, need: Need) -> Decision:
    """The decision on a machine."""
    return decide(Topology(machine), need)


def by(machine: Machine, need: Need, *names: str) -> Candidate:
    """The fastest candidate that goes by these strategies, hop by hop."""
    decision = decide(Topology(machine), need)
    found = [c for c in (decision.best, *decision.others) if c.way.names == names]
    assert found, [c.way.names for c in (decision.best, *decision.others)]
    return found[0]


def reason(machine: Machine, need: Need, *names: str) -> str:
    """Why no way by these strategies applies."""
    topology = Topology(machine)
    found = [evaluate(machine, need, w) for w in ways(topology, need) if w.names == names]
    if names == ("gds",) and not found:
        return next(r.reason for r in every(machine, need).infeasible if r.strategies == names)
    told = next(answer for answer in found if isinstance(answer, str))
    assert all(isinstance(answer, str) for answer in found)
    return told


__all__ = [
    "DOWN",
    "READ",
    "UP",
    "WRITE",
    "by",
    "changed",
    "every",
    "load",
    "one_gpu",
    "reason",
    "upload",
]
