"""What `planner estimate` emits: the prediction of every flow, resource and node."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from planner.results.judged import ObjectiveResult, Verdict
from planner.schedule import FlowSchedule, Hop, Result, SetupStep

Cause = Literal[
    "bandwidth",
    "latency",
    "queue_depth",
    "issue_overhead",
    "page_faults",
    "host_copy",
    "serial_stages",
    "peer_path",
    "capacity",
    "cipher",
    "compute",
    "setup",
]


class Bottleneck(Result):
    """The resource that limits, why, and the share of the time in which it is busy."""

    resource: str
    cause: Cause
    share: float


class HopEstimate(Result):
    """A hop of the schedule with its prediction.

    `busy_s` is the time in which the hop's own resource serves this flow, once; `rate_bytes_per_s`
    the size over that; `share` the busy time over the flow's steady time.
    """

    hop: Hop
    resource: str
    busy_s: float
    rate_bytes_per_s: float
    share: float


class Rejected(Result):
    """A candidate that was not chosen: its best time, or why it does not apply.

    `duration_s` is `None` for a candidate that is not feasible. `reason` is a full clause.
    """

    strategies: tuple[str, ...]
    route: tuple[str, ...]
    chunk_bytes: int | None = None
    depth: int | None = None
    workers: int | None = None
    duration_s: float | None = None
    reason: str


class FlowEstimate(Result):
    """The prediction of one flow.

    `duration_s` = setup once + repeats x steady, with the process up; `first_s` the first repeat
    with its setup; `steady_s` one further repeat; `start_s` and `finish_s` on the plan's clock.
    `interval_s` is (all rates at their upper, at their lower quartile), `None` where no spread is
    known. `exposed_s` is the part of the transfer that no compute block hides, `hidden_share` the
    share of it that one does; `alone_s` the duration alone; sizes and times those of each member.
    """

    name: str
    size_bytes: int
    repeat: int = 1
    members: int = 1
    schedule: FlowSchedule
    hops: tuple[HopEstimate, ...]
    setup: tuple[SetupStep, ...] = ()
    duration_s: float
    first_s: float
    steady_s: float
    rate_bytes_per_s: float
    start_s: float
    finish_s: float
    exposed_s: float
    hidden_share: float = 0.0
    alone_s: float | None = None
    interval_s: tuple[float, float] | None = None
    first_interval_s: tuple[float, float] | None = None
    bottleneck: Bottleneck
    ring_bytes: int = 0
    flat: str | None = Field(
        default=None,
        description="shapes that take at most 1 % longer alone, setup included, in words",
    )
    arithmetic: tuple[str, ...] = ()
    rejected: tuple[Rejected, ...] = ()


class ComputeEstimate(Result):
    """A compute block on the plan's clock."""

    name: str
    gpu: str
    duration_s: float
    start_s: float
    finish_s: float


class ResourceUse(Result):
    """One of `members` equal resources: seconds it serves; `active_s` counts waits of flows too."""

    name: str
    busy_s: float
    share: float
    active_s: float | None = None
    members: int = 1


class NodeUse(Result):
    """Peak memory at one node (each of `members`); `pinned_bytes` is the page-locked part."""

    name: str
    peak_bytes: int
    pinned_bytes: int = 0
    capacity_bytes: int | None = None
    pinned_limit_bytes: int | None = None
    members: int = 1


class WhatIf(Result):
    """The makespan if one resource were `factor` times as fast."""

    resource: str
    factor: float
    makespan_s: float


class Estimate(Result):
    """`planner estimate`: what will happen, never before `lower_bound_s`; `gap` says how near."""

    format: Literal["planner.estimate/1"] = "planner.estimate/1"
    planner: str
    plan: dict[str, Any]
    machine: dict[str, Any]
    emulated: bool = False
    flows: tuple[FlowEstimate, ...]
    compute: tuple[ComputeEstimate, ...] = ()
    makespan_s: float
    interval_s: tuple[float, float] | None = None
    bottleneck: Bottleneck
    resources: tuple[ResourceUse, ...]
    nodes: tuple[NodeUse, ...]
    objectives: tuple[ObjectiveResult, ...] = ()
    what_if: tuple[WhatIf, ...] = ()
    lower_bound_s: float | None = None
    gap: float | None = None
    context_s: float = 0.0
    provenance: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    verdict: Verdict
