"""Runs are kept whole, by several writers at once, and taken out whole."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.review.history.store import Store, Which, content_of, keep
from tests.helpers.history import run_on

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "history.sqlite3"


def test_a_run_comes_back_as_it_was(file: Path) -> None:
    first, second = run_on(0), run_on(1, rate=48e9)
    assert [keep(first, file), keep(second, file)] == [1, 2]
    with Store.open(file) as store:
        assert store.find(1) == first
        # Also the order of keys: pages follow it.
        assert store.find(2).model_dump_json() == second.model_dump_json()


def test_equal_estimates_are_kept_once(file: Path) -> None:
    for day in range(5):
        keep(run_on(day), file)
    with Store.open(file) as store:
        (estimates,) = store.connection.execute("SELECT count(*) FROM estimates").fetchone()
    assert estimates == 1


def test_a_run_that_is_not_there_is_told(file: Path) -> None:
    keep(run_on(0), file)
    with Store.open(file) as store, pytest.raises(InputError, match="no run 7"):
        store.find(7)


def test_a_number_beyond_what_a_database_counts_names_no_run(file: Path) -> None:
    keep(run_on(0), file)
    with Store.open(file, write=True) as store:
        with pytest.raises(InputError, match=f"no run {10**20}"):
            store.find(10**20)
        assert store.forget(Which(ids=(10**20,))) == 0
        assert store.count() == 1


@pytest.mark.parametrize("body", [b"no zlib", 7])
def test_a_damaged_run_is_told_with_the_way_to_take_it_out(file: Path, body: object) -> None:
    keep(run_on(0), file)
    with Store.open(file, write=True) as store:
        store.connection.execute("UPDATE documents SET body = ?", (body,))
        with pytest.raises(InputError, match=r"run 1 of .* is damaged") as caught:
            store.find(1)
    assert "forget 1" in (caught.value.hint or "")


def test_a_reader_makes_no_history(file: Path) -> None:
    with pytest.raises(InputError, match="there is no history"), Store.open(file):
        pass
    assert not file.parent.exists()


def test_what_is_forgotten_is_gone_and_its_number_is_not_given_again(file: Path) -> None:
    for day in range(4):
        keep(run_on(day, plan="a" if day < 3 else "b"), file)
    with Store.open(file, write=True) as store:
        assert store.forget(Which(plan="b")) == 1
        assert store.count() == 3
        rows = "SELECT (SELECT count(*) FROM {0} WHERE plan = 'b')".format
        assert store.connection.execute(rows("series")).fetchone() == (0,)
        left = store.connection.execute("SELECT count(*) FROM documents").fetchone()
        assert left == (3,)
        # b's estimate names another plan, so it was kept apart: it goes with its last run.
        assert store.connection.execute("SELECT count(*) FROM estimates").fetchone() == (1,)
    assert keep(run_on(5), file) == 5


def test_runs_are_chosen_by_time_and_number(file: Path) -> None:
    for day in range(4):
        keep(run_on(day), file)
    noon = 1792497600.0  # 2026-10-20 12:00 UTC, day 0: date -u -d @1792497600
    with Store.open(file) as store:
        assert store.count(Which(since_s=noon)) == 4
        assert store.count(Which(since_s=noon + 1)) == 3
        assert store.count(Which(before_s=noon + 86400)) == 1
        assert store.count(Which(ids=(1, 3, 9))) == 2


def test_content_tells_what_is_moved_and_nothing_else() -> None:
    plan = run_on(0).estimate.plan
    same = content_of(plan, ["warm"])
    assert same == content_of({**plan, "name": "b", "objectives": []}, ["warm"])
    assert same != content_of(run_on(0, size="15GB").estimate.plan, ["warm"])
    assert same != content_of(plan, ["cold"])


WRITER = """
import sys
from pathlib import Path
from planner.review.history.store import keep
from tests.helpers.history import run_on
for number in range(int(sys.argv[2])):
    keep(run_on(number % 30, rate=50e9 + number), Path(sys.argv[1]))
"""


def test_two_processes_that_write_1000_runs_each_lose_none(file: Path) -> None:
    # Each opens the history anew for each run, as `planner execute` does; the first makes it.
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(file), "1000"], cwd=ROOT)
        for _ in range(2)
    ]
    assert [writer.wait(timeout=300) for writer in writers] == [0, 0]
    with Store.open(file) as store:
        assert store.count() == 2000
        measures = store.connection.execute(
            "SELECT count(*), count(DISTINCT run) FROM measures"
        ).fetchone()
        assert measures == (3 * 2000, 2000)  # the makespan and two hops of each
        rates = store.connection.execute(
            "SELECT measured, count(*) FROM measures JOIN series ON series.id = series"
            " WHERE strategy = 'pinned' GROUP BY measured"
        ).fetchall()
        assert sorted(rates) == [(50e9 + number, 2) for number in range(1000)]
        assert store.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_writer_that_is_killed_leaves_a_whole_history(file: Path) -> None:
    keep(run_on(0), file)
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM documents")
    connection.close()  # as the system closes the files of a process that is killed
    with Store.open(file) as store:
        assert store.find(1) == run_on(0)
