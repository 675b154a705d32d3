"""How long the history takes to answer with many runs in it, and to keep one more.

    python benchmarks/history.py [--runs 100000] [-o FILE.json]

The runs are spread over a year: eight plans on two machines, each with one hop from disk and one to
the GPU. Three answers are timed: the first one, which works out the medians of all days; the ones
after it; and the one after a further run. Each is a process of its own, as a person would start it,
beside the same question to an empty history, which is the start of Python and its imports. The
limit holds for the work of the processor: it does not vary with what else the computer does.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from planner.results import Run
from planner.review.history.database import NAME, writing
from planner.review.history.store import Store, _insert, keep

PLAN = Path(__file__).resolve().parent.parent / "plans" / "llm_load.yaml"
LIMIT_S = 0.5


def main() -> int:
    """Fill a history, ask it, print the seconds; 1 where an answer takes too long."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--runs", type=int, default=100_000)
    arguments.add_argument("-o", "--output", type=Path)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), given.runs)
    print(json.dumps(found, indent=2))
    if given.output:
        given.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0 if found["answer"]["cpu_s"] < LIMIT_S else 1


def measure(folder: Path, count: int) -> dict[str, Any]:
    """Seconds of each answer with `count` runs."""
    run = one_run(folder)
    began = time.perf_counter()
    fill(folder / NAME, run, count)
    filled = time.perf_counter() - began
    first = middle([ask(folder)])
    answers = middle([ask(folder) for _ in range(5)])
    began = time.perf_counter()
    keep(run, folder / NAME)
    kept = time.perf_counter() - began
    after = middle([ask(folder)])
    (folder / "empty").mkdir()
    return {
        "runs": count,
        "load_average": round(os.getloadavg()[0], 1),
        "database_bytes": (folder / NAME).stat().st_size,
        "fill_s": round(filled, 2),
        "keep_one_s": round(kept, 4),
        "first_answer": first,
        "answer": answers,
        "answer_after_a_run": after,
        "one_plan": middle([ask(folder, "--plan", "plan3") for _ in range(3)]),
        "empty": middle([ask(folder / "empty") for _ in range(3)]),
    }


def one_run(folder: Path) -> Run:
    """A run of the example plan on the virtual clock."""
    done = command(folder, "execute", str(PLAN), "--backend", "null", "--no-history", "--json")
    return Run.model_validate_json(done.stdout)


def fill(path: Path, run: Run, count: int) -> None:
    """Keep `count` runs, a year of them: what differs is the day, the plan, and the times."""
    source = random.Random(1)  # noqa: S311 - a simulation
    begin = datetime(2025, 12, 1, tzinfo=UTC)
    document = run.model_dump(mode="json")
    name = document["estimate"]["plan"]["name"]
    with Store.open(path, write=True) as store, writing(store.connection):
        for number in range(count):
            when = begin + timedelta(days=365) * (number / count)
            where = {"date": when.isoformat(timespec="seconds"), "machine": f"m{number % 2}"}
            document["environment"] |= {**where, "backend": "cuda"}
            document["estimate"]["plan"]["name"] = f"plan{number % 8}"
            document["makespan_s"] = run.makespan_s * source.gauss(1.0, 0.03)
            for hop in document["flows"][0]["hops"]:
                hop["rate_bytes_per_s"] = 5e10 * source.gauss(1.0, 0.03)
            _insert(store.connection, document)
    document["estimate"]["plan"]["name"] = name


def ask(folder: Path, *more: str) -> dict[str, float]:
    """Seconds of one `planner history`, from the start of its process to its end."""
    began, before = time.perf_counter(), _work()
    command(folder, "history", *more)
    return {"wall_s": time.perf_counter() - began, "cpu_s": _work() - before}


def middle(answers: list[dict[str, float]]) -> dict[str, float]:
    """The median of each kind of seconds."""
    return {key: round(median(answer[key] for answer in answers), 3) for key in answers[0]}


def _work() -> float:
    """Seconds that processors have worked for the commands so far, whatever else they did."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run planner with its history in `folder`."""
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "planner", *words],
        env=os.environ | {"PLANNER_STATE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )


if __name__ == "__main__":
    sys.exit(main())
