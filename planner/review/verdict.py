"""The verdict of a result: one value, from which the closing sentence and the exit code come.

>>> combine([12, 10, 0]), combine([10, 6, 3]), combine([])
(10, 3, 0)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from planner.errors import ExitCode
from planner.results import FlowRun, ObjectiveResult, Verdict, VerdictPart

if TYPE_CHECKING:
    from planner.results.diff import Gate


def combine(codes: Iterable[int]) -> int:
    """The one exit code of several: the smallest failure below 10, else the first of 10, 11, 12.

    What was interrupted is not judged.
    """
    failures = sorted(code for code in codes if code != ExitCode.DONE)
    if ExitCode.INTERRUPTED in failures:
        return int(ExitCode.INTERRUPTED)
    return failures[0] if failures else int(ExitCode.DONE)


def estimate_verdict(objectives: Sequence[ObjectiveResult]) -> Verdict:
    """The verdict of an estimate: its objectives decide."""
    return verdict_of(_objective_parts(objectives))


def run_verdict(
    objectives: Sequence[ObjectiveResult],
    flows: Sequence[FlowRun],
    *,
    error_factor: float,
    max_error: float | None = None,
) -> Verdict:
    """The verdict of a run: data that arrived intact, objectives, and the prediction.

    Parameters
    ----------
    objectives
        judged on the measurement.
    flows
        of the run; `verified` false fails it.
    error_factor
        measured by predicted makespan.
    max_error
        largest allowed factor between prediction and measurement, either way; from 1 up.
    """
    parts = [*_intact_parts(flows), *_objective_parts(objectives)]
    if max_error is not None:
        factors = [error_factor, *(flow.error_factor for flow in flows)]
        parts += _prediction_parts(max(map(distance, factors)), max_error)
    return verdict_of(parts)


def diff_verdict(
    changes: str,
    objectives: Sequence[ObjectiveResult],
    flows: Sequence[FlowRun] = (),
    *,
    gates: Sequence[Gate] = (),
    fail_above: str | None = None,
    error_factor: float = 1.0,
    max_error: float | None = None,
) -> Verdict:
    """The verdict of a comparison: B as its own verdict has it, and no regression from A.

    Parameters
    ----------
    changes
        the sentences that count what became faster and slower.
    objectives
        judged on B.
    flows
        of B where it is a run; `verified` false fails it.
    gates
        every metric held against `fail_above`.
    error_factor, max_error
        as for `run_verdict`, of B.
    """
    parts = [VerdictPart(about="summary", sentence=changes), *_intact_parts(flows)]
    if objectives:
        parts += _objective_parts(objectives)
    if fail_above is not None:
        parts += _regression_parts(gates, fail_above)
    if max_error is not None:
        factors = [error_factor, *(flow.error_factor for flow in flows)]
        parts += _prediction_parts(max(map(distance, factors)), max_error)
    return verdict_of(parts)


def distance(factor: float) -> float:
    """How far a factor is from 1, either way: 0.5 and 2 are both 2."""
    return max(factor, 1 / factor) if factor > 0 else float("inf")


def verdict_of(parts: Sequence[VerdictPart]) -> Verdict:
    """The verdict that these clauses make together: the one place where a code is decided."""
    code = combine(part.exit_code for part in parts)
    return Verdict(
        passed=code == ExitCode.DONE,
        exit_code=code,
        sentence=" ".join(part.sentence for part in parts),
        parts=tuple(parts),
    )


def _intact_parts(flows: Sequence[FlowRun]) -> list[VerdictPart]:
    return [
        VerdictPart(
            about="intact",
            sentence=f"{flow.name} did not arrive intact.",
            exit_code=ExitCode.FAILED,
        )
        for flow in flows
        if flow.verified is False
    ]


def _objective_parts(objectives: Sequence[ObjectiveResult]) -> list[VerdictPart]:
    """What the objectives say; those that the result cannot know are told apart."""
    if not objectives:
        return [VerdictPart(about="objectives", sentence="The plan states no objectives.")]
    judged = [o for o in objectives if o.passed is not None]
    missed = sum(not o.passed for o in judged)
    unknown = len(objectives) - len(judged)
    said = []
    if missed:
        said.append(f"{missed} of {_count(len(judged))} missed.")
    elif judged:
        said.append(f"All {_count(len(judged))} met." if len(judged) > 1 else _ONE_MET)
    if unknown:
        said.append(f"{_count(unknown)} not known to this result.")
    code = ExitCode.OBJECTIVE if missed else ExitCode.DONE
    return [VerdictPart(about="objectives", sentence=" ".join(said), exit_code=code)]


_ONE_MET: Final = "The objective is met."


def _count(number: int) -> str:
    return f"{number} objective" if number == 1 else f"{number} objectives"


def _prediction_parts(worst: float, allowed: float) -> list[VerdictPart]:
    if worst > allowed:
        sentence = f"Prediction off by {worst:.2f}x, more than {allowed:g}x."
        code = ExitCode.PREDICTION
        return [VerdictPart(about="prediction", sentence=sentence, exit_code=code)]
    return [VerdictPart(about="prediction", sentence=f"Prediction within {allowed:g}x.")]


def _regression_parts(gates: Sequence[Gate], allowed: str) -> list[VerdictPart]:
    failed = [gate.metric for gate in gates if not gate.passed]
    if not failed:
        return [VerdictPart(about="regression", sentence=f"No regression beyond {allowed}.")]
    names = ", ".join(failed[:_NAMED])
    more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
    sentence = f"Regression beyond {allowed}: {names}{more}."
    code = ExitCode.REGRESSION
    return [VerdictPart(about="regression", sentence=sentence, exit_code=code)]


_NAMED: Final = 3
"""Regressions that the sentence names; the page lists all."""
