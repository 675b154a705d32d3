"""What is wrong with a history is told, how to mend it too; it is never written over."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from pathlib import Path

import pytest

from planner.errors import ExecutionError, InputError
from planner.review.history import database
from planner.review.history.layout import APPLICATION, LAYOUT
from planner.review.history.store import Store, keep
from planner.review.history.trend import history
from tests.helpers.history import run_on, write_layout_1


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite3"


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_database_of_layout_1_is_migrated_with_every_run(file: Path) -> None:
    runs = [run_on(0), run_on(1, rate=48e9), run_on(2, size="64MB", seconds=0.01)]
    write_layout_1(file, runs)
    with Store.open(file) as store:
        assert [store.find(number) for number in (1, 2, 3)] == runs
        assert store.connection.execute("PRAGMA user_version").fetchone() == (LAYOUT,)
        # Layout 1 took the last run for the same plan as the others: it is one of its own now.
        plans = store.connection.execute("SELECT count(*) FROM series WHERE kind = 'plan'")
        assert plans.fetchone() == (2,)
        tables = store.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        assert not {"hops", "runs_1"} & {name for (name,) in tables}
    assert keep(run_on(3), file) == 4


def test_the_number_of_a_run_forgotten_before_a_migration_stays_taken(file: Path) -> None:
    write_layout_1(file, [run_on(0), run_on(1)])
    connection = sqlite3.connect(file)
    connection.execute("DELETE FROM runs WHERE id = 2")
    connection.commit()
    connection.close()
    assert keep(run_on(2), file) == 3


def test_a_migration_that_fails_changes_nothing(file: Path) -> None:
    write_layout_1(file, [run_on(0), run_on(1)])
    connection = sqlite3.connect(file)
    connection.execute("UPDATE runs SET body = ? WHERE id = 2", (b"no zlib",))
    connection.commit()
    connection.close()
    with pytest.raises(InputError, match="nothing was changed"), Store.open(file, write=True):
        pass
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    assert connection.execute("SELECT count(*) FROM runs").fetchone() == (2,)
    connection.close()


def test_a_newer_layout_is_refused(file: Path) -> None:
    keep(run_on(0), file)
    connection = sqlite3.connect(file)
    connection.execute(f"PRAGMA user_version = {LAYOUT + 1}")
    connection.close()
    with pytest.raises(InputError, match="made by a newer planner"):
        keep(run_on(1), file)


@pytest.mark.parametrize("write", [False, True])
def test_what_is_no_database_is_told_and_left_as_it_is(file: Path, write: bool) -> None:
    file.write_bytes(b"these are my notes, not a database\n" * 200)
    before = digest(file)
    with pytest.raises(InputError, match="is damaged") as caught, Store.open(file, write=write):
        pass
    assert f"mv {file} {file}.damaged" in str(caught.value.hint)
    assert digest(file) == before


def test_a_history_with_a_torn_page_is_told_and_left_as_it_is(file: Path) -> None:
    for day in range(40):
        keep(run_on(day), file)
    size = file.stat().st_size
    with file.open("r+b") as opened:  # all but the first page, which says what the file is
        opened.seek(4096)
        opened.write(b"\xff" * (size - 4096))
    before = digest(file)
    with pytest.raises(InputError, match="is damaged"):
        keep(run_on(40), file)
    assert digest(file) == before


def test_a_database_of_another_program_is_not_written_to(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.commit()
    connection.close()
    with pytest.raises(InputError, match="of another program"):
        keep(run_on(0), file)
    connection = sqlite3.connect(file)
    names = connection.execute("SELECT name FROM sqlite_master").fetchall()
    connection.close()
    assert names == [("bookmarks",)]
    assert int.from_bytes(b"PLNR", "big") == APPLICATION


def test_a_full_disk_is_an_error_of_its_own(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(run_on(0), file)
    connect = database._connected

    def full(path: Path, *, write: bool) -> sqlite3.Connection:
        connection = connect(path, write=write)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")  # SQLite says SQLITE_FULL then
        return connection

    monkeypatch.setattr(database, "_connected", full)

    def fill() -> None:
        for day in range(200):
            keep(run_on(day, plan=f"plan{day}"), file)

    with pytest.raises(ExecutionError, match="full"):
        fill()


def test_a_history_in_use_is_waited_for_and_then_told(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(run_on(0), file)
    monkeypatch.setattr(database, "WAIT_S", 0.05)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ExecutionError, match="is in use"):
        keep(run_on(1), file)
    with Store.open(file) as store:  # a reader waits for nobody
        assert store.count() == 1
    other.close()


def test_a_history_that_nobody_may_write_to_is_read(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(run_on(0), file)
    before = digest(file)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with Store.open(file) as store:
        assert store.find(1) == run_on(0)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            store.connection.execute("DELETE FROM runs")
    assert digest(file) == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_mistake_of_ours_is_not_told_as_a_fault_of_the_file(file: Path) -> None:
    keep(run_on(0), file)
    with pytest.raises(sqlite3.OperationalError, match="no such column"), Store.open(file) as store:
        store.connection.execute("SELECT missing FROM runs")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("UPDATE runs SET measured_s = 'long'", "runs.measured_s holds 'long'"),
        ("UPDATE runs SET at_s = 1e300", "runs.at_s holds 1e+300"),
        ("UPDATE runs SET plan = CAST(x'ff' AS TEXT)", "UTF-8"),
        ("UPDATE runs SET plan = x'41'", "runs.plan holds b'A'"),
        ("UPDATE measures SET measured = 'fast'", "measures.measured holds 'fast'"),
        ("UPDATE days SET day = 99999999, stale = 0", "days.day holds 99999999"),
        ("UPDATE series SET strategy = x'00'", "series.strategy holds"),
        ("DROP TABLE days", "the table days is missing"),
        ("ALTER TABLE runs RENAME COLUMN sentence TO words", "the table runs has no sentence"),
    ],
)
def test_a_history_of_other_values_is_told_and_left_as_it_is(
    file: Path, monkeypatch: pytest.MonkeyPatch, change: str, told: str
) -> None:
    """SQLite takes any value in any column, and any program may write to the file."""
    monkeypatch.setenv("PLANNER_STATE_DIR", str(file.parent))
    keep(run_on(0), file)
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute(change)
    connection.commit()
    connection.close()
    with pytest.raises(InputError, match="is damaged") as caught:
        history()
    assert told in caught.value.message
    assert "mv" in (caught.value.hint or "")


def test_a_folder_in_place_of_the_history_is_told_with_the_way_out(file: Path) -> None:
    file.mkdir()
    with pytest.raises(ExecutionError, match="it is a folder") as caught, Store.open(file):
        pass
    assert f"mv {file}" in (caught.value.hint or "")
