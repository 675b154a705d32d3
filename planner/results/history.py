"""What `planner history` emits: how times and rates went from day to day, and what drifted."""

from __future__ import annotations

from typing import Literal

from planner.results.judged import Verdict
from planner.schedule import Result


class Day(Result):
    """The medians of all runs of one day (UTC), in the unit of the trend."""

    date: str
    runs: int
    predicted: float
    measured: float


class Drift(Result):
    """A level that changed, and stayed changed: medians before and after, in the trend's unit.

    `since` is the first day after it, `days` how many days show it. `change` is after / before - 1,
    `worse` says whether that is the bad way. `score` is the change in units of its own noise.
    """

    since: str
    days: int
    before: float
    after: float
    change: float
    worse: bool
    score: float


class Trend(Result):
    """One figure over time: the makespan of a plan (`s`), or the rate of a hop (`bytes_per_s`).

    Runs count together if they moved the same (`content`) on the same machine and backend. Days
    without a run are left out.
    """

    kind: Literal["plan", "link"]
    plan: str
    content: str
    machine: str
    backend: str
    flow: str | None = None
    link: str | None = None
    start: str | None = None
    end: str | None = None
    strategy: str | None = None
    unit: Literal["s", "bytes_per_s"]
    runs: int
    days: tuple[Day, ...]
    drift: Drift | None = None


class KeptRun(Result):
    """A run that is kept: `planner history show ID` prints it."""

    id: int
    date: str
    plan: str
    content: str
    machine: str
    host: str
    backend: str
    predicted_s: float
    measured_s: float
    error_factor: float
    exit_code: int
    sentence: str


class History(Result):
    """`planner history`: all trends that were asked for, and the latest runs."""

    format: Literal["planner.history/1"] = "planner.history/1"
    planner: str
    database: str
    runs: int
    trends: tuple[Trend, ...]
    latest: tuple[KeptRun, ...]
    verdict: Verdict
