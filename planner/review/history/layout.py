"""The tables of the history, and how a database of an older layout becomes one of this.

Layout 1 kept each run whole, 50 kB of JSON of which the estimate, the same for every run of a plan
until the next calibration, was nine tenths; and it told plans apart by their name, so that
`--set weights=64MB` looked like a load that had become 200 times faster. Layout 2 keeps each
estimate once, and a digest of what the plan says beside its name. It also keeps the hops as series
of days, so that a question reads a summary and no JSON.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable
from typing import Final

LAYOUT: Final = 2
"""`PRAGMA user_version` of a database that this version reads and writes."""

APPLICATION: Final = 0x504C4E52
"""`PRAGMA application_id`, "PLNR": a database of another program is refused, not written to."""

TABLES: Final = (
    (
        "CREATE TABLE estimates (id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE,"
        " body BLOB NOT NULL)"
    ),
    # AUTOINCREMENT: the number of a run that was forgotten never names another one.
    (
        "CREATE TABLE runs (id INTEGER PRIMARY KEY AUTOINCREMENT, at_s REAL NOT NULL,"
        " plan TEXT NOT NULL, content TEXT NOT NULL, machine TEXT NOT NULL, host TEXT NOT NULL,"
        " backend TEXT NOT NULL, predicted_s REAL NOT NULL, measured_s REAL NOT NULL,"
        " exit_code INTEGER NOT NULL, sentence TEXT NOT NULL)"
    ),
    "CREATE INDEX runs_of_plan ON runs (plan)",
    "CREATE INDEX runs_of_machine ON runs (machine)",
    "CREATE INDEX runs_by_time ON runs (at_s)",
    # Apart from `runs`, so that a look at many runs reads no documents.
    (
        "CREATE TABLE documents (run INTEGER PRIMARY KEY REFERENCES runs ON DELETE CASCADE,"
        " estimate INTEGER NOT NULL REFERENCES estimates, body BLOB NOT NULL)"
    ),
    "CREATE INDEX documents_of_estimate ON documents (estimate)",
    (
        "CREATE TABLE series (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, plan TEXT NOT NULL,"
        " content TEXT NOT NULL, machine TEXT NOT NULL, backend TEXT NOT NULL, flow TEXT NOT NULL,"
        " link TEXT NOT NULL, start TEXT NOT NULL, finish TEXT NOT NULL, strategy TEXT NOT NULL,"
        " UNIQUE (kind, plan, content, machine, backend, flow, link, start, finish, strategy))"
    ),
    (
        "CREATE TABLE measures (series INTEGER NOT NULL REFERENCES series, day INTEGER NOT NULL,"
        " run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, predicted REAL NOT NULL,"
        " measured REAL NOT NULL, PRIMARY KEY (series, day, run)) WITHOUT ROWID"
    ),
    "CREATE INDEX measures_of_run ON measures (run)",
    # The median of each day, worked out by whoever asks first; `stale` where a run came since.
    (
        "CREATE TABLE days (series INTEGER NOT NULL REFERENCES series, day INTEGER NOT NULL,"
        " runs INTEGER NOT NULL DEFAULT 0, predicted REAL NOT NULL DEFAULT 0,"
        " measured REAL NOT NULL DEFAULT 0, stale INTEGER NOT NULL DEFAULT 1,"
        " PRIMARY KEY (series, day)) WITHOUT ROWID"
    ),
    "CREATE INDEX days_stale ON days (series, day) WHERE stale",
)

Insert = Callable[[sqlite3.Connection, bytes, int], None]
"""`insert(connection, document, id)`: keep the JSON of a run under the number it had."""


def make(connection: sqlite3.Connection) -> None:
    """Make the tables of a new database; within a transaction of the caller."""
    for statement in TABLES:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {LAYOUT}")


def from_1_to_2(connection: sqlite3.Connection, insert: Insert) -> None:
    """Keep every run anew in the tables of layout 2; within a transaction of the caller."""
    connection.execute("DROP INDEX IF EXISTS runs_by_plan")
    connection.execute("ALTER TABLE runs RENAME TO runs_1")
    connection.execute("DROP TABLE hops")
    make(connection)
    for number, body in connection.execute("SELECT id, body FROM runs_1 ORDER BY id"):
        insert(connection, zlib.decompress(body), number)
    # Numbers that were given out stay taken, also those of runs that are gone.
    connection.execute(
        "UPDATE sqlite_sequence SET seq = (SELECT max(seq) FROM sqlite_sequence"
        " WHERE name IN ('runs', 'runs_1')) WHERE name = 'runs'"
    )
    connection.execute("DROP TABLE runs_1")
