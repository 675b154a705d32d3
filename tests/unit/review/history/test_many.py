"""A year of 100,000 runs answers at once: by summaries and indexes, not by reading documents."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from planner.review.history.store import Store, Which, keep
from planner.review.history.trend import history
from tests.helpers.history import run_on

RUNS = 100_000


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """100,000 runs of eight plans over 365 days, made by SQL out of one that was kept."""
    monkeypatch.setenv("PLANNER_STATE_DIR", str(tmp_path))
    file = tmp_path / "history.sqlite3"
    for plan in range(8):
        keep(run_on(0, plan=f"plan{plan}"), file)
    connection = sqlite3.connect(file)
    # The only thing put in is our own number.
    connection.executescript(f"""
        CREATE TEMP TABLE number AS WITH RECURSIVE n (i) AS
          (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {RUNS} - 9) SELECT i FROM n;
        INSERT INTO runs SELECT NULL, at_s + i / 274 * 86400, plan, content, machine, host,
          backend, predicted_s, measured_s, exit_code, sentence
          FROM number JOIN runs ON id = i % 8 + 1;
        INSERT INTO documents SELECT runs.id, estimate, body FROM runs
          JOIN documents ON run = (runs.id - 1) % 8 + 1 WHERE runs.id > 8;
        INSERT INTO measures SELECT series, day + (runs.id - 9) / 274, runs.id,
          predicted, measured * (1 + runs.id % 7 * 0.01) FROM runs
          JOIN measures ON measures.run = (runs.id - 1) % 8 + 1 WHERE runs.id > 8;
        INSERT INTO days (series, day) SELECT DISTINCT series, day FROM measures WHERE true
          ON CONFLICT DO UPDATE SET stale = 1;
    """)  # noqa: S608
    connection.close()
    return file


@pytest.mark.usefixtures("many")
def test_100000_runs_answer_within_half_a_second() -> None:
    first = history()
    assert first.runs == RUNS
    assert len(first.trends) == 24  # eight plans, each with its makespan and two hops
    assert sum(trend.runs for trend in first.trends) == 3 * RUNS
    assert max(len(trend.days) for trend in first.trends) == 365
    # The processor's time: another program's load makes no claim wrong.
    for which in (Which(), Which(plan="plan3"), Which(link="pcie0")):
        began = time.process_time()
        history(which)
        assert time.process_time() - began < 0.5


@pytest.mark.usefixtures("many")
def test_no_answer_reads_a_document_or_all_runs() -> None:
    history()  # settles the days
    asked: list[str] = []
    with Store.open() as store:
        store.connection.set_trace_callback(asked.append)
        assert store.count(Which(plan="plan3")) == RUNS // 8
        store.connection.set_trace_callback(None)
        for statement in asked:
            steps = store.connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
            assert all("USING COVERING INDEX runs_of_plan" in step[3] for step in steps), steps
