"""Why this schedule: what a faster part would give, what was not chosen, and the arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planner.report.flow import flow_groups
from planner.report.style import Style
from planner.report.table import Column, prose, table
from planner.report.words import reason_words, resource_words, ways_words
from planner.results import Estimate, FlowEstimate, Rejected
from planner.units import format_size, format_time


def reason_lines(estimate: Estimate, style: Style, *, explain: bool) -> list[str]:
    """The part of the page that gives reasons; all of them with `explain`."""
    lines = _what_if_lines(estimate, style, explain=explain)
    groups = [flow for flow, _ in flow_groups(estimate.flows)]
    for flow in groups:
        name = f"{flow.name}: " if len(groups) > 1 else ""
        if flow.flat:
            lines += prose(f"{name}at most 1 % longer alone: {flow.flat}", style, hang=2)
        if not explain:
            lines += _runner_up(flow, name, style)
    if estimate.context_s > 0:
        context = format_time(estimate.context_s)
        lines += prose(f"not counted: a new process starts the GPU context in {context}.", style)
    if explain:
        for flow in groups:
            lines += _explained(flow, style)
    return ["", *lines] if lines and lines[0] else lines


def _what_if_lines(estimate: Estimate, style: Style, *, explain: bool) -> list[str]:
    """What doubling a part would give: the most helpful one, all of them with `explain`."""
    if not estimate.what_if:
        return []
    lines: list[str] = []
    helpful = min(estimate.what_if, key=lambda what: what.makespan_s)
    for what in estimate.what_if if explain else [helpful]:
        times = "twice as fast" if what.factor == 2 else f"{what.factor:g} times as fast"
        where = resource_words(what.resource, estimate.machine)
        gain = 1 - what.makespan_s / estimate.makespan_s if estimate.makespan_s > 0 else 0.0
        if gain >= _WORTH_SAYING:
            share = f"{format_time(what.makespan_s)}, {gain * 100:.0f} % less"
            text = f"{where} {times} would give {share}, by the same schedule."
        elif explain:
            text = f"{where} {times} would change nothing."
        else:
            text = f"no single link or copy {times} would gain 1 % or more."
        lines += prose(text, style, hang=2)
    return lines


_WORTH_SAYING: Final = 0.01
"""A gain below 1 % is none: chunk and depth are chosen to that precision."""


def _runner_up(flow: FlowEstimate, name: str, style: Style) -> list[str]:
    """The nearest candidate that was not chosen, in one sentence."""
    if not flow.rejected:
        return []
    timed = [r for r in flow.rejected if r.duration_s is not None]
    best = min(timed, key=lambda r: r.duration_s or 0.0) if timed else flow.rejected[0]
    time = f" ({_alone(best.duration_s, flow)})" if best.duration_s is not None else ""
    others = len(flow.rejected) - 1
    more = f" {others} more with --explain." if others else ""
    text = f"{name}not chosen: {ways_words(best)}{time} — {reason_words(best)}.{more}"
    return prose(text, style, hang=2)


def _alone(seconds: float, flow: FlowEstimate) -> str:
    """A candidate's time. All are timed alone, which is said where what was chosen is slower."""
    alone = " alone" if seconds < 0.99 * flow.duration_s else ""
    return format_time(seconds) + alone


def _explained(flow: FlowEstimate, style: Style) -> list[str]:
    """Every rejected candidate of a flow with time and reason, and how its time comes about."""
    lines: list[str] = []
    if flow.rejected:
        title = prose(f"{flow.name}: not chosen; times alone on the machine", style, indent=2)
        lines += ["", *(style.paint(line, "strong") for line in title)]
        lines += _rejected_table(_by_time(flow.rejected), style)
    if flow.arithmetic:
        title = prose(f"{flow.name}: the arithmetic", style, indent=2)
        lines += ["", *(style.paint(line, "strong") for line in title)]
        for step in flow.arithmetic:
            lines += prose(step, style, indent=4, hang=2)
    return lines


def _by_time(rejected: Sequence[Rejected]) -> list[Rejected]:
    """Fastest first, what is not feasible last, in the model's order."""
    return sorted(rejected, key=lambda r: float("inf") if r.duration_s is None else r.duration_s)


def _rejected_table(rejected: Sequence[Rejected], style: Style) -> list[str]:
    rows = [
        [
            ways_words(r),
            " → ".join(r.route),
            format_size(r.chunk_bytes) if r.chunk_bytes else "",
            str(r.depth or ""),
            str(r.workers or ""),
            format_time(r.duration_s) if r.duration_s is not None else "",
        ]
        for r in rejected
    ]
    columns = [
        Column("strategy"),
        Column("route", give_way=3),
        Column("chunk", right=True, give_way=1),
        Column("depth", right=True, give_way=2),
        Column("workers", right=True, give_way=2),
        Column("time", right=True),
    ]
    head, *body = table(columns, rows, style)
    lines = [head]
    for line, candidate in zip(body, rejected, strict=True):
        lines += [line, *prose(reason_words(candidate), style, indent=8, hang=0)]
    return lines
