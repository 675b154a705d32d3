"""Every figure of every run, for sheets and other tools."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from planner.review.history.sound import count, figure, moment, sound, text
from planner.review.history.store import Store, Which
from planner.review.history.trend import chosen

COLUMNS: Final = (
    "run",
    "date",
    "plan",
    "content",
    "machine",
    "host",
    "backend",
    "exit_code",
    "flow",
    "link",
    "start",
    "end",
    "strategy",
    "unit",
    "predicted",
    "measured",
)
"""Of one line: a run's makespan (`s`; no flow and no link), or the rate of one of its hops
(`bytes_per_s`)."""


def figures(store: Store, which: Which) -> Iterator[tuple[object, ...]]:
    """A row of `COLUMNS` for each figure of the runs that are meant, in the order of the runs."""
    series = {row[0]: row for row in chosen(store, which)}
    condition, values = which.where()
    rows = store.connection.execute(
        "SELECT runs.id, at_s, plan, content, machine, host, backend, exit_code, series,"  # noqa: S608
        " predicted, measured FROM runs JOIN measures ON measures.run = runs.id"
        f" WHERE {condition} ORDER BY runs.id, series",
        values,
    )
    checked = sound(
        rows,
        "runs",
        id=count,
        at_s=moment,
        **dict.fromkeys(("plan", "content", "machine", "host", "backend"), text),
        exit_code=count,
        series=count,
        predicted=figure,
        measured=figure,
    )
    for number, at_s, *about, exit_code, key, predicted, measured in checked:
        if key not in series:
            continue
        _, kind, *_, flow, link, start, finish, strategy = series[key]
        when = datetime.fromtimestamp(at_s, tz=UTC).isoformat(timespec="seconds")
        unit = "s" if kind == "plan" else "bytes_per_s"
        hop = flow, link, start, finish, strategy
        yield number, when, *about, exit_code, *hop, unit, predicted, measured
