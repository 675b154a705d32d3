"""Runs kept, found again and forgotten."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Self

from planner.errors import InputError
from planner.plan.schema import Plan
from planner.results import Run
from planner.review.history.database import history_file, is_barred, opened, writing
from planner.review.history.sound import LARGEST

DAY_S: Final = 86400
_APART: Final = ("name", "objectives", "machine", "matrix")
"""Parts of a plan that change what is asked of it, but nothing that is moved."""


@dataclass(frozen=True, slots=True)
class Which:
    """The runs that are meant; what is `None` does not count. Times in seconds since 1970."""

    plan: str | None = None
    machine: str | None = None
    link: str | None = None
    since_s: float | None = None
    before_s: float | None = None
    ids: tuple[int, ...] = ()

    def where(self) -> tuple[str, list[Any]]:
        """The condition on the table `runs`, and its values; `link` is no matter of a run."""
        parts: list[tuple[str, list[Any]]] = [
            (condition, [value])
            for condition, value in (
                ("plan = ?", self.plan),
                ("machine = ?", self.machine),
                ("at_s >= ?", self.since_s),
                ("at_s < ?", self.before_s),
            )
            if value is not None
        ]
        if self.ids:
            parts.append(
                (
                    f"id IN ({', '.join('?' * len(self.ids))})",
                    [min(number, LARGEST) for number in self.ids],
                )
            )
        condition = " AND ".join(text for text, _ in parts) or "1"
        return condition, [value for _, values in parts for value in values]


class Store:
    """An open history; `Store.open()` is the way to one."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection = connection
        self.path = path

    @classmethod
    @contextmanager
    def open(cls, path: Path | None = None, *, write: bool = False) -> Iterator[Self]:
        """The history at `path`, of this user if `None`; `write` makes it where there is none.

        Raises `InputError` and `ExecutionError` as `database.opened` does.
        """
        file = path or history_file()
        if not write and not file.exists():
            raise InputError(f"there is no history {file}", hint="`planner execute PLAN` begins it")
        with opened(file, _insert_whole, write=write) as connection:
            yield cls(connection, file)

    def keep(self, run: Run) -> int:
        """Keep the run; its number. Other processes may do the same at the same time."""
        document = run.model_dump(mode="json")
        with writing(self.connection):
            return _insert(self.connection, document)

    def find(self, number: int) -> Run:
        """The run of that number; raises `InputError` where there is none."""
        row = self.connection.execute(
            "SELECT documents.body, estimates.body FROM documents"
            " JOIN estimates ON estimates.id = documents.estimate WHERE run = ?",
            (min(number, LARGEST),),
        ).fetchone()
        if row is None:
            raise InputError(
                f"the history has no run {number}", hint="`planner history` lists the latest"
            )
        try:
            document = json.loads(zlib.decompress(row[0]))
            document["estimate"] = json.loads(zlib.decompress(row[1]))
            return Run.model_validate(document)
        except (ValueError, TypeError, zlib.error) as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"run {number} of {self.path} is damaged: {reason}",
                hint=f"the others can be shown; `planner history forget {number}` takes it out",
            ) from error

    def count(self, which: Which | None = None) -> int:
        """How many runs there are of those that are meant."""
        condition, values = (which or Which()).where()
        statement = f"SELECT count(*) FROM runs WHERE {condition}"  # noqa: S608 - our own words
        (found,) = self.connection.execute(statement, values).fetchone()
        return int(found)

    def forget(self, which: Which) -> int:
        """Take the runs that are meant out for good; how many they were."""
        condition, values = which.where()
        meant = f"(SELECT id FROM runs WHERE {condition})"  # noqa: S608 - our own words
        with writing(self.connection):
            self.connection.execute(
                "UPDATE days SET stale = 1 WHERE (series, day) IN"  # noqa: S608
                f" (SELECT series, day FROM measures WHERE run IN {meant})",
                values,
            )
            gone = self.connection.execute(
                f"DELETE FROM runs WHERE {condition}",  # noqa: S608
                values,
            ).rowcount
            for statement in _LEFT_OVER:
                self.connection.execute(statement)
        try:
            self.connection.execute("VACUUM")
        except sqlite3.OperationalError as error:
            if not is_barred(error):  # others are at work, say: the space is given back later
                raise
        return gone


_LEFT_OVER: Final = (
    "DELETE FROM estimates WHERE id NOT IN (SELECT estimate FROM documents)",
    (
        "DELETE FROM days WHERE stale AND NOT EXISTS (SELECT 1 FROM measures"
        " WHERE measures.series = days.series AND measures.day = days.day)"
    ),
    "DELETE FROM series WHERE NOT EXISTS (SELECT 1 FROM days WHERE days.series = series.id)",
)


