"""The objectives of a result, as lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from planner.report.style import Style
from planner.report.table import Cell, Column, table
from planner.report.words import margin_words, objective_mark, value_or_why
from planner.results import ObjectiveResult

_COLUMNS = [
    Column(""),
    Column(""),
    Column("", right=True),
    Column("", give_way=1),
    Column("", give_way=2),
]


def objective_lines(
    objectives: Sequence[ObjectiveResult], style: Style, *, unknown: str
) -> list[str]:
    """One line an objective: mark, text, value, margin, and while what it holds.

    `unknown` stands for a value that this kind of result cannot have.
    """
    if not objectives:
        return []
    rows = []
    for objective in objectives:
        mark, tone = objective_mark(objective)
        holds = f"holds while {objective.holds_while}" if objective.holds_while else ""
        row: list[str | Cell] = [
            Cell(mark, tone),
            objective.text,
            value_or_why(objective, unknown),
            margin_words(objective),
            holds,
        ]
        rows.append(row)
    title = style.paint("  objectives", "strong")
    return ["", title, *table(_COLUMNS, rows, style)]
