"""The page of a run: predicted beside measured, hop by hop, in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planner.report.estimate import closing
from planner.report.objectives import objective_lines
from planner.report.style import Style
from planner.report.table import Cell, Column, Row, heading, prose, table
from planner.report.words import (
    SAME,
    distance,
    error_mark,
    error_tone,
    error_words,
    hop_words,
    route_words,
)
from planner.results import FlowRun, HopRun, Run, SetupStep
from planner.review.blame import blame_run, flow_excess
from planner.units import format_rate, format_size, format_time
from planner.wording import counted

_COLUMNS: Final = [
    Column("hop"),
    Column("strategy", give_way=1),
    Column("predicted", right=True),
    Column("measured", right=True),
    Column("error"),
    Column(""),
    Column("rate", right=True, give_way=2),
    Column("predicted rate", right=True, give_way=3),
]

_HIDDEN_FROM: Final = 0.005
"""Below half a per cent compute hides nothing."""
_BLAME_FROM: Final = 1.02
"""Below 2 % off nobody is blamed: the medians of few samples differ by as much."""


def run_text(run: Run, style: Style, *, saved: str | None = None) -> str:
    """The whole page of a run.

    Parameters
    ----------
    run
        what was measured, with the estimate it is held against.
    style
        width, colour and characters of the page.
    saved
        the file that holds the run, named in the closing line.
    """
    lines = [*_header(run, style), ""]
    for flow in run.flows:
        lines += prose(headline(flow), style, hang=2)
    for flow in run.flows:
        lines += ["", *_flow_lines(flow, run, style)]
    lines += ["", *_compute_lines(run, style), *_makespan_lines(run, style)]
    lines += objective_lines(run.objectives, style, unknown="not measured")
    notes = _blame_lines(run, style)
    notes += [line for w in run.waived for line in prose(f"waived: {w}", style, hang=2)]
    lines += ["", *notes] if notes else []
    for warning in run.warnings:
        lines += prose(f"! {warning}", style, indent=0, hang=2)
    lines += ["", closing(run.verdict.sentence, run.verdict.passed, saved, style)]
    return "\n".join(lines) + "\n"


def _header(run: Run, style: Style) -> list[str]:
    """What moved the bytes stands first: nobody shall take an emulated number for a real one."""
    where = run.environment
    how = f"{where.backend} backend"
    if where.backend == "null":
        how += ": a virtual clock, nothing was moved"
    elif where.emulated:
        how += ", emulated: HBM stands in RAM"
    name = style.spell(f"{run.estimate.plan.get('name', 'plan')} on {where.machine}")
    facts = [
        f"{counted(run.samples, 'sample')} after {run.warmup} warm-up",
        *_cache_words(run.flows),
        _verified_words(run.flows),
        *where.gpus,
    ]
    lines = prose(f"{name}   {how}", style, indent=0, hang=2)
    title = style.paint(name, "strong") + style.paint(
        lines[0].removeprefix(name), "warn" if where.emulated else "plain"
    )
    first = title if lines[0].startswith(name) else lines[0]
    return [first, *lines[1:], *prose(" · ".join(facts), style)]


def _cache_words(flows: Sequence[FlowRun]) -> list[str]:
    states = list(dict.fromkeys(flow.cache for flow in flows if flow.cache != "none"))
    return [f"cache {', '.join(states)}"] if states else []


def _verified_words(flows: Sequence[FlowRun]) -> str:
    if any(flow.verified is False for flow in flows):
        return "data damaged"
    if all(flow.verified for flow in flows):
        return "data verified"
    return "data not verified"


def headline(flow: FlowRun) -> str:
    """One sentence: how long it took, how steady, and how the prediction did."""
    took = f"{flow.name} took {format_time(flow.duration_s)}"
    if flow.repeat > 1:
        took += f" for {flow.repeat} repeats"
    against = f"predicted {format_time(flow.predicted_s)}: {error_words(flow.error_factor)}"
    inside = {True: ", inside the interval", False: ", outside the interval", None: ""}
    if distance(flow.error_factor) < SAME:  # an interval may be narrower than the rounding
        inside[False] = ""
    return f"{took}; {against}{inside[flow.inside_interval]}."


def _flow_lines(flow: FlowRun, run: Run, style: Style) -> list[str]:
    facts = [format_size(flow.size_bytes), route_words(flow.schedule)]
    if flow.pinned_bytes:
        facts.append(f"{format_size(flow.pinned_bytes)} pinned")
    estimates = {estimate.name: estimate for estimate in run.estimate.flows}
    predicted = estimates[flow.name].setup if flow.name in estimates else ()
    rows: list[Row] = [*_setup_rows(flow.setup, predicted), *map(_hop_row, flow.hops)]
    spread = f"± {format_time(flow.spread_s)}"
    first = _time_row("first", "with setup", flow.predicted_first_s, flow.first_s)
    steady = _time_row("steady", spread, flow.predicted_steady_s, flow.steady_s)
    rows += [first, steady]
    if flow.repeat > 1:
        repeats = f"{flow.repeat} repeats"
        rows.append(_time_row("duration", repeats, flow.predicted_s, flow.duration_s))
    shares = flow.hidden_share or 0.0, flow.predicted_hidden_share or 0.0
    if max(shares) >= _HIDDEN_FROM:
        measured, expected = (max(share, 0.0) for share in shares)
        hidden = f"{measured:.0%} hidden ({expected:.0%} predicted)"
        rows.append(_time_row("exposed", hidden, flow.predicted_exposed_s, flow.exposed_s))
    title = heading(flow.name, facts, style)
    return [*title, *table(_COLUMNS, rows, style), *_share_lines(flow, style)]


def _share_lines(flow: FlowRun, style: Style) -> list[str]:
    """What each way of a split flow took from the common queue, beside what was predicted."""
    return [
        line
        for part in flow.parts
        for line in prose(
            f"share over {' → '.join(part.route)}: {part.share:.1%} of the bytes, "
            f"predicted {part.predicted_share:.1%}",
            style,
            indent=4,
            hang=2,
        )
    ]


def _setup_rows(
    measured: Sequence[SetupStep], predicted: Sequence[SetupStep]
) -> list[list[str | Cell]]:
    """Each setup step once, measured beside predicted where both know it."""
    took = {step.name: step.duration_s for step in measured}
    expected = {step.name: step.duration_s for step in predicted}
    return [
        _time_row("setup", name, expected.get(name), took.get(name))
        for name in dict.fromkeys([*expected, *took])
    ]


def _hop_row(hop: HopRun) -> list[str | Cell]:
    row = _time_row(hop_words(hop.hop), hop.hop.strategy, hop.predicted_s, hop.busy_s)
    if hop.busy_s <= 0:  # a file that is mapped: no bytes move on this hop
        return row
    rates = hop.rate_bytes_per_s, hop.predicted_rate_bytes_per_s
    return [*row[:6], format_rate(rates[0]), f"of {format_rate(rates[1])}"]


def _time_row(
    name: str, about: str, predicted_s: float | None, measured_s: float | None
) -> list[str | Cell]:
    known = predicted_s is not None and measured_s is not None and predicted_s > 0
    factor = (measured_s or 0.0) / (predicted_s or 1.0) if known else 1.0
    # A step shorter than a tenth of a millisecond is noise: its factor would cry wolf.
    worth = known and max(predicted_s or 0.0, measured_s or 0.0) >= 1e-4
    tone = error_tone(factor) if worth else "plain"
    return [
        name,
        about,
        format_time(predicted_s) if predicted_s is not None else "",
        format_time(measured_s) if measured_s is not None else "",
        Cell(error_words(factor), tone) if worth and measured_s else "",
        Cell(error_mark(factor), tone) if worth and measured_s else "",
        "",
        "",
    ]


def _compute_lines(run: Run, style: Style) -> list[str]:
    lines = []
    for block in run.compute:
        times = (
            f"predicted {format_time(block.predicted_s)}",
            f"measured {format_time(block.duration_s)}",
            f"{error_words(block.error_factor)} {error_mark(block.error_factor)}".strip(),
        )
        found = prose(f"{style.spell(block.name)}   {'   '.join(times)}", style, hang=2)
        lines += [style.paint(line, error_tone(block.error_factor)) for line in found]
    return lines


def _makespan_lines(run: Run, style: Style) -> list[str]:
    times = (
        f"predicted {format_time(run.predicted_makespan_s)}",
        f"measured {format_time(run.makespan_s)}",
        f"{error_words(run.error_factor)} {error_mark(run.error_factor)}".strip(),
    )
    lines = prose(f"makespan   {'   '.join(times)}", style, hang=2)
    return [style.paint(line, error_tone(run.error_factor)) for line in lines]


def _blame_lines(run: Run, style: Style) -> list[str]:
    """Who took the difference, for every flow that is off by more than noise."""
    lines: list[str] = []
    for flow, parts in blame_run(run):
        if distance(flow.error_factor) < _BLAME_FROM or not parts:
            continue
        excess = flow_excess(flow)
        worst = max(parts, key=lambda part: part.excess_s * (1 if excess > 0 else -1))
        if abs(worst.excess_s) > abs(excess) * 1.001:
            continue  # parts of both signs: no one of them is the reason
        kind = "excess" if excess > 0 else "gain"
        share = f"{format_time(abs(worst.excess_s))} of the {format_time(abs(excess))} {kind}"
        lines += prose(f"blame: {share} of {flow.name} is {worst.part}.", style, hang=2)
    return lines