def keep(run: Run, path: Path | None = None) -> int:
    """Keep one run in the history at `path`, of this user if `None`; its number."""
    with Store.open(path, write=True) as store:
        return store.keep(run)


def _insert_whole(connection: sqlite3.Connection, document: bytes, number: int) -> None:
    _insert(connection, json.loads(document), number)


def _insert(connection: sqlite3.Connection, run: dict[str, Any], number: int | None = None) -> int:
    """Keep the JSON of a run, in a transaction of the caller."""
    where, plan = run["environment"], run["estimate"]["plan"]
    at = datetime.fromisoformat(where["date"])
    at_s = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    content = content_of(plan, [flow["cache"] for flow in run["flows"]])
    common = (plan.get("name", "plan"), content, where["machine"])
    kept = connection.execute(
        "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            number,
            at_s,
            *common,
            where["host"],
            where["backend"],
            run["predicted_makespan_s"],
            run["makespan_s"],
            run["verdict"]["exit_code"],
            run["verdict"]["sentence"],
        ),
    ).lastrowid
    assert kept is not None  # noqa: S101 - SQLite gives every row that it inserts a number
    _insert_document(connection, run, kept)
    for series, predicted, measured in _measures(run):
        _insert_measure(
            connection,
            (series[0], *common, where["backend"], *series[1:]),
            (int(at_s // DAY_S), kept, predicted, measured),
        )
    return kept


def _insert_document(connection: sqlite3.Connection, run: dict[str, Any], kept: int) -> None:
    body = _packed(run["estimate"])
    digest = hashlib.sha256(body).hexdigest()
    found = connection.execute("SELECT id FROM estimates WHERE digest = ?", (digest,)).fetchone()
    if found is None:
        row = (digest, zlib.compress(body))
        made = connection.execute("INSERT INTO estimates (digest, body) VALUES (?, ?)", row)
        found = (made.lastrowid,)
    rest = {key: value for key, value in run.items() if key != "estimate"}
    document = (kept, *found, zlib.compress(_packed(rest)))
    connection.execute("INSERT INTO documents VALUES (?, ?, ?)", document)


def _insert_measure(
    connection: sqlite3.Connection,
    series: tuple[str, ...],
    measure: tuple[int, int, float, float],
) -> None:
    connection.execute(
        "INSERT INTO series VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        series,
    )
    (number,) = connection.execute(
        "SELECT id FROM series WHERE kind = ? AND plan = ? AND content = ? AND machine = ?"
        " AND backend = ? AND flow = ? AND link = ? AND start = ? AND finish = ?"
        " AND strategy = ?",
        series,
    ).fetchone()
    connection.execute("INSERT INTO measures VALUES (?, ?, ?, ?, ?)", (number, *measure))
    connection.execute(
        "INSERT INTO days (series, day) VALUES (?, ?) ON CONFLICT DO UPDATE SET stale = 1",
        (number, measure[0]),
    )


def _measures(run: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], float, float]]:
    """(kind, flow, link, start, end, strategy), predicted and measured: seconds, then rates."""
    yield ("plan", "", "", "", "", ""), run["predicted_makespan_s"], run["makespan_s"]
    seen = set()
    for flow in run["flows"]:
        for row in flow["hops"]:
            hop = row["hop"]
            key = (flow["name"], row["resource"], hop["start"], hop["end"], hop["strategy"])
            # A file that is mapped moves nothing on its hop; a hop of two ways counts once.
            if row["rate_bytes_per_s"] > 0 and key not in seen:
                seen.add(key)
                yield ("link", *key), row["predicted_rate_bytes_per_s"], row["rate_bytes_per_s"]


def content_of(plan: dict[str, Any], caches: Sequence[str]) -> str:
    """Twelve digits that two runs share if they moved the same, out of caches in the same state."""
    return _content(json.dumps(plan, sort_keys=True), tuple(caches))


@lru_cache(maxsize=64)
def _content(plan: str, caches: tuple[str, ...]) -> str:
    said = Plan.model_validate_json(plan).canonical()
    body = [{key: said[key] for key in said if key not in _APART}, caches]
    return hashlib.sha256(_packed(body)).hexdigest()[:12]


def _packed(value: Any) -> bytes:
    """The value as JSON, its keys in the order that they have: pages follow it."""
    return json.dumps(value, separators=(",", ":")).encode()
