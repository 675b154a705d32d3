"""Thirteen published measurements of loads and copies, and what the model says of each.

    python benchmarks/public_cases.py --json benchmarks/results/public_cases.json

Each case is a plan with its machine (`cases/*.yaml`, `cases/machines/*.yaml`), which hold what a
report gives as conditions. What it observed lies in `cases/answers.tsv`: seconds or bytes a second
of each flow, the tolerance, and for the flow that the report is about what limited it. A row whose
`role` is `given` repeats a figure that went into the machine; only `predicted` rows test anything.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

import planner
from planner.plan.load import load_plan
from planner.results import Estimate, FlowEstimate
from planner.units import format_time

CASES = Path(__file__).resolve().parent / "cases"


@dataclass(frozen=True)
class Answer:
    """What a report observed of one flow, and what it found to be the limit.

    `graded` says that the seconds must be within `tolerance`, `main` that the limit must be named;
    `resource` is a pattern, `causes` are the words of `planner.results.Cause` that fit.
    """

    case: str
    flow: str
    given: bool
    observed_s: float | None
    observed_bytes_per_s: float | None
    tolerance: float | None
    graded: bool
    resource: str
    causes: tuple[str, ...]
    main: bool
    verdict: str
    source: str


@dataclass(frozen=True)
class Outcome:
    """One flow of a case: predicted beside observed, and whether the limit was named rightly.

    `error` is (predicted - observed) / observed of the seconds. `named` and `within` are `None`
    where the report does not settle it.
    """

    answer: Answer
    predicted_s: float
    predicted_bytes_per_s: float
    observed_s: float | None
    error: float | None
    resource: str
    cause: str
    named: bool | None
    within: bool | None


def answers() -> list[Answer]:
    """Every row of the table of answers, in its order."""
    with (CASES / "answers.tsv").open(encoding="utf-8", newline="") as file:
        return [
            _answer(row) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]


def _answer(row: dict[str, str]) -> Answer:
    def number(key: str) -> float | None:
        return float(row[key]) if row[key] else None

    return Answer(
        case=row["case"],
        flow=row["flow"],
        given=row["role"] == "given",
        observed_s=number("observed_s"),
        observed_bytes_per_s=number("observed_bytes_per_s"),
        tolerance=number("tolerance"),
        graded=row["graded"] == "yes",
        resource=row["resource"],
        causes=tuple(row["cause"].split("|")) if row["cause"] else (),
        main=row["main"] == "yes",
        verdict=row["verdict"],
        source=row["source"],
    )


def outcomes() -> Iterator[Outcome]:
    """The prediction of every flow that has an answer, case by case.

    What a case does one after another were runs of their own, which began with empty memories: a
    flow is predicted together with those alone that begin when it does.
    """
    estimates: dict[tuple[str, tuple[str, ...]], Estimate] = {}
    for answer in answers():
        path = CASES / f"{answer.case}.yaml"
        flows = load_plan(path).plan.flows
        run = tuple(n for n, flow in flows.items() if flow.after == flows[answer.flow].after)
        key = answer.case, run
        if key not in estimates:
            estimates[key] = planner.estimate(path, only=run)
        yield _outcome(answer, estimates[key])


def _outcome(answer: Answer, estimate: Estimate) -> Outcome:
    """Flows to several places count as one: all their bytes, until the last has its own."""
    copies = [f for f in estimate.flows if f.name.partition("[")[0] == answer.flow]
    last: FlowEstimate = max(copies, key=lambda flow: flow.duration_s)
    size = sum(flow.size_bytes for flow in copies)
    predicted = last.duration_s
    observed = answer.observed_s
    if observed is None and answer.observed_bytes_per_s is not None:
        observed = size / answer.observed_bytes_per_s
    error = None if observed is None else (predicted - observed) / observed
    limit = last.bottleneck
    named = within = None
    if answer.resource:
        named = fnmatchcase(limit.resource, answer.resource) and limit.cause in answer.causes
    if error is not None and answer.tolerance is not None:
        within = abs(error) <= answer.tolerance
    return Outcome(
        answer,
        predicted,
        size / predicted,
        observed,
        error,
        limit.resource,
        limit.cause,
        named,
        within,
    )


def summary(found: Sequence[Outcome]) -> dict[str, object]:
    """How many limits were named, how many graded seconds held, and how far held-out rows are."""
    main = [row for row in found if row.answer.main]
    graded = [row for row in found if row.answer.graded]
    held_out = sorted(
        _factor(row.error) for row in found if not row.answer.given and row.error is not None
    )
    return {
        "cases": len(main),
        "limits_named": sum(bool(row.named) for row in main),
        "limits_missed": [row.answer.case for row in main if not row.named],
        "graded_seconds": len(graded),
        "graded_seconds_within": sum(bool(row.within) for row in graded),
        "predicted_rows": len(held_out),
        "predicted_rows_median_error_factor": held_out[len(held_out) // 2],
        "predicted_rows_worst_error_factor": held_out[-1],
    }


def _factor(error: float) -> float:
    """An error of either sign as a factor from 1 up."""
    ratio = 1 + error
    return max(ratio, 1 / ratio)


def markdown(found: Sequence[Outcome]) -> list[str]:
    """The rows as the table of `docs/model.md`."""
    lines = [
        "| case | flow | predicted | observed | error | what limits | right |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in found:
        error = "" if row.error is None else "given" if row.answer.given else f"{row.error:+.1%}"
        cells = (
            row.answer.case,
            row.answer.flow,
            format_time(row.predicted_s),
            "" if row.observed_s is None else format_time(row.observed_s),
            error.replace("-", "−"),
            f"{row.resource}, {row.cause}",
            {None: "", True: "yes", False: "**no**"}[row.named],
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> int:
    """Print the table, and write it where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table there too")
    parser.add_argument("--markdown", action="store_true", help="print the table of the docs")
    options = parser.parse_args()
    found = list(outcomes())
    if options.markdown:
        print("\n".join(markdown(found)))
        return 0
    for row in found:
        print(_line(row))
    totals = summary(found)
    print(
        f"{totals['limits_named']} of {totals['cases']} limits named, "
        f"{totals['graded_seconds_within']} of {totals['graded_seconds']} graded times within "
        "their tolerance"
    )
    if options.json:
        record = {
            "command": " ".join(["python", *sys.argv]),
            "planner": planner.__version__,
            "summary": totals,
            "rows": [asdict(row) for row in found],
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


def _line(row: Outcome) -> str:
    """One row of the table for people."""
    answer = row.answer
    observed = "" if row.observed_s is None else format_time(row.observed_s)
    error = "" if row.error is None else f"{row.error:+.1%}"
    marks = {None: "", True: "right", False: "WRONG"}[row.named]
    bound = f"of {answer.tolerance:.0%}" if answer.graded and answer.tolerance else ""
    return (
        f"{answer.case} {answer.flow:11} {'given' if answer.given else '':6}"
        f"{format_time(row.predicted_s):>9} {observed:>9} {error:>8} {bound:7}"
        f" {row.resource:17} {row.cause:13} {marks}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
