from __future__ import annotations

import pytest

from planner.plan.objectives import METRICS, OPERATORS, parse_objective
from planner.plan.words import WrittenError
from planner.units import UnitError


@pytest.mark.parametrize(
    ("text", "subject", "metric", "operator", "limit", "unit"),
    [
        ("weights.duration <= 10s", "weights", "duration", "<=", 10.0, "s"),
        ("weights.duration<=10s", "weights", "duration", "<=", 10.0, "s"),
        ("kv-cache.rate >= 6GB/s", "kv-cache", "rate", ">=", 6e9, "bytes_per_s"),
        ("makespan < 90s", "", "makespan", "<", 90.0, "s"),
        ("cost <= 12.5", "", "cost", "<=", 12.5, "cost"),
        ("pcie0.busy > 50%", "pcie0", "busy", ">", 0.5, "share"),
        ("node3.gpu0.peak <= 80%", "node3.gpu0", "peak", "<=", 0.8, "share"),
        ("host0.pinned <= 512MiB", "host0", "pinned", "<=", 512 * 2**20, "bytes"),
        ("weights.error <= 1.15x", "weights", "error", "<=", 1.15, "factor"),
    ],
)
def test_an_objective_is_taken_apart(
    text: str, subject: str, metric: str, operator: str, limit: float, unit: str
) -> None:
    objective = parse_objective(text)
    assert (objective.subject, objective.metric) == (subject, metric)
    assert (objective.operator, objective.limit, objective.unit) == (operator, limit, unit)
    assert objective.text == text


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("weights.duration", "makespan <= 10s"),
        ("weights.duration == 10s", "did you mean <=?"),
        ("weights.duration => 10s", "did you mean >=?"),
        ("weights.duration ≤ 10s", "did you mean <=?"),
        ("weights.duration <> 10s", "use <=, >=, < or >"),
        ("weights.duraton <= 10s", "did you mean duration?"),
        ("weights.xyzzy <= 10s", "use one of duration"),
        ("duration <= 10s", "write <flow>.duration"),
        ("busy <= 10%", "write <link>.busy"),
        ("weights.makespan <= 10s", "write makespan alone"),
        ("makespan <=", "makespan <= 10s"),
        ("cost <= much", "write a number"),
        ("cost <= -1", "write a number"),
        ("cost <= inf", "write a number"),
        ("x" * 600 + " <= 1s", "makespan <= 10s"),
    ],
)
def test_a_bad_objective_comes_with_advice(text: str, advice: str) -> None:
    with pytest.raises(WrittenError) as caught:
        parse_objective(text)
    assert caught.value.suggestion is not None
    assert advice in caught.value.suggestion


def test_a_limit_in_the_wrong_unit_is_a_unit_error() -> None:
    with pytest.raises(UnitError, match="not a unit of time"):
        parse_objective("weights.duration <= 10GB")


@pytest.mark.parametrize(
    ("operator", "below", "equal", "above"),
    [
        ("<=", True, True, False),
        ("<", True, False, False),
        (">=", False, True, True),
        (">", False, False, True),
    ],
)
def test_operators_compare(operator: str, *, below: bool, equal: bool, above: bool) -> None:
    objective = parse_objective(f"makespan {operator} 10s")
    assert [objective.met(value) for value in (9.0, 10.0, 11.0)] == [below, equal, above]


def test_the_table_of_metrics_is_closed_and_documented() -> None:
    assert set(OPERATORS) == {"<=", ">=", "<", ">"}
    assert list(METRICS) == [
        *("duration", "first", "steady", "rate", "exposed", "p50", "p95", "error"),
        *("makespan", "busy", "peak", "pinned", "cost"),
    ]
    assert {name for name, metric in METRICS.items() if metric.of == "run"} == {
        *("p50", "p95", "error")
    }
