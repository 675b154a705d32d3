"""Where the difference between predicted and measured comes from.

The excess of a flow is split over its hops (busy time measured less predicted), its setup, and
what is left: time in which the hops overlapped less than predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from planner.results import FlowEstimate, FlowRun, Run, SetupStep


class Blame(NamedTuple):
    """A part of a flow's excess: who, and how many seconds (negative: it was faster)."""

    part: str
    excess_s: float


def flow_excess(flow: FlowRun) -> float:
    """Seconds by which the flow's duration exceeds the prediction; negative if it was faster."""
    return flow.duration_s - flow.predicted_s


def blame(flow: FlowRun, predicted: FlowEstimate | None) -> list[Blame]:
    """The parts of the flow's excess, the largest first; they sum to the excess.

    Parameters
    ----------
    flow
        as measured. Its hops' busy times are those of one repeat.
    predicted
        the same flow of the estimate; without it the setup counts as overlap.
    """
    excess = flow_excess(flow)
    parts = [
        Blame(f"{hop.hop.start} → {hop.hop.end}", (hop.busy_s - hop.predicted_s) * flow.repeat)
        for hop in flow.hops
    ]
    if predicted is not None and (flow.setup or predicted.setup):
        parts.append(Blame("setup", _exposed(flow.setup) - _exposed(predicted.setup)))
    rest = excess - sum(part.excess_s for part in parts)
    parts.append(Blame("overlap", rest))
    return sorted(parts, key=lambda part: -abs(part.excess_s))


def _exposed(steps: Sequence[SetupStep]) -> float:
    """Seconds of setup that hide behind nothing."""
    return sum(step.duration_s for step in steps if not step.overlapped)


def blame_run(run: Run) -> list[tuple[FlowRun, list[Blame]]]:
    """The blame of every flow of a run, in the order of the plan."""
    predicted = {flow.name: flow for flow in run.estimate.flows}
    return [(flow, blame(flow, predicted.get(flow.name))) for flow in run.flows]
