"""A sweep for a sheet (CSV) and for a pull request (Markdown)."""

from __future__ import annotations

import csv
import io
from typing import Final

from planner.report.sweep import pick_sentences, shade, value_words
from planner.results.sweep import Sweep, SweepPoint

MOST_ROWS: Final = 200
"""Rows of the Markdown table: a comment holds 65,536 characters. CSV has all points."""


def sweep_csv(sweep: Sweep) -> str:
    """One line a point, numbers as numbers, the unit in each title; empty where it is not known."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    flows = list(dict.fromkeys(name for point in sweep.points for name in _durations(point)))
    texts = list(dict.fromkeys(o.text for point in sweep.points for o in point.objectives))
    writer.writerow(
        [
            *(axis.key for axis in sweep.axes),
            "feasible",
            "met",
            "machine",
            *_metric_title(sweep, flows),
            "makespan_s",
            *(f"{flow}.duration_s" for flow in flows),
            *texts,
            "bottleneck",
            "cause",
            "price_per_hour",
            "cost",
            "hosts",
            "gpus",
            "ring_bytes",
            "pinned_bytes",
            "reason",
        ]
    )
    for point in sweep.points:
        writer.writerow(_line(sweep, point, flows, texts))
    return out.getvalue()


def _durations(point: SweepPoint) -> dict[str, float]:
    """Seconds of each flow by its name in the plan: those of its slowest copy."""
    found: dict[str, float] = {}
    for flow in point.flows:
        name = flow.name.partition("[")[0]
        found[name] = max(found.get(name, 0.0), flow.duration_s)
    return found


def _metric_title(sweep: Sweep, flows: list[str]) -> list[str]:
    """The title of the metric's column, unless it stands in the line anyway."""
    name, unit = sweep.metric.name, sweep.metric.unit
    if name == "makespan" or name in {f"{flow}.duration" for flow in flows}:
        return []
    return [name if unit in ("share", "cost") else f"{name}_{unit}"]


def _line(sweep: Sweep, point: SweepPoint, flows: list[str], texts: list[str]) -> list[object]:
    durations = _durations(point)
    values = {objective.text: objective.value for objective in point.objectives}
    limit = point.bottleneck
    met = "" if not point.objectives else "unknown" if point.met is None else _yes(point.met)
    return [
        *(point.settings[axis.key] for axis in sweep.axes),
        _yes(point.feasible),
        met,
        point.machine,
        *([point.value] if _metric_title(sweep, flows) else ()),
        point.makespan_s,
        *(durations.get(flow) for flow in flows),
        *(values.get(text) for text in texts),
        limit.resource if limit else None,
        limit.cause if limit else None,
        point.price_per_hour,
        point.cost,
        point.hosts,
        point.gpus,
        point.ring_bytes,
        point.pinned_bytes,
        point.reason,
    ]


def _yes(value: bool) -> str:  # noqa: FBT001 - a word for a value
    return "true" if value else "false"


def sweep_markdown(sweep: Sweep) -> str:
    """The verdict in the first line, the picks, and the points in a table that folds."""
    name = str(sweep.plan.get("name", "plan"))
    sign = "✓" if sweep.verdict.passed else "✗"
    lines = [f"### planner: sweep of {_safe(name)} · {sign} {sweep.verdict.sentence}", ""]
    lines += [f"- {_safe(text.removeprefix('▸ '))}" for text in pick_sentences(sweep)]
    lines += ["", f"<details><summary>{len(sweep.points)} points</summary>", ""]
    keys = [axis.key for axis in sweep.axes]
    lines.append(f"| {' | '.join(map(_safe, keys))} | {sweep.metric.name} | | Objectives | Limit |")
    lines.append("|" + ":--|" * len(keys) + "--:|:--|:--|:--|")
    for point in sweep.points[:MOST_ROWS]:
        values = " | ".join(_safe(point.settings[key]) for key in keys)
        limit = point.bottleneck.resource if point.bottleneck else ""
        lines.append(
            f"| {values} | {value_words(sweep, point)} | {shade(sweep, point).strip()} "
            f"| {_met(point)} | {_safe(limit)} |"
        )
    if len(sweep.points) > MOST_ROWS:
        left = len(sweep.points) - MOST_ROWS
        lines += ["", f"{left} more points are left out here; `--format csv` has them all."]
    lines += ["", "</details>", "", f"<!-- planner:{_safe(name)}:sweep -->"]
    return "\n".join(lines) + "\n"


def _met(point: SweepPoint) -> str:
    if not point.feasible:
        return f"— {_safe(point.reason or '')}"
    if not point.objectives:
        return ""
    missed = [o.text for o in point.objectives if o.passed is False]
    if missed:
        return f"✗ {_safe(', '.join(missed))}"
    unknown = [o.text for o in point.objectives if o.passed is None]
    return f"? {_safe(', '.join(unknown))}" if unknown else "✓"


def _safe(text: str) -> str:
    """Text that stays in its cell, and is no HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("\n", " ")
