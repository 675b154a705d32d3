"""What is said of a flow that cannot go."""

from __future__ import annotations

from collections.abc import Container, Sequence

from planner.errors import InfeasibleError
from planner.machine.override import failed_links
from planner.machine.topology import Topology
from planner.model.need import Need
from planner.model.strategies.unmeasured import how_to_measure
from planner.results import Rejected


def no_way(
    topology: Topology, need: Need, rejected: Sequence[Rejected], too_large: Container[str]
) -> InfeasibleError:
    """The error for a flow that cannot go: each reason once, with the ways that it stops.

    First come the reasons of `too_large`, of ways that would go if something were smaller, then
    what the machine lacks or the plan does not ask for; in each, what stops most ways is first.
    """
    failed = failed_links(topology.machine)
    without = f" without {' and '.join(failed)}" if failed else ""
    message = f"flow {need.name}: no way from {need.start} to {need.end}{without}"
    if not rejected:
        return InfeasibleError(f"{message}: {topology.why_not(need.start, need.end)}")
    stopped: dict[str, dict[str, None]] = {}
    near: dict[str, bool] = {}
    for row in rejected:
        names = " + ".join(row.strategies)
        reason = row.reason
        for name in (names, *row.strategies):  # what is stopped is told in brackets
            reason = reason.removeprefix(f"{name}: ")
        stopped.setdefault(reason, {})[names] = None
        near[reason] = near.get(reason, False) or row.reason in too_large
    order = sorted(stopped, key=lambda reason: (not near[reason], -len(stopped[reason]), reason))
    return InfeasibleError(
        message,
        reasons=[f"{reason} ({', '.join(stopped[reason])})" for reason in order],
        hint=how_to_measure(topology.machine, order),
    )
