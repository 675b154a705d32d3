"""Runs of a history: one load over one PCIe link, on days that a test chooses."""

from __future__ import annotations

import sqlite3
import zlib
from datetime import date, datetime, time, timedelta
from pathlib import Path

from planner.results import Run
from tests.helpers import results

FIRST = date(2026, 10, 20)
"""Day 0 of the histories that tests make."""

LAYOUT_1 = """
CREATE TABLE runs (
  id INTEGER PRIMARY KEY AUTOINCREMENT, at_s REAL NOT NULL, plan TEXT NOT NULL,
  machine TEXT NOT NULL, backend TEXT NOT NULL, predicted_s REAL NOT NULL,
  measured_s REAL NOT NULL, body BLOB NOT NULL
);
CREATE INDEX runs_by_plan ON runs (plan, at_s);
CREATE TABLE hops (
  run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, link TEXT NOT NULL,
  strategy TEXT NOT NULL, predicted_bytes_per_s REAL NOT NULL,
  measured_bytes_per_s REAL NOT NULL
);
PRAGMA application_id = 1347178066;
PRAGMA user_version = 1;
"""
"""The tables as layout 1 made them; 1347178066 is "PLNR"."""


def run_on(
    day: int,
    *,
    rate: float = 55e9,
    seconds: float = 2.06,
    plan: str = "llm-load",
    machine: str = "h200-node",
    hour: int = 12,
    size: str = "14GB",
) -> Run:
    """A run of that many days after `FIRST`: its makespan, and the rate of host0 -> gpu0."""
    made = results.run(emulated=False)
    when = datetime.combine(FIRST + timedelta(days=day), time(hour))
    read, dma = made.flows[0].hops
    dma = dma.model_copy(update={"rate_bytes_per_s": rate})
    flow = made.flows[0].model_copy(update={"hops": (read, dma)})
    said = {"name": plan, "flows": {"weights": {"from": "disk0", "to": "gpu0", "size": size}}}
    where = {"date": f"{when.isoformat()}+00:00", "machine": machine}
    return made.model_copy(
        update={
            "flows": (flow,),
            "makespan_s": seconds,
            "estimate": made.estimate.model_copy(update={"plan": said}),
            "environment": made.environment.model_copy(update=where),
        }
    )


def write_layout_1(path: Path, runs: list[Run]) -> None:
    """A database as layout 1 kept these runs."""
    connection = sqlite3.connect(path)
    connection.executescript(LAYOUT_1)
    for run in runs:
        where = run.environment
        at_s = datetime.fromisoformat(where.date).timestamp()
        row = connection.execute(
            "INSERT INTO runs VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)",
            (
                at_s,
                run.estimate.plan["name"],
                where.machine,
                where.backend,
                run.predicted_makespan_s,
                run.makespan_s,
                zlib.compress(run.model_dump_json().encode()),
            ),
        )
        for hop in run.flows[0].hops:
            ends = f"{hop.hop.start} -> {hop.hop.end}"
            rates = hop.predicted_rate_bytes_per_s, hop.rate_bytes_per_s
            connection.execute(
                "INSERT INTO hops VALUES (?, ?, ?, ?, ?)",
                (row.lastrowid, ends, hop.hop.strategy, *rates),
            )
    connection.commit()
    connection.close()
