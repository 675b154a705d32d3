"""Objectives: one line of text such as `weights.duration <= 10s`, and the metrics it may name.

>>> parse_objective("weights.duration <= 10s").limit
10.0
>>> parse_objective("host0.pinned <= 25%").unit
'share'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from planner.plan.words import WrittenError
from planner.units import parse_factor, parse_rate, parse_share, parse_size, parse_time
from planner.wording import quoted

Subject = Literal["flow", "link", "node", "plan"]
Unit = Literal["s", "bytes_per_s", "bytes", "share", "factor", "cost"]
Operator = Literal["<=", ">=", "<", ">"]
Of = Literal["estimate", "run", "both"]


class Metric(NamedTuple):
    """One number that an objective may bound: of what, in which unit, known to whom."""

    name: str
    subject: Subject
    unit: Unit
    of: Of
    about: str


_TABLE: Final = (
    Metric("duration", "flow", "s", "both", "setup once and all repeats, context up"),
    Metric("first", "flow", "s", "both", "the first run, setup included"),
    Metric("steady", "flow", "s", "both", "one repeat, setup done"),
    Metric("rate", "flow", "bytes_per_s", "both", "bytes of all repeats by duration"),
    Metric("exposed", "flow", "s", "both", "transfer time not hidden behind compute"),
    Metric("p50", "flow", "s", "run", "median of the samples of the duration"),
    Metric("p95", "flow", "s", "run", "95th percentile of the samples of the duration"),
    Metric("error", "flow", "factor", "run", "measured by predicted duration"),
    Metric("makespan", "plan", "s", "both", "first byte leaves to last byte lands, all flows"),
    Metric("busy", "link", "share", "both", "share of the makespan that the link is in service"),
    Metric("peak", "node", "bytes", "both", "most bytes held at once, or their share of capacity"),
    Metric("pinned", "node", "bytes", "both", "most pinned bytes at once, or their share"),
    Metric("cost", "plan", "cost", "both", "what the machine costs for the makespan"),
)

METRICS: Final[dict[str, Metric]] = {metric.name: metric for metric in _TABLE}
"""Every metric by name. The name decides what the word before the dot must be. `duration` also
takes a compute block; the metrics of a plan stand alone."""

OPERATORS: Final[tuple[Operator, ...]] = ("<=", ">=", "<", ">")

_LONGEST: Final = 500  # characters; names and a limit take far fewer
_SHAPE = re.compile(r"\s*(?P<metric>.*?)\s*(?P<operator>[<>=!~≤≥]+)\s*(?P<limit>.*?)\s*")
_NEAREST: Final = {"=<": "<=", "=>": ">=", "≤": "<=", "≥": ">=", "==": "<=", "=": "<="}


class Objective(BaseModel):
    """An objective, taken apart.

    `text` is as written and `limit_text` its right side; `subject` is the word before the last
    dot (empty for `makespan` and `cost`), `metric` a key of `METRICS`, `limit` in `unit` (seconds,
    bytes per second, bytes, a share of 1, a factor, or the machine's currency).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    subject: str
    metric: str
    operator: Operator
    limit: float
    unit: Unit
    limit_text: str

    def met(self, value: float) -> bool:
        """Whether `value`, in `unit`, meets the limit."""
        if self.operator == "<=":
            return value <= self.limit
        if self.operator == ">=":
            return value >= self.limit
        return value < self.limit if self.operator == "<" else value > self.limit


def parse_objective(text: str) -> Objective:
    """The objective that `text` states; raises `WrittenError` or `UnitError`."""
    match = _SHAPE.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise WrittenError(
            f"{quoted(text)} compares nothing", "write metric, operator, limit: makespan <= 10s"
        )
    operator = _operator(match["operator"])
    subject, _, name = match["metric"].rpartition(".")
    metric = _metric(name, subject)
    if not match["limit"]:
        raise WrittenError(f"{quoted(text)} has no limit", f"write it like {text.strip()} 10s")
    limit, unit = _limit(metric, match["limit"])
    return Objective(
        text=text.strip(),
        subject=subject,
        metric=metric.name,
        operator=operator,
        limit=limit,
        unit=unit,
        limit_text=match["limit"],
    )


def _operator(text: str) -> Operator:
    for operator in OPERATORS:
        if text == operator:
            return operator
    nearest = _NEAREST.get(text)
    hint = f"did you mean {nearest}?" if nearest else "use <=, >=, < or >"
    raise WrittenError(f"{quoted(text)} is not an operator", hint)


def _metric(name: str, subject: str) -> Metric:
    metric = METRICS.get(name)
    if metric is None:
        near = get_close_matches(name, METRICS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"use one of {', '.join(METRICS)}"
        raise WrittenError(f"{quoted(name)} is not a metric", hint)
    if metric.subject == "plan" and subject:
        raise WrittenError(f"{quoted(name)} belongs to the whole plan", f"write {name} alone")
    if metric.subject != "plan" and not subject:
        raise WrittenError(
            f"{quoted(name)} belongs to a {metric.subject}", f"write <{metric.subject}>.{name}"
        )
    return metric


def _limit(metric: Metric, text: str) -> tuple[float, Unit]:
    """The limit in the metric's unit; memory may also be a share of the node's capacity."""
    if metric.unit == "bytes" and text.endswith("%"):
        return parse_share(text), "share"
    return _PARSERS[metric.unit](text), metric.unit


def _parse_cost(text: str) -> float:
    """A bare number: the machine file says in which currency."""
    try:
        cost = float(text)
    except ValueError as error:
        raise WrittenError(f"{quoted(text)} is not a cost", "write a number, like 12.5") from error
    if not 0 <= cost < float("inf"):
        raise WrittenError(f"{quoted(text)} is not a cost", "write a number from 0 up, like 12.5")
    return cost


_PARSERS: Final[dict[Unit, Callable[[str], float]]] = {
    "s": parse_time,
    "bytes_per_s": parse_rate,
    "bytes": parse_size,
    "share": parse_share,
    "factor": parse_factor,
    "cost": _parse_cost,
}
