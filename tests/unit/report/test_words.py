"""The small formats that all pages share."""

from __future__ import annotations

import pytest

from planner.plan.objectives import parse_objective
from planner.report import words
from planner.results import ObjectiveResult
from tests.helpers import results


@pytest.mark.parametrize(
    ("factor", "mark", "text"),
    [
        (1.0, "", "as predicted"),
        (1.004, "", "as predicted"),
        (1.09, "", "1.09× slower"),
        (1.1, "!", "1.10× slower"),
        (1.49, "!", "1.49× slower"),
        (1.5, "!!", "1.50× slower"),
        (3.0, "!!!", "3.00× slower"),
        (0.5, "!!", "2.00× faster"),
        (0.25, "!!!", "4.00× faster"),
    ],
)
def test_an_error_has_a_mark_and_a_direction(factor: float, mark: str, text: str) -> None:
    assert words.error_mark(factor) == mark
    assert words.error_words(factor) == text


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        ((1.85, 2.27), " (1.850 – 2.270 s)"),
        ((0.9, 1.1), " (900.0 ms – 1.100 s)"),
        ((1.0, 1.00001), ""),  # equal in four digits
        (None, ""),
    ],
)
def test_an_interval(interval: tuple[float, float] | None, text: str) -> None:
    assert words.interval_words(interval) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2.06, "s", "2.060 s"),
        (2**27, "bytes", "128 MiB"),
        (7e9, "bytes_per_s", "7 GB/s"),
        (0.5, "share", "50 %"),
        (1.07, "factor", "1.07×"),
        (1.8, "cost", "1.8"),
    ],
)
def test_a_quantity_has_its_unit(value: float, unit: str, text: str) -> None:
    assert words.quantity(value, unit) == text


def test_a_resource_is_a_link_with_its_direction() -> None:
    machine = results.estimate().machine
    assert words.resource_words("pcie0.forward", machine) == "pcie0 (host0 → gpu0)"
    assert words.resource_words("pcie0.backward", machine) == "pcie0 (gpu0 → host0)"
    assert words.resource_words("host0.copy", machine) == "host0 (CPU copies)"
    assert words.resource_words("touch the ring", machine) == "touch the ring"


@pytest.mark.parametrize(
    ("passed", "value", "mark", "text"),
    [
        (True, 2.06, "✓", "margin 17.6 %"),  # (2.5 - 2.06) / 2.5
        (False, 3.0, "✗", "20.0 % over"),
        (None, None, "?", ""),
    ],
)
def test_an_objective(passed: bool | None, value: float | None, mark: str, text: str) -> None:
    objective = results.objective(passed=passed, value=value)
    assert words.objective_mark(objective)[0] == mark
    assert words.margin_words(objective) == text


def test_a_rate_that_is_too_low_is_under() -> None:
    # 5 GB/s of at least 10 GB/s: (5 - 10) / 10.
    objective = results.objective(passed=False, value=5e9, limit=10e9)
    low = objective.model_copy(update={"margin": -0.5, "unit": "bytes_per_s"})
    assert words.margin_words(low) == "50.0 % under"


def test_every_cause_has_words() -> None:
    from typing import get_args

    from planner.results import Cause

    assert set(words.CAUSES) == set(get_args(Cause))


@pytest.mark.parametrize(
    ("text", "metric", "told"),
    [
        ("cost <= 1", "cost", "the machine states no cost"),
        ("disk0.peak <= 50%", "disk0.peak", "the machine states no capacity"),
        ("weights.p95 <= 1s", "weights.p95", "only a run knows"),
    ],
)
def test_a_value_that_is_not_there_says_why(text: str, metric: str, told: str) -> None:
    unit = parse_objective(text).unit
    objective = ObjectiveResult(
        text=text, metric=metric, value=None, limit=0.5, unit=unit, passed=None
    )
    assert words.value_or_why(objective, "only a run knows") == told
