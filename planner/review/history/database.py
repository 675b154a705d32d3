"""The file of the history: opened, made, brought to this layout; and what is wrong with it, told.

A database is never written over: what cannot be read stays as it is, and the error says how to
mend it. Writers wait for one another; a reader waits for nobody (write-ahead log).
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from planner.engine.folder import state_folder
from planner.errors import ExecutionError, InputError
from planner.review.history.layout import APPLICATION, LAYOUT, Insert, from_1_to_2, make
from planner.review.history.sound import UnsoundError, check_tables

NAME: Final = "history.sqlite3"
WAIT_S: Final = 20.0
"""Seconds to wait for other writers; one run is kept in a few milliseconds."""

_DAMAGED: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")
# Python says so of text that is no UTF-8, with no name of SQLite's.
_NOT_TEXT: Final = "Could not decode to UTF-8"
_BARRED: Final = (
    "SQLITE_AUTH",
    "SQLITE_BUSY",
    "SQLITE_CANTOPEN",
    "SQLITE_FULL",
    "SQLITE_IOERR",
    "SQLITE_LOCKED",
    "SQLITE_NOLFS",
    "SQLITE_PERM",
    "SQLITE_PROTOCOL",
    "SQLITE_READONLY",
    "SQLITE_TOOBIG",
)


def history_file() -> Path:
    """Where the history of this user lies."""
    return state_folder() / NAME


@contextmanager
def opened(path: Path, insert: Insert, *, write: bool) -> Iterator[sqlite3.Connection]:
    """The database at `path`, of this layout; what SQLite says against it is raised in our words.

    A reader of a place that nobody may write to gets what lies there.

    Raises
    ------
    InputError
        It is damaged, of another program, or of a newer version of planner.
    ExecutionError
        It cannot be written or read: no permission, no space, another process keeps it.

    """
    connection = None
    try:
        connection = _connected(path, write=write)
        _bring_up(connection, path, insert)
        check_tables(connection)
        yield connection
    except UnsoundError as error:
        raise _damaged(path, error) from error
    except sqlite3.Error as error:
        raise _told(error, path) from error
    finally:
        if connection is not None:
            connection.close()


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """One transaction, alone among writers from its first statement on; all of it or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _connected(path: Path, *, write: bool) -> sqlite3.Connection:
    """A connection in which every statement stands for itself until `writing` begins."""
    if write:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ExecutionError(
                f"the history cannot be kept in {path.parent}: {reason}"
            ) from error
    where = path.absolute().as_uri()
    if write or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        connection = sqlite3.connect(
            f"{where}?mode={'rwc' if write else 'rw'}",
            uri=True,
            timeout=WAIT_S,
            isolation_level=None,
        )
        connection.execute("PRAGMA journal_mode = WAL")
    else:
        # Without its log's index, which nobody can make here, only a database at rest is readable.
        rest = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"
        connection = sqlite3.connect(
            f"{where}?mode=ro{rest}", uri=True, timeout=WAIT_S, isolation_level=None
        )
    connection.execute("PRAGMA foreign_keys = ON")
    # The log is synced when it is emptied: a crash of the computer may cost the last runs, but
    # never the database.
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _bring_up(connection: sqlite3.Connection, path: Path, insert: Insert) -> None:
    """Make the tables of an empty file, and migrate those of an older layout."""
    if _layout(connection, path) == LAYOUT:
        return
    with writing(connection):
        found = _layout(connection, path)  # again: another process may have been first
        if found == 0:
            make(connection)
        elif found == 1:
            try:
                from_1_to_2(connection, insert)
            except (ValueError, KeyError, TypeError, zlib.error) as error:
                raise InputError(
                    f"the history {path} cannot be brought to layout {LAYOUT}: a run in it is"
                    f" damaged ({error}); nothing was changed",
                    hint=_move_away(path),
                ) from error


def _layout(connection: sqlite3.Connection, path: Path) -> int:
    """The layout of the database; 0 where there is nothing in it yet."""
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and owner != APPLICATION:
        raise InputError(
            f"{path} is a database of another program; it is left as it is", hint=_move_away(path)
        )
    if layout > LAYOUT:
        raise InputError(
            f"the history {path} is of layout {layout}, made by a newer planner; this one reads up"
            f" to {LAYOUT}",
            hint="use that version, or another folder: PLANNER_STATE_DIR",
        )
    return int(layout)


def is_barred(error: sqlite3.Error) -> bool:
    """Whether the database merely cannot be written: no permission, no space, others at work."""
    return (getattr(error, "sqlite_errorname", "") or "").startswith(_BARRED)


def _told(error: sqlite3.Error, path: Path) -> Exception:
    """What SQLite says, in our words, with the way out; a mistake of ours as it is."""
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(_DAMAGED) or _NOT_TEXT in str(error):
        return _damaged(path, error)
    if path.is_dir():
        return ExecutionError(
            f"the history {path} cannot be used: it is a folder", hint=_move_away(path)
        )
    if name.startswith("SQLITE_BUSY"):
        return ExecutionError(
            f"the history {path} is in use: another process kept it {WAIT_S:g} s",
            hint="run it again when that process is through",
        )
    if is_barred(error):
        return ExecutionError(
            f"the history {path} cannot be used: {error}",
            hint=f"see who may read and write it (ls -l {path.parent}), or keep another one in a"
            " folder of yours: PLANNER_STATE_DIR",
        )
    return error


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(
        f"the history {path} is damaged: {error}; it is left as it is", hint=_move_away(path)
    )


def _move_away(path: Path) -> str:
    return f"move it away, and the next run begins a new one: mv {path} {path}.damaged"
