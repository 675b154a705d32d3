"""The page of a sweep: a grid of two keys or a list of points, what stands out, what cannot be.

A grid is a heat map too: each cell is shaded by how far it is from the best one, and the legend
says so in words.
"""

from __future__ import annotations

from typing import Final

from planner.plan.objectives import METRICS
from planner.report.estimate import closing
from planner.report.style import Style, Tone
from planner.report.table import Cell, Column, Row, prose, table
from planner.report.words import quantity
from planner.results.sweep import Sweep, SweepPick, SweepPoint
from planner.units import format_size

SHADES: Final = ((1.01, " "), (1.1, "░"), (1.5, "▒"), (3.0, "▓"))
"""Up to which multiple of the best a cell has which shade; beyond the last it is full."""
FULL: Final = "█"

_GAP: Final = 2
_MOST_REASONS: Final = 8

BY_WORDS: Final = {
    "price": "the lowest price of the machine",
    "hosts": "the fewest hosts",
    "gpus": "the fewest GPUs",
    "figures": "the slowest parts",
    "ring": "the least staging memory",
    "metric": "the best of equally small ones",
    "only": "the only one",
}
"""What a pick is smallest in."""


def sweep_text(sweep: Sweep, style: Style, *, saved: str | None = None) -> str:
    """The whole page; `saved` is the file that holds the result, named in the closing line."""
    name = str(sweep.plan.get("name", "plan"))
    done = f"{len(sweep.points)} of {sweep.planned}" if not sweep.complete else f"{sweep.planned}"
    keys = " × ".join(axis.key for axis in sweep.axes)
    head = style.paint(style.spell(name), "strong")
    lines = [head + style.spell(f"   sweep of {keys}: {done} points"), ""]
    lines += _grid(sweep, style) or _list(sweep, style)
    lines += _legend(sweep, style)
    lines += _reasons(sweep, style)
    lines += pick_lines(sweep, style)
    lines += ["", closing(sweep.verdict.sentence, sweep.verdict.passed, saved, style)]
    return "\n".join(lines) + "\n"


def value_words(sweep: Sweep, point: SweepPoint) -> str:
    """The metric of a point as people read it; a dash where it cannot be done."""
    return "—" if point.value is None else quantity(point.value, sweep.metric.unit)


def shade(sweep: Sweep, point: SweepPoint) -> str:
    """How far the point is from the best one, as a block: the heat map's cell."""
    best = next((p.value for p in sweep.points if p.index == sweep.best), None)
    if point.value is None or not best or best <= 0 or point.value <= 0:
        return " "
    factor = point.value / best if sweep.metric.better == "less" else best / point.value
    return next((block for most, block in SHADES if factor <= most), FULL)


def mark(sweep: Sweep, point: SweepPoint) -> tuple[str, Tone]:
    """▸ for a pick, ✗ where an objective is missed, ✓ where all are met, ? where one is not known.

    — where it cannot be done.
    """
    if not point.feasible:
        return "—", "dim"
    picked = [pick.point for pick in (sweep.smallest, sweep.near_best) if pick is not None]
    if point.index in picked:
        return "▸", "strong" if point.exit_code else "good"
    if not point.objectives:
        return " ", "plain"
    if point.met is None:
        return "?", "warn"
    return ("✓", "good") if point.met else ("✗", "bad")


def _cell(sweep: Sweep, point: SweepPoint | None) -> Cell:
    if point is None:
        return Cell("")
    sign, tone = mark(sweep, point)
    words = value_words(sweep, point)
    return Cell(f"{sign} {words} {shade(sweep, point)}" if point.feasible else "—  ", tone)


def _grid(sweep: Sweep, style: Style) -> list[str]:
    """Two keys: the first across, the second down, or turned where only that fits; else nothing."""
    if len(sweep.axes) != 2:
        return []
    down = len(sweep.axes[1].values)
    cells = {divmod(p.index, down): _cell(sweep, p) for p in sweep.points}
    turned = {(j, i): cell for (i, j), cell in cells.items()}
    for across, below, found in (
        (sweep.axes[0], sweep.axes[1], cells),
        (sweep.axes[1], sweep.axes[0], turned),
    ):
        columns = [Column(sweep.metric.name)]
        columns += [Column(f"{value}  ", right=True) for value in across.values]
        lines: list[Row] = [
            [
                f"{below.key} {value}",
                *(found.get((i, j), Cell("")) for i in range(len(across.values))),
            ]
            for j, value in enumerate(below.values)
        ]
        plain = table(columns, lines, Style(style.width, unicode=style.unicode), indent=_GAP)
        if max(map(len, plain)) <= style.width:
            title = style.spell(f"  {across.key} across, {below.key} down")
            return [style.paint(title, "dim"), *table(columns, lines, style, indent=_GAP)]
    return []


