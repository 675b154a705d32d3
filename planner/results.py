"""What `planner` emits: an `Estimate` (predicted) and a `Run` (measured), versioned, as JSON.

Keys carry their unit (`_s` seconds, `_bytes`, `_bytes_per_s`), numbers are numbers, lists keep the
order of the plan. Within a major format number fields are only added, and readers ignore fields
that they do not know; a break raises the number in `format`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from planner.schedule import CacheState, FlowSchedule, Hop, Result, SetupStep, SplitPart

__all__ = [
    "FORMATS",
    "Bottleneck",
    "CacheState",
    "Cause",
    "CheckResult",
    "ComputeEstimate",
    "ComputeRun",
    "Environment",
    "Estimate",
    "FlowEstimate",
    "FlowRun",
    "FlowSchedule",
    "Hop",
    "HopEstimate",
    "HopRun",
    "NodeUse",
    "ObjectiveResult",
    "Rejected",
    "ResourceUse",
    "Result",
    "Run",
    "SetupStep",
    "SplitPart",
    "Verdict",
    "WhatIf",
]

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
        description="the neighbourhood of the optimum within 1 %, in words",
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


class ObjectiveResult(Result):
    """One objective: `passed: true` means met.

    `margin` is (limit - value) / limit, signed so that positive is good; `holds_while` names the
    slack ("disk0 >= 5.6 GB/s").
    """

    text: str
    metric: str
    value: float | None
    limit: float
    unit: str
    passed: bool | None = Field(description="null: this result has no such metric")
    margin: float | None = None
    holds_while: str | None = None


class Verdict(Result):
    """The one value that the closing sentence and the exit code both come from."""

    passed: bool
    exit_code: int
    sentence: str


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


class HopRun(Result):
    """A hop measured: the union of its service intervals, the median over the samples."""

    hop: Hop
    resource: str
    predicted_s: float
    busy_s: float
    error_factor: float
    rate_bytes_per_s: float
    predicted_rate_bytes_per_s: float


class PartRun(Result):
    """One way of a split flow: the share of the bytes that it took from the common queue."""

    route: tuple[str, ...]
    predicted_share: float
    share: float


class FlowRun(Result):
    """A flow measured.

    `samples_s` are the steady samples in order; `first_s` the first run of all, with its setup.
    `steady_s` is the median of the samples, `spread_s` half their interquartile range.
    `duration_s` = the measured first + (repeat - 1) x steady. `verified` is `None` if switched off.
    `exposed_s` is the transfer time of a sample that no compute block hid, `hidden_share` the share
    of it that one did: the medians of the samples.
    """

    name: str
    size_bytes: int
    repeat: int = 1
    schedule: FlowSchedule
    samples_s: tuple[float, ...]
    first_s: float
    steady_s: float
    spread_s: float
    p50_s: float
    p95_s: float
    duration_s: float
    setup: tuple[SetupStep, ...] = ()
    rate_bytes_per_s: float
    predicted_s: float
    predicted_first_s: float
    predicted_steady_s: float
    error_factor: float
    steady_error_factor: float
    first_error_factor: float
    inside_interval: bool | None = None
    hops: tuple[HopRun, ...]
    parts: tuple[PartRun, ...] = ()
    cache: CacheState = "none"
    verified: bool | None
    pinned_bytes: int = 0
    exposed_s: float | None = None
    hidden_share: float | None = None
    predicted_exposed_s: float | None = None
    predicted_hidden_share: float | None = None


class ComputeRun(Result):
    """A compute block measured: from its first run's start to its last one's end, the median."""

    name: str
    gpu: str
    repeat: int
    duration_s: float
    predicted_s: float
    error_factor: float


class Environment(Result):
    """Where and how a run was measured."""

    backend: Literal["null", "host", "cuda"]
    emulated: bool
    machine: str
    host: str
    kernel: str
    python: str
    date: str
    gpus: tuple[str, ...] = ()
    driver: str | None = None
    libraries: dict[str, str] = Field(default={})
    command: str | None = None
    calibrated: str | None = None


class Run(Result):
    """`planner execute`: what did happen, beside the estimate it is held against."""

    format: Literal["planner.run/1"] = "planner.run/1"
    planner: str
    estimate: Estimate
    environment: Environment
    samples: int
    warmup: int
    flows: tuple[FlowRun, ...]
    compute: tuple[ComputeRun, ...] = ()
    makespan_s: float
    makespan_samples_s: tuple[float, ...]
    predicted_makespan_s: float
    error_factor: float
    objectives: tuple[ObjectiveResult, ...] = ()
    waived: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    verdict: Verdict


class CheckResult(Result):
    """`planner check`: the plans that were read and what they resolved to."""

    format: Literal["planner.check/1"] = "planner.check/1"
    planner: str
    plans: tuple[dict[str, Any], ...]
    verdict: Verdict


FORMATS: dict[str, type[Result]] = {
    "planner.estimate/1": Estimate,
    "planner.run/1": Run,
    "planner.check/1": CheckResult,
}
"""Every format that is emitted, by its name."""
