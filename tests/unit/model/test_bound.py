"""The lower bound: never above the makespan, and the makespan where nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest

from planner.model.estimate import estimate
from tests.helpers.machines import GB, two_gpus
from tests.helpers.plans import down, plan_of, up


@pytest.mark.parametrize(
    ("flows", "bound"),
    [
        ({"a": up()}, 0.1),
        ({"a": up(), "b": up()}, 0.2),  # 2 GB through one wire
        ({"a": up(), "b": up(after="a", to="gpu1")}, 0.2),  # one after the other
        ({"a": up(start="1s")}, 1.1),
        ({"a": up(repeat=3)}, 0.3),
        ({"a": up(repeat=3), "b": down(repeat=3, after="a")}, 0.4),  # one ahead of the other
    ],
)
def test_the_bound_is_met_where_nothing_is_lost(flows: dict[str, Any], bound: float) -> None:
    predicted = estimate(plan_of(flows), two_gpus(None))
    assert predicted.lower_bound_s == pytest.approx(bound, rel=1e-3)
    assert predicted.gap == pytest.approx(0.0, abs=1e-3)


def test_the_gap_says_what_dependencies_cost() -> None:
    # a and b share the wire (0.2 s); c, on the other link, begins when both are done: 0.3 s. The
    # chain alone is 0.1 + 0.1, the wire carries 0.2: bound 0.2, gap one half.
    flows = {"a": up(), "b": up(), "c": up(to="gpu1", after=["a", "b"], size=GB)}
    predicted = estimate(plan_of(flows), two_gpus(None))
    assert predicted.makespan_s == pytest.approx(0.3, rel=1e-3)
    assert predicted.lower_bound_s == pytest.approx(0.2, rel=1e-3)
    assert predicted.gap == pytest.approx(0.5, rel=5e-3)
