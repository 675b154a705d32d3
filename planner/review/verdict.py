"""The verdict of a result: one value, from which the closing sentence and the exit code come.

>>> combine([12, 10, 0]), combine([10, 6, 3]), combine([])
(10, 3, 0)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner.errors import ExitCode
from planner.results import FlowRun, ObjectiveResult, Verdict


def combine(codes: Iterable[int]) -> int:
    """The one exit code of several: the smallest failure below 10, else the first of 10, 11, 12."""
    failures = sorted(code for code in codes if code != ExitCode.DONE)
    return failures[0] if failures else int(ExitCode.DONE)


@dataclass(frozen=True, slots=True)
class _Part:
    """One clause of the verdict: its sentence and the code that it asks for."""

    sentence: str
    code: ExitCode = ExitCode.DONE


def estimate_verdict(objectives: Sequence[ObjectiveResult]) -> Verdict:
    """The verdict of an estimate: its objectives decide."""
    return _verdict(_objective_parts(objectives))


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
    parts = [_Part(f"{f.name} did not arrive intact.", ExitCode.FAILED) for f in _damaged(flows)]
    parts += _objective_parts(objectives)
    if max_error is not None:
        factors = [error_factor, *(flow.error_factor for flow in flows)]
        parts += _prediction_parts(max(map(distance, factors)), max_error)
    return _verdict(parts)


def distance(factor: float) -> float:
    """How far a factor is from 1, either way: 0.5 and 2 are both 2."""
    return max(factor, 1 / factor) if factor > 0 else float("inf")


def _damaged(flows: Sequence[FlowRun]) -> list[FlowRun]:
    return [flow for flow in flows if flow.verified is False]


def _objective_parts(objectives: Sequence[ObjectiveResult]) -> list[_Part]:
    """What the objectives say; those that the result cannot know are told apart."""
    if not objectives:
        return [_Part("The plan states no objectives.")]
    judged = [o for o in objectives if o.passed is not None]
    missed = sum(not o.passed for o in judged)
    unknown = len(objectives) - len(judged)
    parts = []
    if missed:
        parts.append(_Part(f"{missed} of {_count(len(judged))} missed.", ExitCode.OBJECTIVE))
    elif judged:
        parts.append(_Part(f"All {_count(len(judged))} met." if len(judged) > 1 else _ONE_MET))
    if unknown:
        parts.append(_Part(f"{_count(unknown)} not known to this result."))
    return parts


_ONE_MET = "The objective is met."


def _count(number: int) -> str:
    return f"{number} objective" if number == 1 else f"{number} objectives"


def _prediction_parts(worst: float, allowed: float) -> list[_Part]:
    if worst > allowed:
        sentence = f"Prediction off by {worst:.2f}x, more than {allowed:g}x."
        return [_Part(sentence, ExitCode.PREDICTION)]
    return [_Part(f"Prediction within {allowed:g}x.")]


def _verdict(parts: Sequence[_Part]) -> Verdict:
    code = combine(part.code for part in parts)
    return Verdict(
        passed=code == ExitCode.DONE,
        exit_code=code,
        sentence=" ".join(part.sentence for part in parts),
    )
