"""Whether a history holds what this version writes: its tables, and values that make sense.

SQLite notices a torn page, but neither a table that is gone nor text where a number belongs: any
program may have written to the file.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime
from functools import cache
from operator import call
from typing import Any, Final

from planner.review.history.layout import make

LARGEST: Final = 2**63 - 1
"""The largest number that SQLite holds: no run has a larger one."""

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_FIRST_S: Final = datetime.min.replace(tzinfo=UTC).timestamp()
_LAST_S: Final = datetime.max.replace(tzinfo=UTC, microsecond=0).timestamp()

Check = Callable[[Any], bool]


class UnsoundError(Exception):
    """What a history holds is nothing that planner has written."""


def text(value: Any) -> bool:
    """A name, or a sentence."""
    return isinstance(value, str)


def count(value: Any) -> bool:
    """A whole number."""
    return isinstance(value, int)


def figure(value: Any) -> bool:
    """A time or a rate."""
    return isinstance(value, (int, float)) and math.isfinite(value)


def moment(value: Any) -> bool:
    """Seconds since 1970 that a date can tell."""
    return figure(value) and _FIRST_S <= value <= _LAST_S


def day(value: Any) -> bool:
    """Days since 1970 that a date can tell."""
    return count(value) and 1 <= value + _EPOCH_DAY <= date.max.toordinal()


def sound(
    rows: Iterable[tuple[Any, ...]], table: str, **columns: Check
) -> Iterator[tuple[Any, ...]]:
    """The rows of `columns`, each value checked; raises `UnsoundError` at one that is wrong."""
    checks = tuple(columns.values())
    for row in rows:
        if not all(map(call, checks, row)):  # looked at once more, to say which
            for value, (name, check) in zip(row, columns.items(), strict=True):
                if not check(value):
                    raise UnsoundError(f"{table}.{name} holds {value!r:.60}")
        yield row


def check_tables(connection: sqlite3.Connection) -> None:
    """Raise `UnsoundError` where a table of this layout, or a column of one, is missing."""
    found = _columns(connection)
    for table, columns in _expected().items():
        if table not in found:
            raise UnsoundError(f"the table {table} is missing")
        if missing := columns - found[table]:
            raise UnsoundError(f"the table {table} has no {min(missing)}")


@cache
def _expected() -> dict[str, set[str]]:
    connection = sqlite3.connect(":memory:")
    make(connection)
    found = _columns(connection)
    connection.close()
    return found


def _columns(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """The names of all columns, by table."""
    found: dict[str, set[str]] = {}
    for table, column in connection.execute(
        "SELECT tables.name, columns.name FROM sqlite_master AS tables"
        " JOIN pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'"
    ):
        found.setdefault(table, set()).add(column)
    return found
