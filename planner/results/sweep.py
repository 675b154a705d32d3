"""What `planner sweep` emits: the estimates of many variants of one plan, each in short."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from planner.results.estimate import Bottleneck
from planner.results.judged import ObjectiveResult, Verdict
from planner.schedule import Result


class SweepAxis(Result):
    """A key that changes, and its values as `--set` takes them."""

    key: str
    values: tuple[str, ...]


class SweepMetric(Result):
    """The metric that points are compared by; `better` says which way."""

    name: str
    unit: str
    better: Literal["less", "more"]


class SweepFlow(Result):
    """The prediction of one flow at a point; `route` are places, `strategies` those of the hops.

    `chunk_bytes`, `depth` and `workers` are those of the hop with the largest ring.
    """

    name: str
    duration_s: float
    rate_bytes_per_s: float
    route: tuple[str, ...]
    strategies: tuple[str, ...]
    chunk_bytes: int
    depth: int
    workers: int


class SweepPoint(Result):
    """One point: the plan with `settings`, estimated; all that follows is `None` if infeasible.

    `value` is the metric of the sweep, `price_per_hour` what the machine's nodes cost together,
    `cost` that for the makespan. `hosts` and `gpus` count the machine's, `ring_bytes` is the
    staging memory of all flows. `exit_code` is the one of an estimate of this point.
    """

    index: int
    settings: dict[str, str]
    feasible: bool
    reason: str | None = Field(default=None, description="why it cannot be done, or is no plan")
    exit_code: int
    machine: str | None = None
    value: float | None = None
    makespan_s: float | None = None
    interval_s: tuple[float, float] | None = None
    bottleneck: Bottleneck | None = None
    flows: tuple[SweepFlow, ...] = ()
    objectives: tuple[ObjectiveResult, ...] = ()
    price_per_hour: float | None = None
    cost: float | None = None
    hosts: int | None = None
    gpus: int | None = None
    ring_bytes: int | None = None
    pinned_bytes: int | None = None

    @property
    def met(self) -> bool | None:
        """Whether all objectives are met; `None` where none is missed and one is not known."""
        passed = [objective.passed for objective in self.objectives]
        return False if False in passed else None if None in passed else True


class SweepPick(Result):
    """A point singled out, by its index.

    `by` is the size that tells it from the next smallest, `only` where there is no other.
    """

    point: int
    by: Literal["price", "hosts", "gpus", "figures", "ring", "metric", "only"]


class Sweep(Result):
    """`planner sweep`: every point in the order of the axes, the last turning fastest.

    `smallest` is the smallest hardware that meets all objectives, `near_best` the smallest point
    within 1 % of the best one. A sweep that was interrupted is not `complete` and holds the points
    that were done, of `planned` ones.
    """

    format: Literal["planner.sweep/1"] = "planner.sweep/1"
    planner: str
    plan: dict[str, Any]
    settings: tuple[str, ...] = ()
    axes: tuple[SweepAxis, ...]
    metric: SweepMetric
    planned: int
    complete: bool
    points: tuple[SweepPoint, ...]
    best: int | None = None
    smallest: SweepPick | None = None
    near_best: SweepPick | None = None
    verdict: Verdict
