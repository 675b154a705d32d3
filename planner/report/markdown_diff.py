"""A comparison as Markdown: what a reviewer of a change wants to see first."""

from __future__ import annotations

from planner.report.change_words import (
    MARKS,
    arrow,
    change_words,
    difference_words,
    direction_words,
    headline,
    noise_words,
    settings_words,
    signed_share,
)
from planner.report.diff import by_weight, names, side_words
from planner.report.markdown_parts import Section, Table
from planner.report.words import margin_words, objective_mark, quantity
from planner.results.diff import Diff, FlowChange, ObjectiveChange, TimeChange
from planner.units import format_size, format_time


def diff_headline(diff: Diff) -> str:
    """`weights 2.060 s → 1.046 s (1.97× faster)`."""
    return headline(diff)


def diff_sections(diff: Diff) -> list[Section]:
    """Flows, objectives, remarks; hops, memory, machine and plan folded."""
    failed = [gate.sentence for gate in diff.gates if not gate.passed]
    remarks = [*failed, *diff.warnings]
    sides = [
        f"{names(diff)}",
        f"A: {side_words(diff.before)}",
        f"B: {side_words(diff.after)}",
    ]
    return [
        Section("flows", _flow_table(diff)),
        *_objectives(diff),
        *([Section("remarks", remarks)] if remarks else []),
        Section("hops", _hop_table(diff), "Hops"),
        *_memory(diff),
        *_documents(diff),
        Section("names", sides, "What was compared"),
    ]


def _flow_table(diff: Diff) -> Table:
    rows = [_row(flow.name, flow.duration, _bottleneck(flow)) for flow in diff.flows]
    rows += [_row(change.metric, change, "") for change in diff.compute]
    if len(rows) > 1:
        limit = arrow_if(diff.bottleneck_before, diff.bottleneck_after)
        rows.append(_row("makespan", diff.makespan, limit))
    titles = ["Flow", "Before", "After", "Change", "", "Bottleneck"]
    return Table(titles, "lrrrll", rows)


def _row(name: str, change: TimeChange, bottleneck: str) -> list[str]:
    before, after = (
        "" if seconds is None else format_time(seconds)
        for seconds in (change.before_s, change.after_s)
    )
    noise = noise_words(change)
    words = f"{direction_words(change)} ({noise})" if noise else direction_words(change)
    return [name, before, after, signed_share(change), words, bottleneck]


def arrow_if(before: str | None, after: str | None) -> str:
    """The one word, or both where they differ."""
    return (before or "") if before == after else arrow(before, after)


def _bottleneck(flow: FlowChange) -> str:
    return arrow_if(flow.bottleneck_before, flow.bottleneck_after)


def _objectives(diff: Diff) -> list[Section]:
    rows = [_objective_row(change) for change in diff.objectives]
    if not rows:
        return []
    titles = ["A → B", "Objective", "Before", "After", "Margin"]
    return [Section("objectives", Table(titles, "llrrl", rows))]


def _objective_row(change: ObjectiveChange) -> list[str]:
    sides = (change.before, change.after)
    marks = arrow(*(None if side is None else objective_mark(side)[0] for side in sides))
    values = [
        "" if side is None or side.value is None else quantity(side.value, side.unit)
        for side in sides
    ]
    margin = margin_words(change.after) if change.after is not None else ""
    return [marks, change.text, *values, margin]


def _hop_table(diff: Diff) -> Table:
    rows = [
        [
            MARKS[hop.kind].strip(),
            flow.name,
            f"{hop.start} → {hop.end}",
            settings_words(hop),
            change_words(hop.busy),
            direction_words(hop.busy),
        ]
        for flow in diff.flows
        for hop in flow.hops
    ]
    return Table(["", "Flow", "Hop", "Schedule", "Busy", ""], "llllrl", rows)


def _memory(diff: Diff) -> list[Section]:
    rows = [
        [
            MARKS[node.kind].strip(),
            node.node,
            format_size(node.peak_before_bytes),
            format_size(node.peak_after_bytes),
            format_size(node.pinned_before_bytes),
            format_size(node.pinned_after_bytes),
        ]
        for node in diff.nodes
        if node.peak_before_bytes or node.peak_after_bytes
    ]
    titles = ["", "Node", "Peak before", "Peak after", "Pinned before", "Pinned after"]
    return [Section("nodes", Table(titles, "llrrrr", rows), "Memory")] if rows else []


def _documents(diff: Diff) -> list[Section]:
    """What differs in what people wrote, and in what the hardware is."""
    found = []
    for title, differences in (("Plan", diff.plan), ("Machine", by_weight(diff.machine))):
        rows = [[MARKS[d.kind], d.path, difference_words(d)] for d in differences]
        if rows:
            table = Table(["", "Key", "A → B"], "lll", rows)
            found.append(Section(f"differences of the {title.lower()}", table, title))
    return found
