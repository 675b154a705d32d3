"""An estimate as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from planner.report.estimate import headline
from planner.report.markdown_parts import Section, Table
from planner.report.words import chunk_words, hop_words, interval_words, limit_words
from planner.results import Estimate, FlowEstimate, NodeUse
from planner.units import format_rate, format_share, format_size, format_time


def estimate_headline(estimate: Estimate) -> str:
    """The page's own sentence."""
    return headline(estimate).rstrip(".")


def estimate_sections(estimate: Estimate) -> list[Section]:
    """Flows, objectives, remarks; hops, memory and assumptions folded."""
    from planner.report.markdown import note_section, objective_section

    machine = str(estimate.machine.get("name", "machine"))
    kind = "emulated: HBM stands in RAM" if estimate.emulated else f"estimate on {machine}"
    return [
        Section("flows", _flow_table(estimate)),
        *objective_section(estimate.objectives, unknown="only a run knows"),
        *note_section(estimate.warnings),
        Section("hops", hop_table(estimate.flows), f"Hops ({kind})"),
        *memory_section(estimate.nodes),
        *_sources(estimate.provenance),
    ]


def _flow_table(estimate: Estimate) -> Table:
    rows = [
        [
            flow.name,
            format_size(flow.size_bytes),
            f"{format_time(flow.duration_s)}{interval_words(flow.interval_s)}",
            format_rate(flow.rate_bytes_per_s),
            limit_words(flow.bottleneck, estimate.machine),
        ]
        for flow in estimate.flows
    ]
    if len(rows) > 1:
        makespan = f"{format_time(estimate.makespan_s)}{interval_words(estimate.interval_s)}"
        rows.append(["makespan", "", makespan, "", ""])
    return Table(["Flow", "Size", "Duration", "Rate", "Bottleneck"], "lrrrl", rows)


def hop_table(flows: Sequence[FlowEstimate]) -> Table:
    """Every hop of every flow with its choices and its busy time."""
    rows = [
        [
            flow.name,
            hop_words(hop.hop),
            hop.hop.strategy,
            chunk_words(hop.hop, flow.size_bytes),
            str(hop.hop.depth),
            str(hop.hop.workers),
            format_rate(hop.rate_bytes_per_s) if hop.busy_s > 0 else "",
            format_time(hop.busy_s),
            format_share(hop.share),
        ]
        for flow in flows
        for hop in flow.hops
    ]
    titles = ["Flow", "Hop", "Strategy", "Chunk", "Depth", "Workers", "Rate", "Busy", "Share"]
    return Table(titles, "lllrrrrrr", rows)


def memory_section(nodes: Sequence[NodeUse]) -> list[Section]:
    """Peak memory of each node that holds anything."""
    rows = [
        [
            node.name,
            format_size(node.peak_bytes),
            format_size(node.capacity_bytes) if node.capacity_bytes else "",
            format_size(node.pinned_bytes) if node.pinned_bytes else "",
        ]
        for node in nodes
        if node.peak_bytes or node.pinned_bytes
    ]
    if not rows:
        return []
    return [Section("nodes", Table(["Node", "Peak", "Of", "Pinned"], "lrrr", rows), "Memory")]


def _sources(provenance: Sequence[str]) -> list[Section]:
    if not provenance:
        return []
    return [Section("sources of numbers", list(provenance), "Where the numbers come from")]
