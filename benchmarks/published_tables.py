"""Published tables of copies, row by row: what the model predicts beside what was published.

    python benchmarks/published_tables.py --json benchmarks/results/published_tables.json

The tables lie in `tests/data/tables`, each with its source; `published_rows.py` says how each row
is predicted. Rows that went into a prediction are not counted, rows that cannot be said are listed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

import planner
from benchmarks.published_rows import Row, every_row
from planner.units import format_rate, format_time


def summary(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """For each table and way of predicting: rows, median and worst error factor."""
    found: dict[str, dict[str, Any]] = {}
    for table in sorted({row.table for row in rows}):
        mine = [row for row in rows if row.table == table]
        told: dict[str, Any] = {
            "rows": len(mine),
            "kept": sum(row.how == "kept" for row in mine),
            "not_expressible": sum(row.how == "not expressible" for row in mine),
        }
        for how in ("held out", "composed", "other machine"):
            factors = [row.factor for row in mine if row.how == how and row.factor is not None]
            if factors:
                told[how] = {
                    "rows": len(factors),
                    "median_error_factor": statistics.median(factors),
                    "worst_error_factor": max(factors),
                }
        found[table] = told
    return found


WHAT = {
    "t1": "copies over the BAR by size, V100",
    "t2": "send and receive by size, A100 and H100",
    "t3": "host and device, by strategy",
    "t4": "GPU to GPU",
    "t5": "pinning and small copies",
    "t6": "storage and managed memory",
    "t7": "three staged legs",
    "t8": "RDMA in chunks",
}


def markdown(rows: Sequence[Row]) -> list[str]:
    """The summary as the table of `docs/model.md`."""
    lines = [
        "| table | rows | kept | not expressible | predicted | rows so | median | worst |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for table, told in summary(rows).items():
        head = [f"{table} {WHAT[table]}"]
        head += [str(told[key]) for key in ("rows", "kept", "not_expressible")]
        for how in ("held out", "composed", "other machine"):
            if how in told:
                errors = [f"{told[how][f'{k}_error_factor']:.3f}" for k in ("median", "worst")]
                lines.append(f"| {' | '.join([*head, how, str(told[how]['rows']), *errors])} |")
                head = [""] * 4
    return lines


def main() -> int:
    """Print rows and summary, and write both where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    parser.add_argument("--markdown", action="store_true", help="print the table of the docs")
    options = parser.parse_args()
    rows = list(every_row())
    if options.markdown:
        print("\n".join(markdown(rows)))
        return 0
    for row in rows:
        print(_line(row))
    totals = summary(rows)
    for table, told in totals.items():
        print(table, json.dumps(told))
    if options.json:
        record = {
            "command": " ".join(["python", *sys.argv]),
            "planner": planner.__version__,
            "summary": totals,
            "rows": [asdict(row) | {"error_factor": row.factor} for row in rows],
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


def _line(row: Row) -> str:
    """One row for people."""
    shown = format_time if row.unit == "s" else format_rate
    published = "" if row.published is None else shown(row.published)
    predicted = "" if row.predicted is None else shown(row.predicted)
    factor = "" if row.factor is None else f"{row.factor:.3f}x"
    return f"{row.table} {row.name:48} {published:>10} {predicted:>10} {factor:>7} {row.how}"


if __name__ == "__main__":
    raise SystemExit(main())
