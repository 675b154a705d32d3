"""What `planner diff` emits: what changed from result A to result B. A is `before`, B `after`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.results.judged import ObjectiveResult, Verdict
from planner.schedule import Hop, Result

Kind = Literal["added", "removed", "changed", "unchanged"]
Direction = Literal["faster", "slower", "same", "noise"]
Judged = Literal["exact", "samples", "first_run", "like_flow", "too_few"]
Scalar = str | int | float | bool | None


class Side(Result):
    """One of the two results: where it came from, of what kind it is, and of which plan."""

    label: str
    kind: Literal["estimate", "run"]
    plan: str
    machine: str
    emulated: bool = False
    backend: Literal["null", "host", "cuda"] | None = None
    planner: str
    date: str | None = None
    samples: int | None = None


class Difference(Result):
    """A value of the plan or the machine that differs; `null` where one of them lacks it.

    Tables and curves stand as a text that says how long they are.
    """

    path: str
    kind: Kind
    before: Scalar = None
    after: Scalar = None


class TimeChange(Result):
    """A time of A and of B, in seconds; `share` is the difference as a share of A's time.

    `direction` says what the difference means: `noise` is a difference that the samples do not
    tell from none. `judged` says how that was decided: both sides `exact`; by the `samples`; as a
    `first_run`, which has the noise of its flow's samples; a hop `like_flow`; or by the difference
    alone, as there are `too_few` samples. `noise_s` is the interval of differences that the
    samples leave possible.
    """

    metric: str
    before_s: float | None
    after_s: float | None
    difference_s: float | None = None
    share: float | None = None
    noise_s: tuple[float, float] | None = None
    direction: Direction | None = None
    judged: Judged | None = None


class HopChange(Result):
    """A hop in both schedules; `settings` names what was chosen differently."""

    start: str
    end: str
    kind: Kind
    before: Hop | None
    after: Hop | None
    settings: tuple[str, ...] = ()
    busy: TimeChange


class FlowChange(Result):
    """A flow in both results: its times, its hops, its way, and what limits it."""

    name: str
    kind: Kind
    size_before_bytes: int | None
    size_after_bytes: int | None
    route_before: tuple[str, ...] = ()
    route_after: tuple[str, ...] = ()
    times: tuple[TimeChange, ...]
    hops: tuple[HopChange, ...] = ()
    bottleneck_before: str | None = None
    bottleneck_after: str | None = None
    inside_interval: bool | None = Field(
        default=None,
        description="of an estimate and a run: whether the measured duration is in its interval",
    )

    @property
    def duration(self) -> TimeChange:
        """The change that counts."""
        return next(change for change in self.times if change.metric == "duration")


class MemoryChange(Result):
    """The peak memory at a node, and the page-locked part of it."""

    node: str
    kind: Kind
    peak_before_bytes: int
    peak_after_bytes: int
    pinned_before_bytes: int
    pinned_after_bytes: int


class ObjectiveChange(Result):
    """An objective judged on both sides; `changed` where it was met and is missed, or reverse."""

    text: str
    kind: Kind
    before: ObjectiveResult | None
    after: ObjectiveResult | None


class Gate(Result):
    """A metric held against `--fail-above`: `passed: true` is no regression beyond it."""

    metric: str
    passed: bool
    sentence: str


class Diff(Result):
    """`planner diff`: from A to B, always in that order."""

    format: Literal["planner.diff/1"] = "planner.diff/1"
    planner: str
    before: Side
    after: Side
    plan: tuple[Difference, ...] = ()
    machine: tuple[Difference, ...] = ()
    flows: tuple[FlowChange, ...]
    compute: tuple[TimeChange, ...] = ()
    makespan: TimeChange
    nodes: tuple[MemoryChange, ...] = ()
    bottleneck_before: str
    bottleneck_after: str
    objectives: tuple[ObjectiveChange, ...] = ()
    fail_above: str | None = None
    gates: tuple[Gate, ...] = ()
    warnings: tuple[str, ...] = ()
    verdict: Verdict
