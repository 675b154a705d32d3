"""One flow of an estimate: its route, a table of its hops, and how the times add up."""

from __future__ import annotations

from collections.abc import Sequence

from planner.report.style import Style
from planner.report.table import Cell, Column, Row, Total, heading, prose, table
from planner.report.words import chunk_words, hop_words, route_words
from planner.results import FlowEstimate, HopEstimate
from planner.units import format_rate, format_share, format_size, format_time

_COLUMNS = [
    Column("hop"),
    Column("strategy"),
    Column("chunk", right=True),
    Column("depth", right=True, give_way=1),
    Column("workers", right=True, give_way=1),
    Column("rate", right=True, give_way=2),
    Column("busy", right=True),
    Column("", give_way=4, bar=True),
    Column("share", right=True, give_way=3),
]

_HIDDEN = 0.0005
"""Up to this share the four digits of exposed and moving time are the same: nothing is hidden."""


def flow_groups(
    flows: Sequence[FlowEstimate],
) -> list[tuple[FlowEstimate, tuple[str, ...]]]:
    """The flows in order, those that look alike on the page taken together with all their names.

    A plan that loads eight GPUs has eight flows that differ in a node's number alone.
    """
    groups: dict[tuple[object, ...], tuple[FlowEstimate, list[str]]] = {}
    for flow in flows:
        looks = (
            flow.size_bytes,
            flow.repeat,
            tuple(
                (h.hop.strategy, h.hop.chunk_bytes, h.hop.depth, h.hop.workers) for h in flow.hops
            ),
            format_time(flow.duration_s),
            format_time(flow.first_s),
        )
        groups.setdefault(looks, (flow, []))[1].append(flow.name)
    return [(flow, tuple(names)) for flow, names in groups.values()]


def flow_lines(flow: FlowEstimate, names: Sequence[str], style: Style) -> list[str]:
    """The block of one flow, or of several that look alike."""
    facts = [format_size(flow.size_bytes), route_words(flow.schedule)]
    if flow.schedule.cache != "none":
        facts.append(f"cache {flow.schedule.cache}")
    if flow.repeat > 1:
        facts.append(f"{flow.repeat} times")
    rows: list[Row] = [*_setup_rows(flow), *(_hop_row(hop, flow) for hop in flow.hops)]
    lines = heading(flow.name, facts, style)
    if len(names) > 1:
        lines += prose(f"likewise {_name_list(names[1:])}", style, indent=4, hang=2)
    return [*lines, *table(_COLUMNS, [*rows, *_totals(flow)], style)]


def _name_list(names: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _hop_row(estimate: HopEstimate, flow: FlowEstimate) -> list[str | Cell]:
    hop = estimate.hop
    return [
        hop_words(hop),
        hop.strategy,
        chunk_words(hop, flow.size_bytes),
        str(hop.depth),
        str(hop.workers),
        format_rate(estimate.rate_bytes_per_s) if estimate.busy_s > 0 else "",
        format_time(estimate.busy_s),
        Cell(share=estimate.share),
        format_share(estimate.share),
    ]


def _setup_rows(flow: FlowEstimate) -> list[list[str | Cell]]:
    """What is paid once, above the hops that it comes before."""
    return [
        [
            "setup",
            step.name,
            format_size(step.size_bytes) if step.size_bytes else "",
            "",
            "",
            "",
            format_time(step.duration_s),
            "",
            "overlapped" if step.overlapped else "",
        ]
        for step in flow.setup
    ]


def _totals(flow: FlowEstimate) -> list[Total]:
    """How the busy times become the flow's time."""
    totals = []
    serial = sum(hop.busy_s for hop in flow.hops)
    saved = serial - flow.steady_s
    if len(flow.hops) > 1 and saved > 0.005 * serial:
        share = f"{saved / serial * 100:.0f} %"
        totals.append(Total("one after another", "busy", format_time(serial)))
        totals.append(Total(f"overlapped, which saves {share}", "busy", format_time(flow.steady_s)))
    else:
        totals.append(Total("steady", "busy", format_time(flow.steady_s)))
    if flow.first_s > flow.steady_s * 1.0005:
        totals.append(Total("with setup", "busy", format_time(flow.first_s)))
    if flow.repeat > 1:
        totals.append(Total(f"{flow.repeat} repeats", "busy", format_time(flow.duration_s)))
    if flow.hidden_share > _HIDDEN:  # by compute; setup is no part of it
        totals.append(Total("not hidden by compute", "busy", format_time(flow.exposed_s)))
    return totals
