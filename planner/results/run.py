"""What `planner execute` emits: the measurement of every flow beside its prediction."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.results.estimate import Estimate
from planner.results.judged import ObjectiveResult, Verdict
from planner.results.timeline import Timeline
from planner.schedule import CacheState, FlowSchedule, Hop, Result, SetupStep


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
    timeline: Timeline | None = Field(
        default=None, description="what every hop did in the first run, in merged slices"
    )
    waived: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    verdict: Verdict
