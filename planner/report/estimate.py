"""The page of an estimate: headline, hops, memory, objectives, what else was weighed."""

from __future__ import annotations

from collections.abc import Sequence

from planner.report.flow import flow_groups, flow_lines
from planner.report.objectives import objective_lines
from planner.report.reasons import reason_lines
from planner.report.style import Style, bar
from planner.report.table import Cell, Column, heading, prose, table
from planner.report.words import CAUSES, interval_words, resource_words
from planner.results import Estimate, NodeUse
from planner.units import format_size, format_time

_TIMELINE_CELLS = 40
_NAMES_LENGTH = 16


def estimate_text(
    estimate: Estimate, style: Style, *, explain: bool = False, saved: str | None = None
) -> str:
    """The whole page of an estimate.

    Parameters
    ----------
    estimate
        what was predicted.
    style
        width, colour and characters of the page.
    explain
        show every rejected candidate, and the arithmetic.
    saved
        the file that holds the estimate, named in the closing line.
    """
    lines = [*_header(estimate, style, explain=explain), "", *prose(headline(estimate), style)]
    for flow, names in flow_groups(estimate.flows):
        lines += ["", *flow_lines(flow, names, style)]
    lines += _timeline_lines(estimate, style)
    lines += _memory_lines(estimate.nodes, style)
    lines += objective_lines(estimate.objectives, style, unknown="only a run knows")
    lines += reason_lines(estimate, style, explain=explain)
    for warning in estimate.warnings:
        lines += prose(f"! {warning}", style, indent=0, hang=2)
    lines += ["", closing(estimate.verdict.sentence, estimate.verdict.passed, saved, style)]
    return "\n".join(lines) + "\n"


def closing(sentence: str, passed: bool, saved: str | None, style: Style) -> str:  # noqa: FBT001
    """The last line: the verdict's own sentence, and the file that was saved."""
    tail = f"   saved {saved}" if saved else ""
    return style.paint(style.spell(sentence), "good" if passed else "bad") + style.spell(tail)


def _header(estimate: Estimate, style: Style, *, explain: bool) -> list[str]:
    kind = "estimate, emulated: HBM stands in RAM" if estimate.emulated else "estimate"
    name = str(estimate.plan.get("name", "plan"))
    machine = str(estimate.machine.get("name", "machine"))
    lines = heading(f"{name} on {machine}", [kind], style, indent=0)
    for source in estimate.provenance if explain else _sources(estimate):
        lines += [style.paint(line, "dim") for line in prose(source, style, indent=2, hang=2)]
    return lines


def _sources(estimate: Estimate) -> list[str]:
    """Where the numbers come from, in one line: `4 measured 2026-11-29, 1 cited`."""
    sources = estimate.machine.get("sources")
    if not isinstance(sources, dict) or len(estimate.provenance) < 2:
        return list(estimate.provenance)
    kinds = []
    for kind in ("measured", "cited", "assumed"):
        dates = [str(s.get("when")) for s in sources.values() if s.get("kind") == kind]
        if dates:
            first, last = min(dates), max(dates)
            when = first if first == last else f"{first} – {last}"
            kinds.append(f"{len(dates)} {kind} ({when})")
    return [f"sources of the numbers: {', '.join(kinds)}; --explain lists them"]


def headline(estimate: Estimate) -> str:
    """One sentence: how long, how sure, what limits, and whether an objective is missed."""
    limit = estimate.bottleneck
    if len(estimate.flows) == 1:
        flow = estimate.flows[0]
        limit = flow.bottleneck
        times = f" for {flow.repeat} repeats" if flow.repeat > 1 else ""
        duration = format_time(flow.duration_s)
        took = f"{flow.name} takes {duration}{interval_words(flow.interval_s)}{times}"
    else:
        makespan = format_time(estimate.makespan_s)
        took = f"all flows take {makespan}{interval_words(estimate.interval_s)}"
    missed = sum(o.passed is False for o in estimate.objectives)
    short = f", which misses {missed} of {len(estimate.objectives)} objectives" if missed else ""
    if limit.resource == "none":
        return f"{took}{short}; nothing limits it."
    where = resource_words(limit.resource, estimate.machine)
    return f"{took}{short}; {where} is the bottleneck: {CAUSES[limit.cause]}."


def _timeline_lines(estimate: Estimate, style: Style) -> list[str]:
    """When each flow and compute block runs, where there is more than one of them."""
    if len(estimate.flows) + len(estimate.compute) < 2 or estimate.makespan_s <= 0:
        return []
    starts = {flow.name: flow.start_s for flow in estimate.flows}
    ends = {flow.name: flow.finish_s for flow in estimate.flows}
    spans = [
        (_and_alike(names), min(map(starts.__getitem__, names)), max(map(ends.__getitem__, names)))
        for _, names in flow_groups(estimate.flows)
    ]
    spans += [(c.name, c.start_s, c.finish_s) for c in estimate.compute]
    rows = []
    for name, start, finish in spans:
        offset = round(start / estimate.makespan_s * _TIMELINE_CELLS)
        cells = max(1, round((finish - start) / estimate.makespan_s * _TIMELINE_CELLS))
        drawn = " " * min(offset, _TIMELINE_CELLS - 1) + bar(1.0, cells)
        row: list[str | Cell] = [name, format_time(start), format_time(finish), drawn]
        rows.append(row)
    columns = [
        Column("timeline"),
        Column("starts", right=True),
        Column("ends", right=True),
        Column("", give_way=1),
    ]
    return ["", *table(columns, rows, style, indent=2)]


def _and_alike(names: Sequence[str]) -> str:
    """`gpu0`, `gpu0, gpu1`, or `load0 and 7 alike` where all names would take too much room."""
    all_names = ", ".join(names)
    if len(names) == 1 or len(all_names) <= _NAMES_LENGTH:
        return all_names
    return f"{names[0]} and {len(names) - 1} alike"


def _memory_lines(nodes: tuple[NodeUse, ...], style: Style) -> list[str]:
    """Peak memory of each node against what it has."""
    alike: dict[NodeUse, list[str]] = {}
    for node in nodes:
        if node.peak_bytes or node.pinned_bytes:
            alike.setdefault(node.model_copy(update={"name": ""}), []).append(node.name)
    rows = [_memory_row(node, _and_alike(names)) for node, names in alike.items()]
    if not rows:
        return []
    columns = [
        Column("memory"),
        Column("peak", right=True),
        Column("", give_way=1),
        Column("pinned", right=True),
        Column("", give_way=2),
        Column(""),
    ]
    return ["", *table(columns, rows, style, indent=2)]


def _memory_row(node: NodeUse, name: str) -> list[str | Cell]:
    fits = node.capacity_bytes is None or node.peak_bytes <= node.capacity_bytes
    limit = node.pinned_limit_bytes
    fits = fits and (limit is None or node.pinned_bytes <= limit)
    return [
        name,
        format_size(node.peak_bytes),
        f"of {format_size(node.capacity_bytes)}" if node.capacity_bytes else "",
        format_size(node.pinned_bytes) if node.pinned_bytes else "",
        f"of {format_size(limit)}" if limit and node.pinned_bytes else "",
        Cell("✓", "good") if fits else Cell("✗", "bad"),
    ]
