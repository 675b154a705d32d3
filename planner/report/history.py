"""The page of the history: how each plan and each hop went from day to day, and what drifted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Final

from planner.report.estimate import closing
from planner.report.style import Style
from planner.report.table import Cell, Column, Row, prose, table
from planner.report.words import error_mark, error_tone, error_words, quantity
from planner.results.history import Drift, History, KeptRun, Trend
from planner.units import format_time

SHOWN: Final = 20
"""Trends of each kind on a page, the most recently run first."""
SPARK_CELLS: Final = 24

_SPARKS: Final = "▁▂▃▄▅▆▇█"
_ASCII_SPARKS: Final = "_.-=+*%#"
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)

Names = dict[tuple[str, str], str]
Hop = tuple[str | None, ...]

_LATEST: Final = [
    Column("run", right=True),
    Column("when (UTC)", give_way=1),
    Column("plan"),
    Column("machine", give_way=2),
    Column("predicted", right=True, give_way=4),
    Column("measured", right=True),
    Column("error", give_way=3),
    Column(""),
]
_FIGURES: Final = [
    Column("runs", right=True, give_way=3),
    Column("predicted", right=True, give_way=6),
    Column("measured", right=True),
    Column("error", give_way=5),
    Column("by day", give_way=2),
]
# Without its machine nobody can tell a row from that of another machine: it goes last.
_PLANS: Final = [Column("plan"), Column("machine", give_way=1), *_FIGURES]
_LINKS: Final = [
    Column("hop"),
    Column("strategy"),
    Column("plan", give_way=4),
    Column("flow"),
    Column("machine", give_way=1),
    *_FIGURES,
]


def history_text(history: History, style: Style, *, saved: str | None = None) -> str:
    """The whole page: the latest runs, the trends of plans and of hops, drifts, the verdict.

    The figures of a trend are the medians of its latest day; `by day` draws the medians of its
    days, the oldest first.
    """
    count = "1 run" if history.runs == 1 else f"{history.runs} runs"
    machines = set(map(_machine, history.latest)) | set(map(_machine, history.trends))
    # One machine alone is told once, not in every row.
    where = f" on {next(iter(machines))}" if len(machines) == 1 else ""
    lines = prose(f"{count}{where}   {history.database}", style, indent=0, hang=2)
    rows: list[Row] = [_run_row(run, told=not where) for run in history.latest]
    if rows:
        lines += ["", *table(_LATEST, rows, style, indent=2)]
    names = _names(history.trends)
    for kind, columns in (("plan", _PLANS), ("link", _LINKS)):
        trends = [trend for trend in history.trends if trend.kind == kind]
        if trends:
            flows = _flows(trends)
            rows = [
                _trend_row(trend, names, flows, style, told=not where) for trend in trends[:SHOWN]
            ]
            lines += ["", *table(columns, rows, style, indent=2)]
        if len(trends) > SHOWN:
            more = (
                f"{len(trends) - SHOWN} more: --plan, --link and --machine choose, --json has all"
            )
            lines += prose(more, style)
    drifts = list(_drift_lines(history.trends, names, style))
    lines += ["", *drifts] if drifts else []
    verdict = history.verdict
    lines += ["", closing(verdict.sentence, verdict.passed, saved, style)]
    return "\n".join(lines) + "\n"


def sparkline(values: Sequence[float], *, unicode: bool = True, cells: int = SPARK_CELLS) -> str:
    """The course of `values` between its least and its largest, the latest `cells` of them.

    What differs by less than 1 % in all is drawn level: noise shall not look like a mountain.

    >>> sparkline([1.0, 2.0, 4.0]), sparkline([5.0, 5.0])
    ('▁▃█', '▁▁')
    """
    shown = values[-cells:]
    low, high = min(shown), max(shown)
    marks = _SPARKS if unicode else _ASCII_SPARKS
    if high - low <= 0.01 * high:
        return marks[0] * len(shown)
    return "".join(marks[round((value - low) / (high - low) * 7)] for value in shown)


def day_words(day: str) -> str:
    """`12 November 2026`, in English wherever it is read.

    >>> day_words("2026-11-12")
    '12 November 2026'
    """
    when = date.fromisoformat(day)
    return f"{when.day} {_MONTHS[when.month - 1]} {when.year}"


def drift_words(trend: Trend, drift: Drift) -> str:
    """`host0 → gpu0 pinned fell from 55 GB/s to 48 GB/s since 12 November 2026 (−12.7 %)`."""
    levels = [quantity(value, trend.unit) for value in (drift.before, drift.after)]
    change = f"{'+' if drift.change > 0 else '−'}{abs(drift.change) * 100:.1f} %"
    went = "rose" if drift.change > 0 else "fell"
    if trend.kind == "link":
        what = f"{trend.start} → {trend.end} {trend.strategy}"
    else:
        what = f"{trend.plan} on {trend.machine}"
    return (
        f"{what} {went} from {levels[0]} to {levels[1]} since {day_words(drift.since)} ({change})"
    )


def _drift_lines(trends: Iterable[Trend], names: Names, style: Style) -> Iterator[str]:
    """One sentence a drift; a hop that several plans cross is told once, by its largest change."""
    groups: dict[tuple[str | None, ...], list[tuple[Trend, Drift]]] = {}
    trends = list(trends)
    flows = _flows(trends)
    for trend in trends:
        if trend.drift is not None:
            key: tuple[str | None, ...] = (trend.content, trend.plan)
            if trend.kind == "link":
                key = (trend.start, trend.end, trend.strategy, str(trend.drift.worse))
            groups.setdefault((trend.machine, trend.backend, *key), []).append((trend, trend.drift))
    for group in groups.values():
        trend, drift = max(group, key=lambda pair: abs(pair[1].change))
        where = ""
        if trend.kind == "link":
            flow = f"{trend.flow} of " if len(flows[_hop(trend)]) > 1 else ""
            where = f", as {flow}{names[trend.plan, trend.content]} shows"
        if len(group) > 1:
            where += f" and {len(group) - 1} more"
        mark = "!" if drift.worse else " "
        text = f"{mark} {drift_words(trend, drift)}{where}"
        for line in prose(text, style, indent=0, hang=2):
            yield style.paint(line, "bad" if drift.worse else "good")


def _names(trends: Iterable[Trend]) -> Names:
    """What each plan is called: by its name, with digits of its content where two share that."""
    contents: dict[str, set[str]] = {}
    for trend in trends:
        contents.setdefault(trend.plan, set()).add(trend.content)
    return {
        (plan, content): plan if len(several) == 1 else f"{plan} {content[:4]}"
        for plan, several in contents.items()
        for content in several
    }


def _flows(trends: Iterable[Trend]) -> Mapping[Hop, set[str]]:
    """The flows that cross each hop of a plan: where there are several, a row must name its own."""
    found: dict[Hop, set[str]] = {}
    for trend in trends:
        found.setdefault(_hop(trend), set()).add(trend.flow or "")
    return found


def _hop(trend: Trend) -> Hop:
    return trend.plan, trend.content, trend.start, trend.end, trend.strategy


def _machine(one: KeptRun | Trend) -> str:
    return f"{one.machine} ({one.backend})"


def _run_row(run: KeptRun, *, told: bool) -> Row:
    bad = run.exit_code != 0
    return [
        str(run.id),
        run.date[:16].replace("T", " "),
        run.plan,
        _machine(run) if told else "",
        format_time(run.predicted_s),
        format_time(run.measured_s),
        Cell(_error(run.error_factor), error_tone(run.error_factor)),
        Cell(f"exit {run.exit_code}", "bad") if bad else "",
    ]


def _trend_row(
    trend: Trend, names: Names, flows: Mapping[Hop, set[str]], style: Style, *, told: bool
) -> Row:
    last = trend.days[-1]
    # Of rates the error is turned round, so that slower means slower in both tables.
    slow, fast = (
        (last.measured, last.predicted)
        if trend.unit == "s"
        else (
            last.predicted,
            last.measured,
        )
    )
    factor = slow / fast if fast > 0 else 1.0
    figures: list[str | Cell] = [
        _machine(trend) if told else "",
        str(trend.runs),
        quantity(last.predicted, trend.unit),
        quantity(last.measured, trend.unit),
        Cell(_error(factor), error_tone(factor)),
        sparkline([day.measured for day in trend.days], unicode=style.unicode),
    ]
    name = names[trend.plan, trend.content]
    if trend.kind == "plan":
        return [name, *figures]
    flow = trend.flow if trend.flow and len(flows[_hop(trend)]) > 1 else ""
    return [f"{trend.start} → {trend.end}", trend.strategy or "", name, flow, *figures]


def _error(factor: float) -> str:
    return f"{error_words(factor)} {error_mark(factor)}".strip()
