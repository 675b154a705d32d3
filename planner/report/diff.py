"""The page of a comparison: A → B, what became faster or slower, and what changed to make it so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from planner.report.change_words import (
    KEY,
    MARKS,
    arrow,
    change_words,
    difference_words,
    direction_tone,
    direction_words,
    noise_words,
    route_words,
    settings_words,
    signed_share,
    signed_time,
)
from planner.report.estimate import closing
from planner.report.style import Style
from planner.report.table import Cell, Column, Row, Total, prose, table
from planner.report.words import margin_words, objective_mark
from planner.results.diff import (
    Diff,
    Difference,
    FlowChange,
    HopChange,
    ObjectiveChange,
    Side,
    TimeChange,
)
from planner.units import format_size

_TIMES: Final = [
    Column(""),
    Column("A → B"),
    Column("difference", right=True, give_way=2),
    Column("noise", right=True, give_way=3),
    Column("share", right=True, give_way=1),
    Column(""),
]
_CHANGES: Final = [Column(""), Column(""), Column(""), Column("", give_way=1)]
MOST: Final = 12
"""Lines of one kind: a page is read from top to bottom, and JSON has everything."""


def diff_text(diff: Diff, style: Style, *, saved: str | None = None) -> str:
    """The whole page of a comparison.

    Parameters
    ----------
    diff
        what changed from A to B.
    style
        width, colour and characters of the page.
    saved
        the file that holds the comparison, named in the closing line.
    """
    lines = [*_header(diff, style), "", *table(_TIMES, _time_rows(diff), style, indent=2)]
    changes = [_hop_rows(diff), _document_rows(diff)]
    for rows in changes:
        lines += ["", *_change_lines(rows, style)] if rows else []
    lines += _objective_lines(diff.objectives, style)
    notes = [line for w in diff.warnings for line in prose(f"! {w}", style, indent=0, hang=2)]
    failed = [gate.sentence for gate in diff.gates if not gate.passed]
    notes += [line for text in failed for line in prose(f"✗ {text}", style, indent=0, hang=2)]
    lines += ["", *notes] if notes else []
    lines += ["", style.paint(style.spell(KEY), "dim")]
    lines += ["", closing(diff.verdict.sentence, diff.verdict.passed, saved, style)]
    return "\n".join(lines) + "\n"


def side_words(side: Side) -> str:
    """`main.json (run, 5 samples, emulated)`."""
    facts: list[str] = [side.kind]
    if side.samples is not None:
        facts.append("1 sample" if side.samples == 1 else f"{side.samples} samples")
    if side.backend == "null":
        facts.append("virtual clock")
    elif side.emulated:
        facts.append("emulated")
    return f"{side.label} ({', '.join(facts)})"


def names(diff: Diff) -> str:
    """`llm-load on h200-sxm-1`, or both where plans or machines differ."""
    plan = arrow_if(diff.before.plan, diff.after.plan)
    return f"{plan} on {arrow_if(diff.before.machine, diff.after.machine)}"


def arrow_if(before: str, after: str) -> str:
    """The one word, or `before → after` where there are two."""
    return before if before == after else arrow(before, after)


def _header(diff: Diff, style: Style) -> list[str]:
    title = style.paint(style.spell(names(diff)), "strong")
    sides = [f"A  {side_words(diff.before)}", f"B  {side_words(diff.after)}"]
    return [title, *(line for side in sides for line in prose(side, style, hang=3))]


def shown_flows(diff: Diff) -> list[FlowChange]:
    """The flows that the page has room for, those that changed before those that did not."""
    if len(diff.flows) <= MOST:
        return list(diff.flows)
    return sorted(diff.flows, key=lambda flow: flow.kind == "unchanged")[:MOST]


def _time_rows(diff: Diff) -> list[Row]:
    shown = shown_flows(diff)
    rows = [row for flow in shown for row in _flow_rows(flow)]
    if len(shown) < len(diff.flows):
        rows.append([f"and {len(diff.flows) - len(shown)} more flows", "", "", "", "", ""])
    rows += [_time_row(change.metric, change) for change in diff.compute[:MOST]]
    if len(diff.flows) > 1 or diff.compute or not _alike(diff.makespan, diff.flows[0].duration):
        rows.append(_time_row("makespan", diff.makespan))
    return rows


def _alike(a: TimeChange, b: TimeChange) -> bool:
    return change_words(a) == change_words(b)


def _flow_rows(flow: FlowChange) -> list[Row]:
    """The duration; the first and a steady run too where the duration is not all there is."""
    rows: list[Row] = [_time_row(flow.name, flow.duration)]
    sampled = any(change.judged not in ("exact", None) for change in flow.times)
    for change in flow.times:
        if change.metric == "steady" and (sampled or not _once(flow)):
            rows.append(_time_row("  steady", change))
        if change.metric == "first" and not _alike(change, flow.duration):
            rows.append(_time_row("  first", change))
    return rows


def _once(flow: FlowChange) -> bool:
    """Whether the first run is all there is on both sides."""
    return any(c.metric == "first" and _alike(c, flow.duration) for c in flow.times)


def _time_row(name: str, change: TimeChange) -> Row:
    tone = direction_tone(change)
    return [
        name,
        change_words(change),
        signed_time(change),
        noise_words(change),
        signed_share(change),
        Cell(direction_words(change), tone),
    ]


def _change_lines(rows: Sequence[Row], style: Style) -> list[str]:
    """A table; where the page is too narrow for its names, a wrapped line each."""
    lines = table(_CHANGES, rows, style, indent=2)
    if all(len(line) <= style.width for line in lines):
        return lines
    cells = [[str(cell) for cell in row] for row in rows if not isinstance(row, Total)]
    return [
        line
        for mark, *texts in cells
        for line in prose(f"{mark.strip() or '·'} {'  '.join(filter(None, texts))}", style, hang=2)
    ]


def _document_rows(diff: Diff) -> list[Row]:
    """A line for everything else that changed, marked; the bottleneck also where it did not."""
    memory = [
        [
            "~",
            f"memory {node.node}",
            _memory_words(node.peak_before_bytes, node.peak_after_bytes),
            _pinned_words(node.pinned_before_bytes, node.pinned_after_bytes),
        ]
        for node in diff.nodes
        if node.kind != "unchanged"
    ]
    plan = [d for d in diff.plan if not d.path.startswith("objectives")]
    rows = _cut(memory)
    for name, found in (("plan", plan), ("machine", by_weight(diff.machine))):
        rows += _cut([MARKS[d.kind], f"{name} {d.path}", difference_words(d), ""] for d in found)
    return [*rows, _bottleneck_row(diff)]


def by_weight(differences: Iterable[Difference]) -> list[Difference]:
    """What a reader looks for first: a link's rate before the rates of its curves.

    Where a rate differs, that its points and its source do so too goes without saying.
    """
    every = list(differences)
    rates = {d.path.removesuffix(".rate") for d in every if d.path.endswith(".rate")}
    worth = [
        d
        for d in every
        if not d.path.endswith((".points", ".source")) or d.path.rpartition(".")[0] not in rates
    ]
    return sorted(worth, key=lambda d: (d.path.startswith("sources"), d.path.count(".")))


def _cut(rows: Iterable[Sequence[str]]) -> list[Row]:
    """The first rows, and how many more there are."""
    every: list[Row] = [list(row) for row in rows]
    if len(every) <= MOST:
        return every
    return [*every[: MOST - 1], ["", f"and {len(every) - MOST + 1} more; --json has all", "", ""]]


def _memory_words(before: int, after: int) -> str:
    if before == after:
        return "peak unchanged"
    return f"peak {format_size(before)} → {format_size(after)}"


def _pinned_words(before: int, after: int) -> str:
    return "" if before == after else f"pinned {format_size(before)} → {format_size(after)}"


def _hop_rows(diff: Diff) -> list[Row]:
    """A line for every hop, also for those that did not change."""
    rows: list[Row] = []
    for flow in shown_flows(diff):
        prefix = f"{flow.name}: " if len(diff.flows) > 1 else ""
        if flow.route_before != flow.route_after and flow.kind not in ("added", "removed"):
            rows.append(["~", f"{prefix}route", route_words(flow), ""])
        rows += [_hop_row(hop, prefix) for hop in flow.hops]
    return rows


def _hop_row(hop: HopChange, prefix: str) -> Row:
    settings, busy = settings_words(hop), f"busy {change_words(hop.busy)}"
    if hop.busy.direction == "noise":
        busy += ", within noise"
    if hop.kind == "unchanged":
        settings = "unchanged"
        busy = "" if hop.busy.direction == "same" else busy
    name = f"{prefix}hop {hop.start} → {hop.end}"
    return [MARKS[hop.kind], name, settings or "same schedule", busy]


def _bottleneck_row(diff: Diff) -> Row:
    before, after = diff.bottleneck_before, diff.bottleneck_after
    if before == after:
        return ["", "bottleneck", f"{before} (still)", ""]
    return ["~", "bottleneck", f"{before} → {after}", ""]


def _objective_lines(changes: Sequence[ObjectiveChange], style: Style) -> list[str]:
    rows = [_objective_row(change) for change in changes]
    if not rows:
        return []
    columns = [Column(""), Column(""), Column(""), Column("", give_way=1)]
    return ["", style.paint("  objectives", "strong"), *table(columns, rows, style)]


def _objective_row(change: ObjectiveChange) -> Row:
    sides = [change.before, change.after]
    marks = [None if side is None else objective_mark(side)[0] for side in sides]
    tone = "plain" if change.after is None else objective_mark(change.after)[1]
    margins = [margin_words(side) or None if side is not None else None for side in sides]
    if margins[1] is not None and (margins[0] or "").startswith("margin"):
        margins[1] = margins[1].removeprefix("margin ")
    return [MARKS[change.kind], change.text, Cell(arrow(*marks), tone), arrow(*margins)]
