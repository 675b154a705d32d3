"""One value: the sentence and the code of every verdict agree, and the smallest failure wins."""

from __future__ import annotations

from itertools import combinations

import pytest

from planner.errors import ExitCode
from planner.review.verdict import combine, distance, estimate_verdict, run_verdict
from tests.helpers import results

FAILURES = [1, 2, 3, 4, 5, 6, 10, 11, 12]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_smallest_code_wins_as_codes_below_10_come_first(size: int) -> None:
    # Every code below 10 is smaller than 10, 11 and 12, so both rules are "the smallest".
    for codes in combinations(FAILURES, size):
        assert combine([0, *codes, 0]) == min(codes)


def test_nothing_failed_is_done() -> None:
    assert combine([]) == combine([0, 0]) == ExitCode.DONE


def test_an_objective_that_nobody_knows_is_neither_met_nor_missed() -> None:
    verdict = estimate_verdict([results.objective(), results.objective(passed=None)])
    assert verdict.exit_code == ExitCode.DONE
    assert verdict.sentence == "The objective is met. 1 objective not known to this result."


def test_missed_objectives_are_counted() -> None:
    missed = results.objective(passed=False)
    verdict = estimate_verdict([results.objective(), missed, missed])
    assert verdict.exit_code == ExitCode.OBJECTIVE
    assert verdict.sentence == "2 of 3 objectives missed."
    assert not verdict.passed


def test_damaged_data_is_worse_than_a_missed_objective() -> None:
    flow = results.flow_run(verified=False)
    missed = [results.objective(passed=False)]
    verdict = run_verdict(missed, [flow], error_factor=1.0)
    assert verdict.exit_code == ExitCode.FAILED
    assert verdict.sentence == "weights did not arrive intact. 1 of 1 objective missed."


@pytest.mark.parametrize(
    ("factor", "code"),
    [
        (1.25, ExitCode.DONE),  # as far off as allowed
        (1.26, ExitCode.PREDICTION),
        (0.8, ExitCode.DONE),  # 1 / 0.8 = 1.25
        (0.79, ExitCode.PREDICTION),  # 1 / 0.79 = 1.266
    ],
)
def test_a_prediction_is_held_to_the_factor_either_way(factor: float, code: ExitCode) -> None:
    flow = results.flow_run(factor=1.0)
    verdict = run_verdict([], [flow], error_factor=factor, max_error=1.25)
    assert verdict.exit_code == code


def test_one_flow_that_is_off_is_enough() -> None:
    flows = [results.flow_run(), results.flow_run("kv", factor=2.0)]
    verdict = run_verdict([], flows, error_factor=1.0, max_error=1.5)
    assert verdict.sentence.endswith("Prediction off by 2.00x, more than 1.5x.")
    assert verdict.exit_code == ExitCode.PREDICTION


def test_distance_is_the_same_for_twice_and_half() -> None:
    assert distance(2.0) == distance(0.5) == 2.0
    assert distance(0.0) == float("inf")
