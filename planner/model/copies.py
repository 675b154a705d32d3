"""Estimates of copies: which flow brings their bytes, and what that means for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.results import FlowEstimate


def brings(flows: Mapping[str, FlowEstimate], flow: FlowEstimate) -> FlowEstimate:
    """The flow, by name among `flows`, that brings the bytes of a copy of a copy; else itself."""
    while flow.schedule.copy_of is not None:
        flow = flows[flow.schedule.copy_of]
    return flow


def exposed_setup(flow: FlowEstimate) -> float:
    """Seconds of a flow's setup that hide behind nothing."""
    return sum(step.duration_s for step in flow.setup if not step.overlapped)


def passed_on(flows: Sequence[FlowEstimate]) -> tuple[FlowEstimate, ...]:
    """The flows, where copies know of whoever brings their bytes.

    Bytes that are passed on chunk by chunk are limited by what limits them where they come in.
    """
    by_name = {flow.name: flow for flow in flows}

    def told(flow: FlowEstimate) -> FlowEstimate:
        first = brings(by_name, flow)
        if first is flow or flow.schedule.fan != "chain":
            return flow
        return flow.model_copy(update={"bottleneck": first.bottleneck})

    return tuple(map(told, flows))
