"""Daily medians of every series, worked out once.

A run only marks its days as stale; whoever asks next works their medians out and keeps them, so
that an answer reads one row a day however many runs there were.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median
from typing import NamedTuple

from planner.review.history.database import is_barred, writing
from planner.review.history.sound import count, day, figure, sound


class DayRow(NamedTuple):
    """One day (counted from 1970, UTC) of one series: its runs and their medians."""

    series: int
    day: int
    runs: int
    predicted: float
    measured: float


def days_of(connection: sqlite3.Connection, series: Sequence[int], first: int) -> list[DayRow]:
    """The days of each of `series` from day `first` on, in order.

    What is stale is worked out, and kept unless the database cannot be written now.
    """
    try:
        _settle(connection)
    except sqlite3.OperationalError as error:
        if not is_barred(error):
            raise
    wanted = set(series)
    found = {
        (row[0], row[1]): DayRow(*row)
        for row in sound(
            connection.execute(
                "SELECT series, day, runs, predicted, measured FROM days"
                " WHERE day >= ? AND NOT stale",
                (first,),
            ),
            "days",
            series=count,
            day=day,
            runs=count,
            predicted=figure,
            measured=figure,
        )
        if row[0] in wanted
    }
    for row in _stale(connection):  # none, unless another process came between or none may write
        if row.series in wanted and row.day >= first:
            found[row.series, row.day] = row
    return [found[key] for key in sorted(found)]


def _settle(connection: sqlite3.Connection) -> None:
    """Work out what is stale and keep it; no run can come between, as writers wait."""
    if connection.execute("SELECT 1 FROM days WHERE stale LIMIT 1").fetchone() is None:
        return
    with writing(connection):
        rows = [(row.runs, row.predicted, row.measured, *row[:2]) for row in _stale(connection)]
        connection.executemany(
            "UPDATE days SET runs = ?, predicted = ?, measured = ?, stale = 0"
            " WHERE series = ? AND day = ?",
            rows,
        )


def _stale(connection: sqlite3.Connection) -> Iterator[DayRow]:
    """The medians of all days that have changed since they were worked out."""
    rows = connection.execute(
        "SELECT series, day, measures.predicted, measures.measured"
        " FROM days JOIN measures USING (series, day) WHERE stale ORDER BY series, day"
    )
    checked = sound(rows, "measures", series=count, day=day, predicted=figure, measured=figure)
    for (series, date), group in groupby(checked, key=lambda row: row[:2]):
        values = list(group)
        predicted, measured = (median(row[at] for row in values) for at in (2, 3))
        yield DayRow(series, date, len(values), predicted, measured)