def _list(sweep: Sweep, style: Style) -> list[str]:
    """One line a point, with all that differs between points."""
    columns = [
        Column(""),
        *(Column(axis.key) for axis in sweep.axes),
        Column(sweep.metric.name, right=True),
        Column(""),
        Column("limit", give_way=1),
        Column("ring", right=True, give_way=2),
        Column("hosts", right=True, give_way=3),
        Column("GPUs", right=True, give_way=4),
        Column("price/h", right=True, give_way=5),
        Column("strategies", give_way=6),
    ]
    same = {name: _alike(sweep, name) for name in ("hosts", "gpus")}
    rows: list[Row] = [_row(sweep, point, same) for point in sweep.points]
    return table(columns, rows, style, indent=_GAP) if rows else ["  no point is done"]


def _alike(sweep: Sweep, name: str) -> bool:
    return len({getattr(p, name) for p in sweep.points if p.feasible}) < 2


def _row(sweep: Sweep, point: SweepPoint, same: dict[str, bool]) -> Row:
    sign, tone = mark(sweep, point)
    limit = point.bottleneck
    strategies = dict.fromkeys("+".join(dict.fromkeys(f.strategies)) for f in point.flows)
    return [
        Cell(sign, tone),
        *(point.settings[axis.key] for axis in sweep.axes),
        Cell(value_words(sweep, point), tone),
        shade(sweep, point),
        limit.resource if limit else "",
        format_size(point.ring_bytes) if point.ring_bytes else "",
        "" if same["hosts"] or point.hosts is None else str(point.hosts),
        "" if same["gpus"] or point.gpus is None else str(point.gpus),
        "" if point.price_per_hour is None else f"{point.price_per_hour:.4g}",
        ", ".join(strategies),
    ]


def _legend(sweep: Sweep, style: Style) -> list[str]:
    if not any(p.feasible for p in sweep.points):
        return []
    slower = "slower" if METRICS[sweep.metric.name.rpartition(".")[2]].unit == "s" else "off"
    shades = (
        f"no shade: within 1 % of the best; ░ up to 1.1×, ▒ 1.5×, ▓ 3×, █ more than 3× {slower}"
    )
    objectives = any(p.objectives for p in sweep.points)
    signs = "▸ picked below" + (", ✓ meets all objectives, ✗ misses one" if objectives else "")
    signs += (
        ", ? one is not known to an estimate" if any(p.met is None for p in sweep.points) else ""
    )
    lost = "" if all(p.feasible for p in sweep.points) else ", — cannot be done"
    text = f"{signs}{lost}. Shades: {shades}."
    return ["", *(style.paint(line, "dim") for line in prose(text, style, indent=_GAP, hang=2))]


def _reasons(sweep: Sweep, style: Style) -> list[str]:
    """Why points cannot be done: each reason once, with the points that it holds for."""
    reasons: dict[str, list[SweepPoint]] = {}
    for point in sweep.points:
        if point.reason is not None:
            reasons.setdefault(point.reason, []).append(point)
    lines: list[str] = [""] if reasons else []
    for reason, points in list(reasons.items())[:_MOST_REASONS]:
        where = settings_words(points[0])
        more = f" and {len(points) - 1} more" if len(points) > 1 else ""
        text = f"— {where}{more}: {reason}"
        lines += prose(text, style, indent=_GAP, hang=2)
    if len(reasons) > _MOST_REASONS:
        lines.append(f"  and {len(reasons) - _MOST_REASONS} more reasons (--json has them all)")
    return lines


def settings_words(point: SweepPoint) -> str:
    """`chunk 16MiB, depth 2`."""
    return ", ".join(f"{key} {value}" for key, value in point.settings.items())


def pick_lines(sweep: Sweep, style: Style) -> list[str]:
    """The picks, a paragraph each, behind an empty line."""
    lines = [line for text in pick_sentences(sweep) for line in prose(text, style, hang=2)]
    return ["", *lines] if lines else []


def pick_sentences(sweep: Sweep) -> list[str]:
    """`▸ smallest that meets all objectives: …` and `▸ cheapest within 1 % of the best: …`."""
    known = {point.index: point for point in sweep.points}
    found = []
    for pick, what in (
        (sweep.smallest, "smallest that meets all objectives"),
        (sweep.near_best, "smallest within 1 % of the best"),
    ):
        if pick is not None:
            found.append(f"▸ {what}: {_picked(sweep, known[pick.point], pick)}")
    return found


def _picked(sweep: Sweep, point: SweepPoint, pick: SweepPick) -> str:
    value = f"{sweep.metric.name} {value_words(sweep, point)}"
    return f"{settings_words(point)} ({BY_WORDS[pick.by]}); {value}"
